"""Guards of intents, their batches and their results."""

from __future__ import annotations

from tests.guards.guard import Guard

_LINE = "tests/intents/test_line.py"
_BATCHES = "tests/intents/test_batches.py"

OF_INTENTS = (
    Guard(
        "one claim of the line at a time",
        "sql/intents/intents.sql",
        "FOR NO KEY UPDATE;",
        ";",
        f"{_LINE}::test_a_claim_waits_for_another_and_no_client_waits_for_either",
    ),
    Guard(
        "what is claimed still is the front of the line",
        "tayho/intents/batcher.py",
        'takewhile(lambda pair: pair[0].waiting.job_id == pair[1]["job_id"], pairs)',
        "takewhile(lambda pair: True, zip(entries, entries, strict=True))",
        f"{_LINE}::test_what_another_relayer_took_meanwhile_is_left_to_it",
    ),
    Guard(
        "a stipend is what a majority says is needed",
        "tayho/intents/batcher.py",
        "        if self._sight.reached is None or not waiting:\n",
        "        if True:\n",
        f"{_LINE}::test_one_endpoint_moves_no_stipend",
    ),
    Guard(
        "an intent is in one batch",
        "sql/migrations/0009_intents.sql",
        "CREATE UNIQUE INDEX children_one_batch",
        "CREATE INDEX children_one_batch",
        f"{_LINE}::test_the_database_refuses_an_intent_a_second_batch",
    ),
    Guard(
        "no child outlives its batch",
        "sql/migrations/0002_coordination.sql",
        "NEW.state IN ('dead', 'not_actionable', 'quarantined')\n    AND OLD.state",
        "NEW.state IN ('dead', 'quarantined')\n    AND OLD.state",
        "tests/coordination/test_batching.py::test_however_a_batch_ends_without_an_effect_its_children_end_with_it",
    ),
    Guard(
        "a batch is replayed with all its children or not at all",
        "tayho/coordination/control/rules.py",
        "    if job.children_missing:\n",
        "    if False:\n",
        "tests/coordination/test_batching.py::test_a_batch_whose_children_are_elsewhere_is_not_replayed",
    ),
    Guard(
        "each child has one log",
        "tayho/intents/batch_rules.py",
        "        if one.child_index in results:\n",
        "        if False:\n",
        "tests/intents/test_batch_rules.py::test_what_is_missing_double_or_foreign_is_no_result",
    ),
    Guard(
        "who does not know the kind reads no result",
        "tayho/transactions/results.py",
        '            return Unread(lineage, final, f"this process knows no kind',
        '            return Judged(lineage, final) or Unread(lineage, final, f"this process knows no kind',
        "tests/transactions/test_results.py::test_a_process_that_does_not_know_the_kind_ends_nothing_of_it",
    ),
    Guard(
        "a majority alone ends an intent unbatched",
        "tayho/intents/batcher.py",
        "        if doubtful and self._sight.agreed is not None:\n",
        "        if False:\n",
        f"{_BATCHES}::test_that_it_would_revert_is_believed_of_a_majority_alone",
    ),
)
