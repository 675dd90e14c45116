"""May this key of the journal be destroyed: pure (OPS-8)."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from tayho.transactions.rotating.types import Missing

# The shortest time between the last seal and a retirement. Settings lengthen it, and nothing shortens it.
RETENTION_DAYS_MIN = 30
# Fewer endpoints could not outvote one that lies.
VOTERS_MIN = 3
DAY_SECONDS = 86_400


@frozen
class KeyFacts:
    """What decides whether a key may go. `None` is not agreed by a majority, or never was."""

    key_id: str
    members: int
    lineages: int
    open_lineages: int
    # Over, and neither a receipt nor a block in which the nonce was used up is known.
    undecided_lineages: int
    sealed_seconds_ago: float | None
    retention_days: int
    halts: int
    # Endpoints of hosts of their own.
    voters: int
    lookback_blocks: int
    head_block_number: int | None
    # The highest block that decided a lineage.
    block_number_max: int | None
    # Lineages whose deciding block a majority has as the journal has it, and by name those where it has another.
    agreed_lineages: int = 0
    differing: tuple[str, ...] = field(default=())
    other_chains: tuple[int, ...] = ()


def missing_of_key(facts: KeyFacts) -> tuple[Missing, ...]:
    """Every condition of a retirement that does not hold; none where nothing will ever need the key again."""
    return (*_missing_in_journal(facts), *_missing_on_chain(facts))


def _missing_in_journal(facts: KeyFacts) -> Iterator[Missing]:
    if not facts.members:
        yield Missing("unknown", f"nothing of this chain was ever sealed under {facts.key_id!r}: look at its spelling")
    if facts.open_lineages:
        yield Missing("open", f"{facts.open_lineages} transactions under it are not final, and may be sent again")
    days = max(facts.retention_days, RETENTION_DAYS_MIN)
    if facts.sealed_seconds_ago is not None and facts.sealed_seconds_ago < days * DAY_SECONDS:
        ago = facts.sealed_seconds_ago / DAY_SECONDS
        yield Missing(
            "retention", f"it sealed {ago:.1f} days ago, and {days} days must have passed since its last seal"
        )
    if facts.undecided_lineages:
        yield Missing("no_receipt", f"{facts.undecided_lineages} transactions under it ended without a receipt")
    if facts.halts:
        yield Missing("halted", "a pool of the chain is halted: which chain is right is not decided")


def _missing_on_chain(facts: KeyFacts) -> Iterator[Missing]:
    if facts.voters < VOTERS_MIN:
        yield Missing(
            "voters", f"RPC_READ_URLS has {facts.voters} endpoints of hosts of their own, and {VOTERS_MIN} are needed"
        )
    if facts.head_block_number is None:
        yield Missing("head", "no head is agreed by a majority of RPC_READ_URLS")
    elif facts.block_number_max is not None:
        deep = facts.head_block_number - facts.lookback_blocks
        if facts.block_number_max > deep:
            yield Missing(
                "shallow",
                f"a receipt is in block {facts.block_number_max}, less than {facts.lookback_blocks} blocks below the "
                f"head, block {facts.head_block_number}",
            )
    if facts.differing:
        yield Missing(
            "differs",
            f"a majority has {len(facts.differing)} receipts otherwise than the journal has them, the first of "
            f"{facts.differing[0]}",
        )
    decided = facts.lineages - facts.open_lineages - facts.undecided_lineages
    unread = decided - facts.agreed_lineages - len(facts.differing)
    if unread > 0:
        yield Missing("unread", f"{unread} receipts are not agreed by a majority")
