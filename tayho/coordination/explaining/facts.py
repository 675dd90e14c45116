"""Gathering what PostgreSQL and Redis know of a job, for `explain` (DLV-14)."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.errors import StorageError
from storage.records import delivery_id
from storage.rows import value_from
from tayho.coordination import store
from tayho.coordination.explaining.rules import SILENT_SECONDS, explain, wants_look
from tayho.coordination.explaining.types import Explanation, JobFacts, QueueLook


class Explainer:
    """Answers why a job of one (chain, environment) is where it is. Changes nothing."""

    def __init__(
        self,
        database: Database,
        queue_of: Callable[[str], DeliveryQueue],
        chain_id: int,
        environment: str,
        *,
        fair_window: int,
    ) -> None:
        """`fair_window`: jobs of a limit key that are published at once where no limit says otherwise."""
        self._database = database
        self._queue_of = queue_of
        self._chain_id = chain_id
        self._environment = environment
        self._fair_window = fair_window

    async def explain(self, job_id: UUID) -> Explanation | None:
        """None where there is no such job. Raises StoreUnavailable; without Redis the answer says so."""
        async with self._database.connection() as connection:
            row = await store.EXPLAIN_FACTS(
                connection, self._chain_id, self._environment, job_id, self._fair_window, SILENT_SECONDS
            )
        if row is None:
            return None
        facts = value_from(JobFacts, row)
        return explain(facts, await self._look(facts) if wants_look(facts) else None)

    async def _look(self, facts: JobFacts) -> QueueLook:
        try:
            [state] = await self._queue_of(facts.role).states([delivery_id(facts.job_id, facts.generation)])
        except StorageError as error:
            return QueueLook(None, str(error))
        return QueueLook(state)
