"""Receipts that voters agreed on, checked against their blocks by whichever endpoint can show them (RPC-11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TypeAlias, TypeVar

import trio
from attrs import define, field, frozen

from nursery.groups import unwrapped
from rpc import methods
from rpc.ballots import Agreed
from rpc.block_proofs import ProvenBlock, proven_block
from rpc.block_transactions import BlockInFull
from rpc.errors import RpcError
from rpc.member import Member
from rpc.projections import voted
from rpc.proof_errors import ProofRefuted, Unprovable
from rpc.provenance import Refutation
from rpc.receipt_proofs import Recover
from rpc.rendering import render
from rpc.values import Header, Receipt

T = TypeVar("T")

BLOCKS_MAX = 64
"""How many blocks are asked for in one check. Each is up to a few megabytes, and there is another check soon."""

REQUEST_GAS_MAX = 30_000_000
"""How much gas the blocks of one request used together: their size follows it, and an answer has a largest one."""

_Told: TypeAlias = tuple[BlockInFull | RpcError | None, tuple[Receipt, ...] | RpcError | None]


@frozen
class Claim:
    """A receipt that a majority told, in the canonical block of its height."""

    transaction_hash: bytes
    agreed: Agreed[Receipt | None]
    receipt: Receipt
    block: Header

    @property
    def believers(self) -> tuple[str, ...]:
        """Who voted for it."""
        return tuple(vote.voter for vote in self.agreed.votes if _is(self.receipt, vote.outcome))


@define
class Checked:
    """What came of a check. What is in none of the three could not be proven, and is worth its votes.

    `reasons` are why, of endpoints that proved nothing. `refutations` are the lies, of voters and of endpoints asked.
    """

    proven_by: dict[bytes, str] = field(factory=dict[bytes, str])
    refuted: dict[bytes, ProofRefuted] = field(factory=dict[bytes, ProofRefuted])
    postponed: set[bytes] = field(factory=set[bytes])
    refutations: list[Refutation] = field(factory=list[Refutation])
    reasons: list[str] = field(factory=list[str])


class ReceiptChecks:
    """Asks one endpoint for whole blocks and their receipts, and the next for what it could not show.

    The first one asked goes round, so that no endpoint carries all of it. One check is a constant number of round
    trips: two requests at a time to each endpoint, most often to one of them.
    """

    def __init__(
        self, members: Sequence[Member], recover: Recover, on_refuted: Callable[[Refutation], None] = lambda _: None
    ) -> None:
        """`on_refuted` charges and keeps each lie; it must be quick, and must not raise."""
        self._members = tuple(members)
        self._recover = recover
        self._on_refuted = on_refuted
        self._turns = count()

    async def check(self, claims: Sequence[Claim]) -> Checked:
        """What the blocks say of these receipts. Raises nothing: an endpoint's error is a reason."""
        checked = Checked()
        by_block: dict[bytes, list[Claim]] = {}
        for claim in claims:
            by_block.setdefault(claim.block.hash, []).append(claim)
        for block_hash in list(by_block)[BLOCKS_MAX:]:
            checked.postponed.update(claim.transaction_hash for claim in by_block.pop(block_hash))
        for member in self._in_turn() if by_block else ():
            blocks = [claimed[0].block for claimed in by_block.values()]
            for block, told in await self._told_by(member, blocks):
                if self._settle(member, block, told, by_block[block.hash], checked):
                    del by_block[block.hash]
                # Hashing a full block takes tens of milliseconds.
                await trio.lowlevel.checkpoint()
            if not by_block:
                break
        return checked

    def _in_turn(self) -> Iterable[Member]:
        first = next(self._turns) % len(self._members)
        return (*self._members[first:], *self._members[:first])

    async def _told_by(self, member: Member, blocks: Sequence[Header]) -> list[tuple[Header, _Told]]:
        """What the member tells of each block."""
        told: list[tuple[Header, _Told]] = []

        async def ask(part: Sequence[Header]) -> None:
            receipts = await member.ask_many([methods.block_receipts(block.hash) for block in part])
            if all(isinstance(one, RpcError) for one in receipts):
                told.extend((block, (None, one)) for block, one in zip(part, receipts, strict=True))
                return
            full = await member.ask_many([methods.block_in_full(block.hash) for block in part])
            told.extend(zip(part, zip(full, receipts, strict=True), strict=True))

        with unwrapped():
            async with trio.open_nursery() as asked:
                for part in _parts(blocks):
                    asked.start_soon(ask, part)
        return told

    def _settle(self, member: Member, block: Header, told: _Told, claims: Sequence[Claim], checked: Checked) -> bool:
        """Whether the member showed the block; then every claim about it is proven or refuted."""
        full, receipts = told
        wanted = {claim.transaction_hash for claim in claims}
        try:
            proven = proven_block(_there(full), _there(receipts), wanted, self._recover)
        except ProofRefuted as error:
            ours = [receipt for receipt in _there(receipts) if receipt.transaction_hash in wanted]
            lie = Refutation(member.shown, "eth_getBlockReceipts", block.hash, error, render(ours))
            self._refute([lie], checked)
        except RpcError as error:
            checked.reasons.append(f"{member.shown}: {error}")
        else:
            for claim in claims:
                self._judge(claim, proven, member, checked)
            return True
        return False

    def _judge(self, claim: Claim, proven: ProvenBlock, member: Member, checked: Checked) -> None:
        receipt = claim.receipt
        try:
            proven.check(claim.transaction_hash, receipt)
        except ProofRefuted as error:
            checked.refuted[claim.transaction_hash] = error
            told, method = render(receipt), "eth_getTransactionReceipt"
            self._refute(
                [Refutation(voter, method, claim.block.hash, error, told) for voter in claim.believers], checked
            )
        else:
            checked.proven_by[claim.transaction_hash] = member.shown

    def _refute(self, lies: Sequence[Refutation], checked: Checked) -> None:
        checked.refutations += lies
        for lie in lies:
            self._on_refuted(lie)


def _there(told: T | RpcError | None) -> T:
    if isinstance(told, RpcError):
        raise told
    if told is None:
        raise Unprovable("the endpoint does not know the block")
    return told


def _is(receipt: Receipt, outcome: object) -> bool:
    return isinstance(outcome, Receipt) and voted(outcome) == receipt


def _parts(blocks: Sequence[Header]) -> list[list[Header]]:
    """The blocks in as few requests as their size allows."""
    parts: list[list[Header]] = []
    gas = 0
    for block in blocks:
        gas += block.gas_used
        if not parts or gas > REQUEST_GAS_MAX:
            parts.append([])
            gas = block.gas_used
        parts[-1].append(block)
    return parts
