"""Guards of lanes, lineages and their healing."""

from __future__ import annotations

from tests.guards.guard import Guard

_REORGANISATIONS = "tests/transactions/test_reorganisations.py"
_NODE_ANSWERS = "tests/transactions/test_node_answers.py"
_HALTS = "tests/transactions/test_halts.py"
_LANES = "tests/transactions/test_lane_watch.py"
_LANE_RULES = "tests/transactions/test_lane_rules.py"
_WORLD = "tests/transactions/test_world.py"

OF_TRANSACTIONS_2 = (
    Guard(
        "no signature is kept after a halt",
        "tayho/transactions/journal.py",
        "            if not await held_unhalted(tx, self._settings):\n"
        "                return [PoolHalted() for _ in persistences]\n",
        "",
        f"{_HALTS}::test_no_signature_commits_after_the_halt_has",
    ),
    Guard(
        "a halt waits for whoever found the pool unhalted",
        "sql/transactions/halts.sql",
        "role = $3 FOR UPDATE;",
        "role = $3;",
        f"{_HALTS}::test_no_signature_commits_after_the_halt_has",
    ),
    Guard(
        "no nonce is taken of a halted pool",
        "tayho/transactions/journal.py",
        "            if is_halted:\n                return [PoolHalted() for _ in allocations]\n",
        "",
        f"{_HALTS}::test_nothing_is_allocated_signed_or_ended_while_a_halt_is_open",
    ),
    Guard(
        "nothing ends after a halt",
        "tayho/transactions/reconciler.py",
        "            if not await held_unhalted(tx, self._settings):\n                raise PoolHalted\n",
        "",
        f"{_HALTS}::test_a_tick_under_way_ends_nothing_after_a_halt",
    ),
    Guard(
        "the reserve is never spent on new work",
        "tayho/transactions/lane_rules.py",
        "    return facts.value_in_flight_wei + reserve + room_wei(facts, fee_wei_max, needs)\n",
        "    return facts.value_in_flight_wei + room_wei(facts, fee_wei_max, needs)\n",
        f"{_LANE_RULES}::test_what_an_open_lane_keeps_back_pays_for_all_that_may_have_to_be_sent",
    ),
    Guard(
        "a lane that somebody else used takes nothing",
        "tayho/transactions/round_robin.py",
        " or (lane.latest_nonce is not None and lane.latest_nonce > lane.next_nonce):",
        ":",
        f"{_LANE_RULES}::test_a_delegated_lane_has_one_in_flight_and_a_used_one_none",
    ),
    Guard(
        "a delegated signer has one in flight",
        "tayho/transactions/round_robin.py",
        "(1 if lane.is_delegated else depth)",
        "depth",
        f"{_LANES}::test_a_delegated_signer_has_one_in_flight",
    ),
    Guard(
        "nothing is signed at a nonce that somebody else used",
        "tayho/transactions/executor.py",
        ' and lineage.state == "allocated" and await self.journal.is_taken(lineage):',
        " and not lineage:",
        f"{_LANES}::test_a_job_whose_unsigned_nonce_was_used_elsewhere_takes_another",
    ),
    Guard(
        "nonces that our own database forgot are not foreign",
        "tayho/transactions/lane_rules.py",
        "fence < view.latest_nonce <= fence_seen",
        "fence_seen < 0",
        f"{_LANES}::test_a_database_that_lost_commits_under_us_halts_the_pool",
    ),
    Guard(
        "a heartbeat out of a backup proves nobody",
        "tayho/transactions/world.py",
        "one.heartbeat_age_seconds < trio.current_time() - began",
        "one.heartbeat_age_seconds < 30",
        f"{_WORLD}::test_a_start_beside_others_takes_their_word_only_if_they_speak_now",
    ),
    Guard(
        "a chain that did not begin anew is not restarted on",
        "tayho/transactions/world_acts.py",
        "        await self._require_gone()\n",
        "",
        f"{_WORLD}::test_a_chain_ahead_at_start_halts_and_adopt_goes_on_behind_it",
    ),
    Guard(
        "the anchor is compared before every tick",
        "tayho/transactions/module.py",
        "        await self._world.check()\n",
        "",
        f"{_WORLD}::test_a_halt_for_a_chain_that_was_not_there_ends_when_it_is",
    ),
    Guard(
        "the signal of a reorganisation is written down before anything moves",
        "tayho/transactions/reorganising.py",
        """            await self._record(head, judgement.reorganised)
            await self._revive_all(judgement.reorganised)
""",
        """            await self._revive_all(judgement.reorganised)
            await self._record(head, judgement.reorganised)
""",
        f"{_REORGANISATIONS}::test_who_dies_in_between_leaves_the_rest_to_the_next",
    ),
    Guard(
        "a height that is not agreed is no other block",
        "tayho/transactions/reorganising_rules.py",
        """    if not isinstance(now, Header) or now.hash == block.hash:
        return None
    return Replaced(block.number, block.hash, now.hash)
""",
        """    if isinstance(now, Header) and now.hash == block.hash:
        return None
    return Replaced(block.number, block.hash, bytes(32))
""",
        "tests/transactions/test_healing_rules.py::test_only_another_block_that_is_agreed_is_a_reorganisation",
    ),
    Guard(
        "a restart holds the chain to the boundary",
        "tayho/transactions/reorganising.py",
        "        if judgement.violated:\n",
        "        if False:\n",
        "tests/transactions/test_finality.py::test_two_heads_are_held_to_one_boundary",
    ),
    Guard(
        "a disowned lineage's call is not sent again",
        "tayho/transactions/reconcile_rules.py",
        "        return self.active.is_cancellation or not self.is_unwanted\n",
        "        return True\n",
        f"{_REORGANISATIONS}::test_a_lineage_whose_job_went_on_without_it_is_disowned",
    ),
    Guard(
        "one of ours in the block of the nonce supersedes nothing",
        "tayho/transactions/superseding_rules.py",
        "    if any(one.hash in lineage.tx_hashes for one in transactions):\n        return Ours()\n",
        "",
        "tests/transactions/test_superseding.py::test_receipts_that_lag_hold_ours_for_as_long_as_the_block_shows_it",
    ),
    Guard(
        "only what is final supersedes",
        "tayho/transactions/superseding.py",
        "        height = head.number - self._settings.confirmations\n",
        "        height = head.number\n",
        "tests/transactions/test_superseding.py::test_what_is_not_final_yet_supersedes_nothing",
    ),
    Guard(
        "a lane keeps what its bytes cost",
        "tayho/transactions/lane_rules.py",
        "        data_fee_wei=needs.data_fee_wei,\n",
        "",
        "tests/transactions/test_data_fees.py::test_a_lane_closes_before_it_cannot_pay_for_its_bytes",
    ),
    Guard(
        "what nodes differ about is as high as a majority says",
        "rpc/truth.py",
        "numbers[needed - 1]",
        "numbers[0]",
        "tests/transactions/test_data_fees.py::test_one_liar_of_three_moves_no_need",
    ),
    Guard(
        "a known transaction is one word, not the end of another",
        "tayho/transactions/node_answers.toml",
        r"patterns = ['\bknown transaction\b']",
        r"patterns = ['known transaction\b']",
        f"{_NODE_ANSWERS}::test_what_only_resembles_a_yes_is_none",
    ),
    Guard(
        "a client's bare word is believed of that client alone",
        "tayho/transactions/node_answers.py",
        "row.fits(code, words) and (not row.is_dialect or row.is_said_by(client))",
        "row.fits(code, words)",
        f"{_NODE_ANSWERS}::test_a_clients_own_words_count_only_from_it",
    ),
)
