"""Receipts that were agreed on are held against their blocks, whoever shows those (RPC-11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar, cast

import pytest
from attrs import define, evolve, field
from hypothesis import given, settings
from hypothesis import strategies as st

from rpc import proofs
from rpc.ballots import Agreed, Vote
from rpc.block_proofs import proven_block
from rpc.block_transactions import BlockInFull
from rpc.errors import EndpointFault, RpcError, RpcRefused, Transport
from rpc.projections import voted
from rpc.proof_errors import ProofRefuted, Unprovable
from rpc.provenance import Refutation
from rpc.reads import Call
from rpc.receipt_checks import BLOCKS_MAX, REQUEST_GAS_MAX, Checked, Claim, ReceiptChecks
from rpc.values import Header
from tayho.custody.module import recovered
from tests.rpc.blocks import Block, block, forgeries, named

T = TypeVar("T")
MADE = block(Random(4), 5)


def of_blocks(*seeds: int) -> list[Block]:
    return [block(Random(seed), 2) for seed in seeds]


@define
class Shows:
    """An endpoint that shows blocks of ours, `lies` by method to what it makes of them; `batches` are as they came."""

    shown: str
    blocks: Sequence[Block]
    lies: Mapping[str, Callable[[Any], Any]] = field(factory=dict)
    batches: list[tuple[str, int]] = field(factory=list[tuple[str, int]])

    async def ask(self, call: Call[T]) -> T:
        (answer,) = await self.ask_many([call])
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        self.batches.append((calls[0].method, len(calls)))
        return [cast("T", self._told(call)) for call in calls]

    def _told(self, call: Call[Any]) -> object:
        made = next((one for one in self.blocks if f"0x{one.header.hash.hex()}" == call.params[0]), None)
        if made is None:
            return None
        is_receipts = call.method == "eth_getBlockReceipts"
        answer = made.receipts if is_receipts else BlockInFull(made.header, made.transactions)
        return self.lies.get(call.method, lambda one: one)(answer)


def claim(made: Block, place: int = 0, change: Callable[[Any], Any] = lambda one: one, *voters: str) -> Claim:
    """What voters agreed on; of all but themselves there is a vote of another kind."""
    honest = voted(made.receipts[place])
    receipt = change(honest)
    votes = (*(Vote(voter, receipt, 0.1) for voter in voters), Vote("honest", honest, 0.2), Vote("silent", None, 0.3))
    return Claim(honest.transaction_hash, Agreed(receipt, votes, ()), receipt, made.header)


def failed(receipt: Any) -> Any:
    return evolve(receipt, status=1 - (receipt.status or 0), post_state_root=None)


async def check(members: Sequence[Shows], *claims: Claim) -> Checked:
    return await ReceiptChecks(members, recovered).check(claims)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_no_field_of_a_claim_can_be_forged(seed: int, count: int) -> None:
    """Goal: whatever a majority tells of a receipt, the block has the last word. Method: each field of each receipt of
    a block of all types told otherwise, against the true block; and the receipt of a transaction that is not there."""
    made = block(Random(seed), count)
    wanted = {each.hash for each in made.transactions}
    proven = proven_block(BlockInFull(made.header, made.transactions), made.receipts, wanted, recovered)
    for honest in made.receipts:
        agreed = voted(honest)
        proven.check(honest.transaction_hash, agreed)
        for path, forged in forgeries(agreed):
            if path in {"logs_bloom", "transaction_hash"} and voted(forged) == agreed:
                continue
            if path == "contract_address" and (honest.to is not None or not honest.succeeded):
                continue  # taken out of every vote; of a creation that failed some nodes tell one
            with pytest.raises((ProofRefuted, Unprovable)):
                proven.check(honest.transaction_hash, forged)
                pytest.fail(f"{path} was believed")
        with pytest.raises(ProofRefuted, match="no such transaction"):
            proven.check(b"\1" * 32, evolve(agreed, transaction_hash=b"\1" * 32))


@settings(deadline=None, max_examples=6)
@given(st.integers(0, 2**32))
def test_no_field_of_a_block_can_be_forged(seed: int) -> None:
    """Goal: only the hash is believed. Method: each field of the header and of the receipts told otherwise under the
    true hash, and the header remade so that its fields fit the forged receipts and only its hash does not."""
    made = block(Random(seed), 2)
    wanted = {each.hash for each in made.transactions}

    def refused(header: Header, receipts: Sequence[Any]) -> None:
        with pytest.raises((ProofRefuted, Unprovable)):
            proven_block(BlockInFull(header, made.transactions), receipts, wanted, recovered)
            pytest.fail("a forged block was believed")

    for path, header in forgeries(made.header):
        if path != "unknown_members":
            refused(header, made.receipts)
    forged = tuple(map(failed, made.receipts))
    refused(made.header, forged)
    remade = named(
        evolve(made, header=evolve(made.header, receipts_root=proofs.receipts_root(forged)), receipts=forged)
    )
    refused(evolve(remade.header, hash=made.header.hash), forged)
    refused(evolve(remade.header, hash=made.header.hash, requests_hash=None), forged)


async def test_the_believers_of_a_lie_are_named() -> None:
    """Goal: a lie is charged to all who told it, and to nobody else. Method: two voters told a failure, one the truth
    and one nothing; the block is shown by one of the liars itself."""
    told: list[Refutation] = []
    checks = ReceiptChecks([Shows("liar", [MADE])], recovered, told.append)
    checked = await checks.check([claim(MADE, 0, failed, "liar", "accomplice"), claim(MADE, 1)])
    assert set(checked.refuted) == {MADE.transactions[0].hash}
    assert checked.proven_by == {MADE.transactions[1].hash: "liar"}
    assert [(lie.endpoint, lie.method) for lie in told] == [
        ("liar", "eth_getTransactionReceipt"),
        ("accomplice", "eth_getTransactionReceipt"),
    ]
    assert checked.refutations == told


async def test_the_next_is_asked_for_what_one_cannot_show() -> None:
    """Goal: any endpoint is enough, for each block by itself. Method: of three the first is away, the second shows one
    of two blocks and forges the other, the third shows both; each batch is noted."""
    one, other = of_blocks(1, 2)

    def forge(receipts: Any) -> Any:
        return tuple(map(failed, receipts)) if receipts == other.receipts else receipts

    def away(_: Any) -> Any:
        return EndpointFault("away", Transport("refused"))

    members = [
        Shows("away", [one, other], {"eth_getBlockReceipts": away}),
        Shows("half", [one, other], {"eth_getBlockReceipts": forge}),
        Shows("whole", [one, other]),
    ]
    checked = await check(members, claim(one), claim(other, 1))
    assert checked.proven_by == {one.transactions[0].hash: "half", other.transactions[1].hash: "whole"}
    assert [lie.endpoint for lie in checked.refutations] == ["half"]
    assert [reason for reason in checked.reasons if "away" in reason]
    assert [len(member.batches) for member in members] == [1, 2, 2]
    assert members[1].batches == [("eth_getBlockReceipts", 2), ("eth_getBlockByHash", 2)]
    assert members[2].batches == [("eth_getBlockReceipts", 1), ("eth_getBlockByHash", 1)]


async def test_what_nobody_can_show_is_left_to_the_votes() -> None:
    """Goal: no proof is no refutation. Method: a method that nobody serves, a block that nobody knows, a header that
    lacks a field; the claim is a lie each time."""

    def unserved(_: Any) -> Any:
        return RpcRefused(-32601, "no such method")

    def incomplete(told: Any) -> Any:
        return evolve(told, header=evolve(told.header, mix_hash=None))

    for lies in (
        {"eth_getBlockReceipts": unserved},
        {"eth_getBlockByHash": lambda _: None},
        {"eth_getBlockByHash": incomplete},
    ):
        checked = await check([Shows("a", [MADE], lies), Shows("b", [MADE], lies)], claim(MADE, 0, failed, "a", "b"))
        assert (checked.proven_by, checked.refuted, checked.refutations) == ({}, {}, [])
        assert len(checked.reasons) == 2


async def test_turns_go_round_and_a_request_is_bounded() -> None:
    """Goal: no endpoint carries all, no answer grows without bound. Method: checks of two blocks that together used
    more gas than one request may ask for; then of more blocks than a check takes: the rest is put off."""
    full = [named(evolve(made, header=evolve(made.header, gas_used=REQUEST_GAS_MAX))) for made in of_blocks(1, 2)]
    members = [Shows(name, full) for name in "abc"]
    checks = ReceiptChecks(members, recovered)
    for first in (0, 1, 2, 0):
        for member in members:
            member.batches.clear()
        await checks.check([claim(made) for made in full])
        assert members[first].batches[0][1] == 1
        assert len(members[first].batches) == 4
    many = of_blocks(*range(BLOCKS_MAX + 2))
    checked = await check([Shows("a", many)], *[claim(made) for made in many])
    assert len(checked.proven_by) == BLOCKS_MAX
    assert checked.postponed == {made.transactions[0].hash for made in many[BLOCKS_MAX:]}
