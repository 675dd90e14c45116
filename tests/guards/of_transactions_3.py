"""Guards of lanes, lineages and their healing."""

from __future__ import annotations

from tests.guards.guard import Guard

_HOLDS = "tests/transactions/test_holds.py"

OF_TRANSACTIONS_3 = (
    Guard(
        "an attempt ends as confirming whatever the node said",
        "tayho/transactions/journal.py",
        "confirm_if_current(tx, [one.attempt for one in marks])",
        "confirm_if_current(tx, [one.attempt for one in marks if one.answer.is_out])",
        f"{_HOLDS}::test_a_send_that_is_refused_spends_one_attempt_and_no_more",
    ),
    Guard(
        "a node's words end no hold but a node's",
        "tayho/transactions/answers.py",
        "await _release(tx, list(taken), ANSWER_HOLDS,",
        "await _release(tx, list(taken), get_args(Hold),",
        f"{_HOLDS}::test_only_what_a_node_held_is_held_or_released_by_a_nodes_words",
    ),
    Guard(
        "a late no does not hold what a block shows",
        "sql/transactions/holds.sql",
        "lineages.state IN ('signed', 'broadcast') AND lineages.included_block_number IS NULL\n",
        "lineages.state IN ('signed', 'broadcast')\n",
        f"{_HOLDS}::test_a_late_no_does_not_hold_what_a_block_shows",
    ),
    Guard(
        "against a yes to the same transaction nobody speaks",
        "tayho/transactions/answers.py",
        "if means.hold is not None and lineages[one.tx_hash] not in taken",
        "if means.hold is not None",
        f"{_HOLDS}::test_a_yes_to_one_of_a_batch_holds_only_the_others",
    ),
    Guard(
        "what a node says is stored without the bytes it was sent",
        "tayho/transactions/broadcast.py",
        "_withheld(classify(tx_hash, answer, client), raw)",
        "classify(tx_hash, answer, client)",
        "tests/crash/test_secrets.py::test_signed_bytes_and_keys_are_nowhere_to_be_read",
    ),
    Guard(
        "a call reverts for good by a majority's word",
        "tayho/transactions/executor.py",
        "        if isinstance(foreseen, Foreseen) or self._agreed is None:\n",
        "        if True:\n",
        "tests/transactions/test_agreed_ends.py::test_one_endpoint_ends_no_job",
    ),
    Guard(
        "nothing is wanted any more by a majority's word",
        "tayho/transactions/executor.py",
        "        if isinstance(found, NotActionable) and self._agreed is not None:\n",
        "        if False:\n",
        "tests/transactions/test_agreed_ends.py::test_one_endpoint_ends_no_job",
    ),
    Guard(
        "what stays refused waits",
        "tayho/transactions/resending_rules.py",
        "            return seconds_ago >= (wait_ticks(said.in_a_row) - 1) * tick_seconds\n",
        "            return True\n",
        "tests/transactions/test_resending_rules.py::test_an_ended_cause_ends_the_wait",
    ),
    Guard(
        "funds that came back end the wait for them",
        "tayho/transactions/resending_rules.py",
        '        case "insufficient_funds" if around.is_funded:\n',
        '        case "insufficient_funds" if False:\n',
        "tests/transactions/test_resending_rules.py::test_an_ended_cause_ends_the_wait",
    ),
)
