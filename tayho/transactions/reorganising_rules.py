"""What the canonical chain says of the blocks that ended lineages: pure (TX-6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

from attrs import field, frozen

from rpc.errors import NoQuorum
from rpc.values import Header, shown_hex
from tayho.kernel.address import Address

# At each height asked: what a majority agrees on; NoQuorum where it does not; None above the head.
Canonical: TypeAlias = Mapping[int, Header | NoQuorum | None]


@frozen
class Block:
    """A block as something of ours rests on it."""

    number: int
    hash: bytes = field(repr=shown_hex)


@frozen
class Replaced:
    """A block that something of ours rests on, and the other one that a majority has at its height now."""

    number: int
    old_hash: bytes = field(repr=shown_hex)
    new_hash: bytes = field(repr=shown_hex)


@frozen
class Ended:
    """A lineage that a replaced block ended, and what in it did so: our transaction, or one that is not ours."""

    lineage_id: UUID
    # None of a filler, and of a lineage whose job went on without it before.
    job_id: UUID | None
    signer: Address
    nonce: int
    state: str
    tx_hash: bytes | None
    block: Block
    # The job has another lineage by now.
    is_succeeded: bool
    # Its kind read a result in the receipt, and may have ended other jobs by it.
    had_result: bool = False


def heirs(ended: Sequence[Ended]) -> list[Ended]:
    """Those that may have their job back, one a job: of several the newest, which the job relied on last.

    A job never has two that live: what is mined of the others must not act for it (I2, I3).
    """
    newest: dict[UUID, Ended] = {}
    for one in sorted(ended, key=lambda one: one.lineage_id):
        if one.job_id is not None and not one.is_succeeded:
            newest[one.job_id] = one
    return list(newest.values())


@frozen
class Judgement:
    """What follows for the blocks asked about.

    Invariant: `boundary` is None where anything is violated, replaced, or not known up to it.
    """

    reorganised: tuple[Replaced, ...] = ()
    # At or below the boundary: what may never happen.
    violated: tuple[Replaced, ...] = ()
    # The block up to which nothing needs to be looked at again.
    boundary: Block | None = None


# How many lookbacks below a void boundary are compared once more: deeper than that it is another chain.
ADOPTED_LOOKBACKS = 16


@frozen
class Boundary:
    """The block up to which nothing needs to be looked at again."""

    block: Block
    # An operator has judged the chain anew since: what it lacks is taken back, and violates nothing.
    is_void: bool = False


def first_looked_at(boundary: Boundary | None, head_block_number: int, lookback: int) -> int:
    """The height above which blocks are compared: as deep again below the boundary, for whoever ended a lineage there
    after the boundary had passed; so much of the chain is the nodes' to tell and costs nothing."""
    if boundary is None:
        return head_block_number - lookback
    depth = ADOPTED_LOOKBACKS * lookback if boundary.is_void else lookback
    return min(boundary.block.number, head_block_number) - depth


def judge(
    deciding: Sequence[Block], boundary: Block | None, canonical: Canonical, head_block_number: int, lookback: int
) -> Judgement:
    """Compare what decided lineages, and the boundary itself, with the canonical chain.

    Only another block at the same height, by a majority, is a reorganisation. A height that is not agreed, or above
    the head, says nothing; nor does the boundary move over it.
    """
    replaced = [found for block in deciding if (found := _replaced(block, canonical)) is not None]
    moved = None if boundary is None else _replaced(boundary, canonical)
    final_number = -1 if boundary is None else boundary.number
    violated = [one for one in replaced if one.number <= final_number] + ([] if moved is None else [moved])
    if violated:
        return Judgement(violated=tuple(violated))
    reorganised = tuple(replaced)
    return Judgement(reorganised, boundary=_moved(deciding, boundary, canonical, head_block_number - lookback))


def _replaced(block: Block, canonical: Canonical) -> Replaced | None:
    now = canonical.get(block.number)
    if not isinstance(now, Header) or now.hash == block.hash:
        return None
    return Replaced(block.number, block.hash, now.hash)


def _moved(deciding: Sequence[Block], boundary: Block | None, canonical: Canonical, final_number: int) -> Block | None:
    now = canonical.get(max(final_number, 0))
    if not isinstance(now, Header) or (boundary is not None and now.number <= boundary.number):
        return None
    below = (block for block in deciding if block.number <= now.number)
    if any(not _holds(block, canonical) for block in below):
        return None
    return Block(now.number, now.hash)


def _holds(block: Block, canonical: Canonical) -> bool:
    now = canonical.get(block.number)
    return isinstance(now, Header) and now.hash == block.hash
