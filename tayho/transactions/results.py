"""What a final receipt means is for its job's kind to say; where it cannot, nothing ends and nothing is guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

import structlog
from attrs import frozen

from rpc.values import Receipt
from storage.database import Connection, Database
from storage.errors import StorageError
from tayho.contracts.coordination import Coordination
from tayho.kernel.jobs import Job
from tayho.kernel.json_document import Json
from tayho.kernel.steps import step
from tayho.kinds import OnChainKind, ReadsResults, ResultMissing, SettlesOthers, needs_result
from tayho.transactions import store
from tayho.transactions.errors import TransactionError
from tayho.transactions.observing import observe_nothing
from tayho.transactions.reconcile_rules import OpenLineage
from tayho.transactions.types import Final, Happening, Observe

log = structlog.get_logger("tayho.results")


@frozen
class Judged:
    """A lineage that may end, and what its kind read in the receipt; `kind` is None where nothing had to be read."""

    lineage: OpenLineage
    final: Final
    job: Job | None = None
    kind: OnChainKind | None = None
    result: Json = None

    @property
    def is_cancelled(self) -> bool:
        return self.lineage.is_cancelled_by(self.final.tx_hash)


@frozen
class Unread:
    """A lineage that may not end, because its receipt does not say what it must."""

    lineage: OpenLineage
    final: Final
    reason: str


Read: TypeAlias = tuple[list[Judged], list[Unread]]


class SettlementRefused(TransactionError):
    """A kind could not settle the others of one receipt: the transaction that was to end it is rolled back."""

    def __init__(self, unread: Unread) -> None:
        super().__init__(unread.reason)
        self.unread = unread


class Results:
    """Asks the kinds of one pool what final receipts mean."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        kinds: Iterable[OnChainKind],
        found_by: str,
        observe: Observe = observe_nothing,
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._kinds: Mapping[str, OnChainKind] = {kind.name: kind for kind in kinds if needs_result(kind)}
        self._found_by = found_by
        self._observe = observe

    async def read(self, finals: Sequence[tuple[OpenLineage, Final]]) -> Read:
        """What may end, each with its result, and what may not. Only a success of the job's own call has a result."""
        jobs = await self._jobs_of(finals)
        judged: list[Judged] = []
        unread: list[Unread] = []
        for lineage, final in finals:
            job = None if lineage.job_id is None else jobs.get(lineage.job_id)
            found = Judged(lineage, final) if job is None else self._read_one(lineage, final, job)
            if isinstance(found, Judged):
                judged.append(found)
            else:
                unread.append(found)
        return judged, unread

    async def _jobs_of(self, finals: Sequence[tuple[OpenLineage, Final]]) -> Mapping[UUID, Job]:
        wanted = [
            lineage.job_id
            for lineage, final in finals
            if lineage.needs_result
            and lineage.job_id is not None
            and final.receipt.succeeded
            and not lineage.is_cancelled_by(final.tx_hash)
        ]
        if not wanted:
            return {}
        async with self._database.connection() as connection:
            return await self._coordination.jobs_by_id(connection, wanted)

    def _read_one(self, lineage: OpenLineage, final: Final, job: Job) -> Judged | Unread:
        kind = self._kinds.get(job.kind)
        if kind is None:
            # Another replica may know it, and ends it then.
            return Unread(lineage, final, f"this process knows no kind {job.kind!r} that reads results")
        if not isinstance(kind, ReadsResults):
            return Judged(lineage, final, job, kind)
        try:
            return Judged(lineage, final, job, kind, kind.result_of(job, final.receipt))
        except Exception as error:  # noqa: BLE001 - a team's own code: its error holds its own job, and no other
            return Unread(lineage, final, _reason(error))

    async def settle(self, tx: Connection, judged: Sequence[Judged]) -> None:
        """End what the receipts' transactions carried besides. Raises SettlementRefused, StorageError."""
        for one in judged:
            if one.job is None or not isinstance(one.kind, SettlesOthers):
                continue
            try:
                await one.kind.settle(tx, one.job, one.final.receipt)
            except StorageError:
                raise
            except Exception as error:
                raise SettlementRefused(Unread(one.lineage, one.final, _reason(error))) from error

    async def hold(self, unread: Sequence[Unread]) -> None:
        """Hold what may not end, and tell it, once a reason. What is held is read again at every look."""
        if not unread:
            return
        async with self._database.connection() as connection:
            rows = await store.HOLD_FOR_MISSING_RESULT(
                connection,
                [one.lineage.lineage_id for one in unread],
                [one.reason for one in unread],
                [one.final.tx_hash for one in unread],
                [one.final.receipt.block_number for one in unread],
                self._found_by,
            )
        step("results.after_hold")
        for row in rows:
            self._observe(Happening.HELD, "result_missing", 1)
            log.error(
                "result_missing", lineage_id=str(row["lineage_id"]), job_id=str(row["job_id"]), reason=row["reason"]
            )

    async def unknown(self, tx: Connection, job_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Those of the jobs, which had results, whose kind this process does not know."""
        if not job_ids:
            return frozenset()
        jobs = await self._coordination.jobs_by_id(tx, job_ids)
        return frozenset(job_id for job_id, job in jobs.items() if job.kind not in self._kinds)

    async def unsettle(self, tx: Connection, job_ids: Sequence[UUID]) -> None:
        """Take back what `settle` wrote for jobs that live again in `tx`. Raises StorageError."""
        if not job_ids:
            return
        for job in (await self._coordination.jobs_by_id(tx, job_ids)).values():
            kind = self._kinds.get(job.kind)
            if isinstance(kind, SettlesOthers):
                await kind.unsettle(tx, job)


def detail_of(judged: Judged) -> dict[str, Json]:
    """What the job keeps of its end."""
    receipt: Receipt = judged.final.receipt
    detail: dict[str, Json] = {
        "tx_hash": f"0x{receipt.transaction_hash.hex()}",
        "block_number": receipt.block_number,
        "block_hash": f"0x{receipt.block_hash.hex()}",
        "gas_used": receipt.gas_used,
        "effective_gas_price_wei": receipt.effective_gas_price_wei,
    }
    return detail if judged.result is None else {**detail, "result": judged.result}


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, ResultMissing) else f"its kind could not read it: {error!r}"
