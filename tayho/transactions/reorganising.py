"""Reorganisations: what the chain took back lives again, and what may never change halts the pool (TX-6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import structlog

from rpc.errors import FinalityViolated
from rpc.truth import ChainTruth
from rpc.values import Header
from storage.connection import Row
from storage.database import Connection, Database
from tayho.contracts.coordination import Coordination, Revival
from tayho.kernel.address import Address
from tayho.kernel.json_document import Json
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.halts import Halts, held_unhalted
from tayho.transactions.reorganising_rules import (
    Block,
    Boundary,
    Ended,
    Judgement,
    Replaced,
    first_looked_at,
    heirs,
    judge,
)
from tayho.transactions.results import Results
from tayho.transactions.types import TransactionSettings

log = structlog.get_logger("tayho.reorganisations")

# Blocks that one look takes beyond those of twice the lookback, which it must take: what it leaves out is newer.
BLOCKS_BEYOND = 256
REVIVE_MAX = 200


class Reorganisations:
    """Compares, at each tick, every block that ended a lineage of the pool and may still change with the chain."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        truth: ChainTruth,
        halts: Halts,
        settings: TransactionSettings,
        results: Results | None = None,
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._truth = truth
        self._halts = halts
        self._settings = settings
        self._results = results or Results(database, coordination, (), settings.instance_id)
        self._pool = (settings.chain_id, settings.environment, settings.role)
        self._is_remembered = False

    async def watched(self, tick: Callable[[], Awaitable[bool]]) -> bool:
        """Do the tick; where it finds that a final block has changed, halt the pool. Raises what the tick raises.

        The first is held to the boundary of whoever ran before: a restart forgets nothing.
        """
        if not self._is_remembered:
            boundary = await self._boundary()
            if boundary is not None and not boundary.is_void:
                self._truth.heads.seed_final(boundary.block.number, boundary.block.hash)
            self._is_remembered = True
        try:
            return await tick()
        except FinalityViolated as error:
            violation = error
        await self._halt(violation)
        raise violation

    def start_over(self) -> None:
        """An operator has judged the chain: what it violates from now on is told again."""
        self._is_told = False

    async def step(self, head: Header) -> None:
        """Find what the chain has replaced, write it down, revive what rested on it.

        Raises FinalityViolated where that is not a reorganisation any more, RpcError, StorageError.
        """
        boundary = await self._boundary()
        judgement = await self._judge(head, boundary)
        if judgement.violated:
            first = judgement.violated[0]
            raise FinalityViolated(first.number, first.old_hash, first.new_hash)
        if judgement.reorganised:
            await self._record(head, judgement.reorganised)
            await self._revive_all(judgement.reorganised)
        elif judgement.boundary is not None:
            await self._move(judgement.boundary)
            # From here on this process finds a change of it at every look, before anything is concluded.
            await self._truth.heads.final(judgement.boundary.number, self._settings.reorg_lookback_blocks)

    async def _boundary(self) -> Boundary | None:
        async with self._database.connection() as connection:
            row = await store.BOUNDARY(connection, *self._pool)
        return None if row is None else Boundary(Block(row["block_number"], row["block_hash"]), row["is_void"])

    async def _judge(self, head: Header, boundary: Boundary | None) -> Judgement:
        lookback = self._settings.reorg_lookback_blocks
        above, blocks_max = first_looked_at(boundary, head.number, lookback), 2 * lookback + BLOCKS_BEYOND
        async with self._database.connection() as connection:
            rows = await store.DECIDING_BLOCKS(connection, *self._pool, above, head.number, blocks_max)
        deciding = [Block(row["block_number"], row["block_hash"]) for row in rows]
        final_number = max(head.number - lookback, 0)
        if len(deciding) == blocks_max:
            # Those above were not looked at: the boundary stays below them, and the next tick goes on from there.
            final_number = min(final_number, deciding[-1].number - 1)
        heights = {block.number for block in deciding} | {final_number}
        final = None if boundary is None or boundary.is_void else boundary.block
        if final is not None and final.number <= head.number:
            heights.add(final.number)
        canonical = await self._truth.heads.headers_at(sorted(heights))
        return judge(deciding, final, canonical, final_number + lookback, lookback)

    async def _move(self, boundary: Block) -> None:
        """Nothing rests below on a block that is not canonical: a signal of one would have been written down first."""
        async with self._database.connection() as connection:
            await store.MOVE_BOUNDARY(
                connection, *self._pool, boundary.number, boundary.hash, self._settings.instance_id
            )
        step("reorg.after_boundary")

    async def _halt(self, violation: FinalityViolated) -> None:
        log.error("finality_violated", error=str(violation))
        evidence: dict[str, Json] = {
            "block_number": violation.height,
            "final_hash": shown(violation.final_hash),
            "found_hash": None if violation.found_hash is None else shown(violation.found_hash),
            "voters": list(violation.voters),
        }
        await self._halts.raise_halt("finality_violated", evidence)

    async def _record(self, head: Header, reorganised: Sequence[Replaced]) -> None:
        """In a transaction of its own, before anything moves because of it: whoever dies now leaves the signal."""
        async with self._database.connection() as connection:
            await store.RECORD_REORGANISATIONS(
                connection,
                self._settings.chain_id,
                [one.number for one in reorganised],
                [one.old_hash for one in reorganised],
                [one.new_hash for one in reorganised],
                head.number,
                self._settings.instance_id,
            )
        step("reorg.after_record")
        for one in reorganised:
            log.error(
                "reorganised", block_number=one.number, old_hash=shown(one.old_hash), new_hash=shown(one.new_hash)
            )

    async def _revive_all(self, reorganised: Sequence[Replaced]) -> None:
        gone = [one.number for one in reorganised], [one.old_hash for one in reorganised]
        last: UUID | None = UUID(int=0)
        while last is not None:
            async with self._database.connection() as connection:
                page = await store.ENDED_IN(connection, *self._pool, *gone, last, REVIVE_MAX)
            if page:
                await self._revive_page(page, gone)
            last = page[-1]["lineage_id"] if len(page) == REVIVE_MAX else None
        await self._coordination.wake_publishers()

    async def _revive_page(self, page: Sequence[Row], gone: tuple[list[int], list[bytes]]) -> None:
        """Receipts, lineages, members and jobs in one transaction; what another replica has revived is left alone."""
        async with self._database.transaction() as tx:
            await self._coordination.lock_jobs(tx, [row["job_id"] for row in page if row["job_id"] is not None])
            if not await held_unhalted(tx, self._settings):
                return
            lineage_ids = [row["lineage_id"] for row in page]
            await store.LOCK_LINEAGES(tx, lineage_ids)
            ended = await self._known(
                tx, [_ended_of(row) for row in await store.STILL_ENDED_IN(tx, lineage_ids, *gone)]
            )
            if not ended:
                return
            wanted = heirs(ended)
            revived = await self._coordination.revive(
                tx, [Revival(one.job_id, _detail(one)) for one in wanted if one.job_id is not None]
            )
            await self._results.unsettle(tx, sorted(revived & {one.job_id for one in wanted if one.had_result}))
            owned = {one.lineage_id for one in wanted if one.job_id in revived}
            disowned = [one for one in ended if one.job_id is not None and one.lineage_id not in owned]
            await self._revive_lineages(tx, ended, disowned)
        step("reorg.after_revive")
        log.warning("lineages_un_mined", lineages=len(ended), jobs=len(revived))
        for one in disowned:
            log.error("revival_conflict", **_conflict(one))

    async def _known(self, tx: Connection, ended: Sequence[Ended]) -> list[Ended]:
        """Without those whose results only another process, which knows their kind, can take back: it will."""
        unknown = await self._results.unknown(tx, [one.job_id for one in ended if one.had_result and one.job_id])
        for one in ended:
            if one.job_id in unknown:
                log.error("revival_left_to_others", lineage_id=str(one.lineage_id), job_id=str(one.job_id))
        return [one for one in ended if one.job_id not in unknown]

    async def _revive_lineages(self, tx: Connection, ended: Sequence[Ended], disowned: Sequence[Ended]) -> None:
        without_job = {one.lineage_id for one in disowned}
        await store.PERMIT_REVIVAL(tx)
        await store.REVIVE(
            tx,
            [one.lineage_id for one in ended],
            [one.tx_hash for one in ended],
            [one.block.number for one in ended],
            [one.block.hash for one in ended],
            [one.state for one in ended],
            [one.lineage_id in without_job for one in ended],
        )
        if disowned:
            await store.RECORD_REVIVAL_CONFLICTS(
                tx,
                self._settings.chain_id,
                [one.signer.value for one in disowned],
                [_conflict(one) for one in disowned],
                self._settings.instance_id,
            )


def shown(block_hash: bytes) -> str:
    return f"0x{block_hash.hex()}"


def _ended_of(row: Row) -> Ended:
    return Ended(
        lineage_id=row["lineage_id"],
        job_id=row["job_id"],
        signer=Address(row["signer"]),
        nonce=row["nonce"],
        state=row["state"],
        tx_hash=row["tx_hash"],
        block=Block(row["block_number"], row["block_hash"]),
        is_succeeded=row["is_succeeded"],
        had_result=row["had_result"],
    )


def _detail(ended: Ended) -> dict[str, Json]:
    """What the job says of itself until it has ended again."""
    return {
        "type": "UnMined",
        "message": "a reorganisation took the block away that had ended it; its transaction is sent again",
        "was": ended.state,
        "tx_hash": None if ended.tx_hash is None else shown(ended.tx_hash),
        "block_number": ended.block.number,
        "block_hash": shown(ended.block.hash),
    }


def _conflict(ended: Ended) -> dict[str, Json]:
    return {
        "lineage_id": str(ended.lineage_id),
        "job_id": str(ended.job_id),
        "nonce": ended.nonce,
        "was": ended.state,
        "block_number": ended.block.number,
    }
