"""What a look found, as rows: one job for each piece of work, whoever finds it however often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from storage.database import Connection, Database
from tayho.contracts.coordination import Coordination, Enqueued
from tayho.discovery import store
from tayho.discovery.rules import job_of, work_key
from tayho.discovery.types import Scanned
from tayho.kernel.discovery import Finding, Work
from tayho.kernel.steps import step
from tayho.kinds import DiscoveringKind

log = structlog.get_logger("tayho.discovery")

# How long work waits whose job found nothing to do, and that is due all the same; twice as long each further time.
VAIN_SECONDS_FIRST = 60.0
VAIN_SECONDS_MAX = 3_600.0


class Recorder:
    """Writes for one (chain, environment)."""

    def __init__(
        self, database: Database, coordination: Coordination, chain_id: int, environment: str, instance_id: str
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._chain_id = chain_id
        self._environment = environment
        self._instance_id = instance_id

    async def record_work(self, kind: DiscoveringKind, world: str, work: Sequence[Work]) -> dict[Scanned, int]:
        """Give each piece of work that has none a job; how many of each sort there were.

        A job that ended `not_actionable` has judged a state of the chain that is past: the work is due by a majority's
        word, so that it gets another job, after a wait that doubles. A dead job is an operator's to replay.
        Raises ArgumentRefused, DocumentRefused, StorageError: then nothing was recorded, or all will be found again.
        """
        by_key = {work_key(kind, world, one): one for one in work}
        counts: dict[Scanned, int] = {}
        async with self._database.transaction() as tx:
            occasions = await self._occasions(tx, by_key)
            jobs = [job_of(kind, key, occasions[key], one) for key, one in by_key.items()]
            answers = dict(zip(by_key, await self._coordination.enqueue_found(tx, jobs), strict=True))
            vain = {key: occasions[key] for key, answer in answers.items() if _ended_in_vain(answer)}
            again = await self._advance(tx, vain) if vain else {}
            retried = [job_of(kind, key, occasion, by_key[key]) for key, occasion in again.items()]
            if retried:
                await self._coordination.enqueue_found(tx, retried)
        step("scan.after_record")
        counts[Scanned.NEW] = sum(answer.created for answer in answers.values())
        counts[Scanned.AGAIN] = len(again)
        counts[Scanned.WAITING] = len(vain) - len(again)
        counts[Scanned.DEAD] = sum(answer.state == "dead" for answer in answers.values())
        counts[Scanned.KNOWN] = len(by_key) - sum(counts.values())
        if counts[Scanned.NEW] or counts[Scanned.AGAIN]:
            await self._coordination.wake_publishers()
        return counts

    async def record_findings(self, kind: DiscoveringKind, findings: Sequence[Finding]) -> None:
        """Keep each finding that this hour does not have yet. Raises StorageError."""
        by_name = {(one.subject, one.name): one for one in findings}.values()
        async with self._database.connection() as connection:
            rows = await store.RECORD_FINDINGS(
                connection,
                self._chain_id,
                self._environment,
                kind.name,
                self._instance_id,
                [one.subject for one in by_name],
                [one.name for one in by_name],
                [one.detail for one in by_name],
            )
        step("scan.after_findings")
        for row in rows:
            log.warning("finding", kind=kind.name, subject=row["subject"], finding=row["name"], detail=row["detail"])

    async def _occasions(self, tx: Connection, by_key: Mapping[str, Work]) -> dict[str, int]:
        rows = await store.OCCASIONS_OF(tx, self._chain_id, self._environment, list(by_key))
        return dict.fromkeys(by_key, 1) | {row["work_key"]: row["occasion"] for row in rows}

    async def _advance(self, tx: Connection, vain: Mapping[str, int]) -> dict[str, int]:
        """Those that have waited long enough and that no other replica has advanced, with their new occasion."""
        place = self._chain_id, self._environment
        await store.BEGIN_WAITING(tx, *place, list(vain))
        rows = await store.ADVANCE_IF_WAITED(
            tx, *place, list(vain), list(vain.values()), VAIN_SECONDS_FIRST, VAIN_SECONDS_MAX
        )
        return {row["work_key"]: row["occasion"] for row in rows}


def _ended_in_vain(answer: Enqueued) -> bool:
    return answer.state == "not_actionable"
