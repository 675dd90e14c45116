"""Guards of what is read from chains."""

from __future__ import annotations

from tests.guards.guard import Guard

_BALLOTS = "tests/rpc/test_ballots.py"
_HEADS = "tests/rpc/test_heads.py"

OF_READS = (
    Guard(
        "half of the voters is no majority",
        "rpc/ballots.py",
        "configured // 2 + 1",
        "(configured + 1) // 2",
        f"{_BALLOTS}::test_a_majority_is_strict",
    ),
    Guard(
        "the majority is of the configured voters",
        "rpc/ballots.py",
        "majority_of(len(self._voters))",
        "1",
        f"{_BALLOTS}::test_one_of_three_may_be_silent_and_two_may_not",
    ),
    Guard(
        "a voter has one vote",
        "rpc/ballots.py",
        "        if voter in self._votes:\n            return\n",
        "",
        f"{_BALLOTS}::test_a_voter_has_one_vote_however_often_it_is_asked",
    ),
    Guard(
        "an error is no truth of a receipt",
        "rpc/ballots.py",
        "isinstance(outcome, Reverted) and self._call.method in _MAY_REVERT",
        "isinstance(outcome, Reverted)",
        f"{_BALLOTS}::test_errors_that_agree_are_no_truth_of_a_receipt",
    ),
    Guard(
        "a node that has not begun does not lower the head",
        "rpc/segment.py",
        "for height in heights if height > 0)",
        "for height in heights)",
        f"{_HEADS}::test_the_height_that_a_majority_has_reached",
    ),
    Guard(
        "a walk goes along the parent hashes",
        "rpc/segment.py",
        "if below is None or below.hash != self._headers[self.lowest].parent_hash:",
        "if below is None:",
        f"{_HEADS}::test_a_block_that_does_not_link_is_not_walked_past",
    ),
    Guard(
        "the head goes on only from a block that is still there",
        "rpc/heads.py",
        "        if agreed[top.number] != top:\n            return await self._reorganised(segment, height)\n",
        "",
        f"{_HEADS}::test_a_final_block_that_is_replaced_stops_everything",
    ),
    Guard(
        "a final block is looked at after a reorganisation",
        "rpc/heads.py",
        "        await self._hold_final(segment)\n",
        "",
        f"{_HEADS}::test_a_final_block_that_is_replaced_stops_everything",
    ),
    Guard(
        "a nonce is asked at the block of the head",
        "rpc/truth.py",
        "methods.transaction_count(one, block.hash)",
        'methods.transaction_count(one, "latest")',
        "tests/rpc/test_heads_on_nodes.py::test_a_nonce_is_agreed_at_the_block_of_the_head",
    ),
    Guard(
        "a block that is shown makes the hash that was agreed",
        "rpc/block_proofs.py",
        "    verify_header(told.header)\n",
        "",
        "tests/rpc/test_receipt_checks.py::test_no_field_of_a_block_can_be_forged",
    ),
    Guard(
        "what an earlier process relied on is compared",
        "rpc/heads.py",
        "        self._finality.suspect(FinalBlock(number, block_hash))\n",
        "",
        f"{_HEADS}::test_what_an_earlier_process_relied_on_is_held",
    ),
)
