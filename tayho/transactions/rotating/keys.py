"""Whether a key of the journal may be destroyed: what it sealed, held against a majority's word (OPS-8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from attrs import define, evolve, field, frozen

from rpc import methods
from rpc.asked_together import Asked
from rpc.errors import NoQuorum
from rpc.truth import ChainTruth
from rpc.values import Header
from storage.connection import Row
from storage.database import Database
from storage.rows import value_from
from tayho.contracts.coordination import Coordination
from tayho.kernel.json_document import Json
from tayho.transactions import store
from tayho.transactions.rotating.checks import record_check, record_request
from tayho.transactions.rotating.key_rules import KeyFacts, missing_of_key
from tayho.transactions.rotating.types import CheckDone, Subject

# Lineages whose deciding blocks are asked for in one batch a voter.
PAGE_MAX = 200
DIFFERING_TOLD_MAX = 100
# A majority says that the transaction is in no block.
NOWHERE = b""
_BEFORE_ALL = UUID(int=0)


@frozen
class Decided:
    """What ended a lineage: a transaction in a block, or the block in which another used its nonce up."""

    lineage_id: UUID
    tx_hash: bytes | None
    block_number: int
    block_hash: bytes


@define
class _Reading:
    """How far the receipts were read."""

    agreed: int = 0
    differing: list[str] = field(factory=list[str])


class KeyRetirement:
    """The keys of the journal of one (chain, environment). Needs the database, the chain, and no key.

    `voters` is how many endpoints are hosts of their own; `retention_days` may only lengthen the shortest time.
    """

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        truth: ChainTruth,
        chain_id: int,
        environment: str,
        *,
        voters: int,
        lookback_blocks: int,
        retention_days: int,
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._truth = truth
        self._chain_id = chain_id
        self._environment = environment
        self._voters = voters
        self._lookback_blocks = lookback_blocks
        self._retention_days = retention_days

    async def check(
        self, key_id: str, actor: str, on_page: Callable[[int, int], None] = lambda _read, _all: None
    ) -> CheckDone:
        """Examine whether the key may go, and write down what was found, with its time. It changes nothing else.

        `on_page` is told how many receipts were read, of how many. Raises StorageError, FinalityViolated.
        """
        await record_request(self._database, self._coordination, "key_retire_check", actor, {"key_id": key_id})
        head = await self._head()
        facts = await self._facts(key_id, head)
        reading = await self._read(key_id, facts.lineages, on_page)
        facts = evolve(facts, agreed_lineages=reading.agreed, differing=tuple(reading.differing))
        told: dict[str, Json] = {
            "lineages": facts.lineages,
            "agreed": facts.agreed_lineages,
            "differing": [*facts.differing[:DIFFERING_TOLD_MAX]],
            "other_chains": [*facts.other_chains],
            "voters": [*self._truth.voters],
        }
        where, subject = (self._chain_id, self._environment), Subject(key_id=key_id)
        return await record_check(self._database, where, subject, head, missing_of_key(facts), told, actor)

    async def _head(self) -> Header | None:
        try:
            return await self._truth.heads.head()
        except NoQuorum:
            return None

    async def _facts(self, key_id: str, head: Header | None) -> KeyFacts:
        async with self._database.connection() as connection:
            row = await store.KEY_FACTS(connection, self._chain_id, key_id)
        if row is None:
            raise LookupError("an aggregate returned no row")
        return value_from(
            KeyFacts,
            row,
            key_id=key_id,
            retention_days=self._retention_days,
            voters=self._voters,
            lookback_blocks=self._lookback_blocks,
            head_block_number=None if head is None else head.number,
            other_chains=tuple(row["other_chains"]),
            agreed_lineages=0,
            differing=(),
        )

    async def _read(self, key_id: str, lineages: int, on_page: Callable[[int, int], None]) -> _Reading:
        """Hold what decided each lineage against a majority's word, a page in one batch a voter."""
        reading, after, seen = _Reading(), _BEFORE_ALL, 0
        while True:
            async with self._database.connection() as connection:
                rows = await store.PAGE_OF_KEY(connection, self._chain_id, key_id, after, PAGE_MAX)
            if not rows:
                return reading
            page = [_decided_of(row) for row in rows]
            await self._hold_against_chain(page, reading)
            after, seen = page[-1].lineage_id, seen + len(page)
            on_page(seen, lineages)

    async def _hold_against_chain(self, page: Sequence[Decided], reading: _Reading) -> None:
        """A receipt's block hash by a majority, or the canonical hash at the height where the nonce was used up."""
        receipts = Asked({one.tx_hash: methods.transaction_receipt(one.tx_hash) for one in page if one.tx_hash})
        if receipts.calls:
            await self._truth.ask(receipts)
        heights = sorted({one.block_number for one in page if one.tx_hash is None})
        headers = await self._truth.heads.headers_at(heights) if heights else {}
        for one in page:
            if one.tx_hash is None:
                header = headers.get(one.block_number)
                found = header.hash if isinstance(header, Header) else None
            elif one.tx_hash in receipts.agreed:
                receipt = receipts.agreed[one.tx_hash]
                found = NOWHERE if receipt is None else receipt.block_hash
            else:
                found = None
            if found == one.block_hash:
                reading.agreed += 1
            elif found is not None:
                reading.differing.append(f"0x{(one.tx_hash or one.block_hash).hex()}")


def _decided_of(row: Row) -> Decided:
    return value_from(Decided, row)
