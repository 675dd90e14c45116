"""What decisions rested on, written down with them; contests beside; and what the policy lets go (RPC-12)."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import structlog
import trio

from rpc.truth import ChainTruth, Sight
from rpc.values import Receipt
from storage.connection import Connection
from storage.database import Database
from storage.rows import value_from
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.evidence_rules import contest_detail, contest_kind, final_detail
from tayho.transactions.observing import observe_nothing
from tayho.transactions.types import EvidenceRecord, Happening, Observe, TransactionSettings

log = structlog.get_logger("tayho.evidence")

PRUNE_PAGE = 500
PRUNE_SECONDS = 3600


class EvidenceKeeper:
    """Keeps the evidence of one pool."""

    def __init__(
        self,
        database: Database,
        truth: ChainTruth,
        settings: TransactionSettings,
        observe: Observe = observe_nothing,
    ) -> None:
        self._database = database
        self._truth = truth
        self._settings = settings
        self._observe = observe
        self._prune_at = -float("inf")

    async def keep_final(self, tx: Connection, sight: Sight, ended: Mapping[UUID, Receipt]) -> None:
        """One row for all that one look ended, in the transaction that ends it: neither is there without the other."""
        settings = self._settings
        if ended:
            await store.KEEP_FINAL(
                tx,
                settings.chain_id,
                settings.environment,
                settings.role,
                list(ended),
                sight.head.number,
                sight.head.hash,
                final_detail(sight, self._truth.voters, self._truth.needed, ended),
                settings.instance_id,
            )

    async def turn(self) -> None:
        """Write down what was contested since the last turn, and once an hour forget a page of what is old enough.

        Raises StorageError; nothing is lost by it, and all is tried again.
        """
        contests = self._truth.contests
        waiting, dropped = contests.waiting, contests.dropped
        days, now = self._settings.evidence_retention_days, trio.current_time()
        is_pruned = bool(days) and now >= self._prune_at
        if not waiting and not is_pruned:
            return
        settings = self._settings
        pruned = 0
        async with self._database.transaction() as tx:
            if waiting:
                await store.KEEP_CONTESTS(
                    tx,
                    settings.chain_id,
                    settings.environment,
                    settings.role,
                    [contest_kind(one) for one in waiting],
                    [contest_detail(one, dropped) for one in waiting],
                    settings.instance_id,
                )
            if is_pruned:
                await store.AS_PRUNE_EVIDENCE(tx, days)
                pruned = await store.PRUNE_EVIDENCE(
                    tx, settings.chain_id, settings.environment, settings.role, days, PRUNE_PAGE
                )
        step("evidence.after_turn")
        if waiting:
            contests.written(len(waiting), dropped)
            for one in waiting:
                self._observe(Happening.CONTESTED, contest_kind(one), 1)
            self._observe(Happening.EVIDENCE_DROPPED, "", dropped)
        if is_pruned and pruned < PRUNE_PAGE:
            self._prune_at = now + PRUNE_SECONDS
        if pruned:
            log.info("evidence_pruned", rows=pruned)


async def evidence_of_job(database: Database, job_id: UUID) -> list[EvidenceRecord]:
    """What every finality decision about a job's lineages rested on, as far as the policy has kept it."""
    async with database.connection() as connection:
        rows = await store.EVIDENCE_OF_JOB(connection, job_id)
    return [value_from(EvidenceRecord, row, lineage_ids=tuple(row["lineage_ids"])) for row in rows]
