"""Guards of lanes, lineages and their healing."""

from __future__ import annotations

from tests.guards.guard import Guard

_FEES = "tests/transactions/test_fees.py"
_PROOFS = "tests/transactions/test_proofs.py"
_LIARS = "tests/transactions/test_liars.py"
_EXECUTOR = "tests/transactions/test_executor.py"
_SENDING = "tests/transactions/test_sending.py"
_SENDING_FILE = "tayho/transactions/sending.py"
_REPLACING = "tests/transactions/test_replacing.py"
_REPLACING_RULES = "tests/transactions/test_replacing_rules.py"
_RULES_OF_REPLACING = "tayho/transactions/replacing/rules.py"

OF_TRANSACTIONS_1 = (
    Guard(
        "a nonce belongs to one lineage",
        "sql/migrations/0003_transactions.sql",
        "CREATE UNIQUE INDEX lineages_nonce ON transactions.lineages (chain_id, signer, world, nonce) WHERE",
        "CREATE INDEX lineages_nonce ON transactions.lineages (chain_id, signer, world, nonce) WHERE",
        "tests/transactions/test_journal.py::test_two_lineages_never_hold_one_nonce",
    ),
    Guard(
        "a liar far ahead does not raise the head",
        "rpc/segment.py",
        "told[needed - 1]",
        "told[0]",
        "tests/transactions/test_liars.py::test_one_liar_of_three_moves_no_decision_and_is_named",
    ),
    Guard(
        "the reconciler believes a majority",
        "tayho/voters.py",
        "quorum = Quorum(voters, contested)",
        "quorum = Quorum(voters[:1], contested)",
        f"{_LIARS}::test_a_receipt_that_one_liar_invents_ends_nothing",
    ),
    Guard(
        "a lane has sends in one batch at a time",
        _SENDING_FILE,
        "if lane and signer not in self._busy]",
        "if lane]",
        f"{_SENDING}::test_a_lane_waits_for_its_batch_and_others_do_not",
    ),
    Guard(
        "what a cancelled caller carried for others goes out again",
        _SENDING_FILE,
        "            self._enqueue(entry for entry in batch if entry.answer is None and not entry.caller.has_left)\n",
        "",
        f"{_SENDING}::test_a_cancelled_caller_cuts_off_nobody_else",
    ),
    Guard(
        "what was simulated long ago is simulated again before it is signed",
        "tayho/transactions/simulation.py",
        "return self.signer == signer and now - self.asked_at <= FRESH_SECONDS",
        "return self.signer == signer",
        f"{_EXECUTOR}::test_a_simulation_of_an_old_block_or_another_signer_is_made_again",
    ),
    Guard(
        "what was simulated with another signer is simulated again before it is signed",
        "tayho/transactions/simulation.py",
        "return self.signer == signer and now - self.asked_at <= FRESH_SECONDS",
        "return now - self.asked_at <= FRESH_SECONDS",
        f"{_EXECUTOR}::test_a_simulation_of_an_old_block_or_another_signer_is_made_again",
    ),
    Guard(
        "a bump is rounded up",
        "tayho/transactions/fees.py",
        "    return max(-(-wei * (BASIS_POINTS + basis_points) // BASIS_POINTS), wei + 1)",
        "    return max(wei * (BASIS_POINTS + basis_points) // BASIS_POINTS, wei + 1)",
        "tests/transactions/test_replacement_rules.py::test_one_wei_less_on_either_field_is_refused",
    ),
    Guard(
        "a bump is what nodes ask at least",
        "tayho/transactions/fees.py",
        "max(bump_basis_points, NODES_ASK_BASIS_POINTS[transaction_type])",
        "bump_basis_points",
        f"{_FEES}::test_nodes_take_every_bump_and_the_ceiling_holds",
    ),
    Guard(
        "no bump passes the ceiling",
        "tayho/transactions/fees.py",
        "    if lowest_wei > fee_wei_max:",
        "    if lowest_wei > 2 * fee_wei_max:",
        f"{_FEES}::test_nodes_take_every_bump_and_the_ceiling_holds",
    ),
    Guard(
        "an estimate of gas is possible",
        "tayho/transactions/fees.py",
        "    if not INTRINSIC_GAS <= gas_estimate <= block_gas_limit:",
        "    if not 0 <= gas_estimate <= block_gas_limit:",
        f"{_FEES}::test_an_absurd_estimate_is_refused_and_a_sound_one_fits",
    ),
    Guard(
        "an invented tip is bounded",
        "tayho/transactions/fee_market.py",
        "bounded_tip(tip_wei, tuple(self._usual_wei))",
        "bounded_tip(tip_wei, ())",
        "tests/transactions/test_fee_market.py::test_an_invented_tip_is_bounded_by_the_usual_ones",
    ),
    Guard(
        "jobs of one block ask the market once",
        "tayho/transactions/fee_market.py",
        "            if flight is None:",
        "            if flight is None or flight.block_number:",
        "tests/transactions/test_fee_market.py::test_all_jobs_of_a_block_share_one_question",
    ),
    Guard(
        "a receipt that its block refutes is not seen",
        "rpc/truth.py",
        "{one: receipt for one, receipt in receipts.agreed.items() if one not in doubtful}",
        "receipts.agreed",
        f"{_PROOFS}::test_two_liars_of_three_end_nothing",
    ),
    Guard(
        "a header that does not make its hash is not built on",
        "tayho/voters.py",
        "        verify_header(header)\n",
        "        pass\n",
        f"{_PROOFS}::test_a_header_that_does_not_make_its_hash_ends_nothing",
    ),
    Guard(
        "evidence goes by its age alone",
        "sql/migrations/0008_evidence.sql",
        "        OR OLD.decided_at >= now() - make_interval(days => greatest(days, 7))\n",
        "",
        "tests/transactions/test_evidence.py::test_evidence_cannot_be_rewritten",
    ),
    Guard(
        "replacements are counted",
        _RULES_OF_REPLACING,
        "    return spent >= limits.replacements_max\n",
        "    return False\n",
        f"{_REPLACING}::test_no_more_replacements_than_allowed",
    ),
    Guard(
        "only the lowest nonce of a lane is bumped",
        "tayho/transactions/replacing/types.py",
        '"stuck" if self.is_lowest and self.is_overdue else None',
        '"stuck" if self.is_overdue else None',
        f"{_REPLACING_RULES}::test_each_thing_that_speaks_against_a_bump_is_enough",
    ),
    Guard(
        "only the nonce that the chain waits for is bumped",
        _RULES_OF_REPLACING,
        "    if sight.nonces.get(candidate.lineage.signer) != candidate.lineage.nonce:\n        return False\n",
        "",
        f"{_REPLACING_RULES}::test_each_thing_that_speaks_against_a_bump_is_enough",
    ),
    Guard(
        "nothing is replaced that may be mined",
        _RULES_OF_REPLACING,
        "    if not _is_unmined(candidate, sight):\n        return LetBe()\n",
        "",
        f"{_REPLACING_RULES}::test_each_thing_that_speaks_against_a_bump_is_enough",
    ),
    Guard(
        "of two replicas one replaces",
        "sql/transactions/replacing.sql",
        """        AND NOT EXISTS (
            SELECT FROM transactions.members AS taken
            WHERE taken.lineage_id = asked.lineage_id AND taken.member_number >= asked.member_number
        )
""",
        "",
        f"{_REPLACING}::test_of_two_replicas_one_replaces",
    ),
    Guard(
        "a failed bump sends the old bytes again",
        "tayho/transactions/replacing/rounds.py",
        "        old = await self._resending.send(await self._resending.opened(replaced))\n",
        "        old = ()\n",
        f"{_REPLACING}::test_a_failed_bump_sends_the_old_bytes_again",
    ),
)
