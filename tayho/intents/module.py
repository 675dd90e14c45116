"""The face of intents."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from uuid import UUID

from storage.database import Database
from tayho.contracts.coordination import Coordination
from tayho.intents import store
from tayho.intents.admission import examine, require_in_time
from tayho.intents.batch_kind import BatchKind
from tayho.intents.batcher import Batcher, Sight
from tayho.intents.constants import BATCH_KIND, CHILD_KIND, ROLE
from tayho.intents.errors import IntentNotPermitted, LineDrifted
from tayho.intents.intake import Intake
from tayho.intents.line import Line
from tayho.intents.types import Accepted, IntentDomain, IntentStatus, Permit, Recover, SignedIntent

__all__ = [
    "BATCH_KIND",
    "CHILD_KIND",
    "ROLE",
    "BatchKind",
    "Batcher",
    "Intents",
    "Line",
    "LineDrifted",
    "Sight",
]


class Intents:
    """The line of one (chain, environment): intents in, each once, and how far each has come. It holds no key."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        domain: IntentDomain,
        environment: str,
        permit: Permit,
        recover: Recover,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._intake = Intake(database, coordination, domain, environment)
        self._domain = domain
        self._environment = environment
        self._permit = permit
        self._recover = recover
        self._now = now

    async def register(self) -> None:
        """Make sure that there is a line. Replicas may do it at once."""
        await Line(self._database, self._domain.chain_id, self._environment).register()

    async def run(self) -> None:
        """Take in what is submitted, until cancelled: nothing is answered before."""
        await self._intake.run()

    async def submit(self, signed: SignedIntent) -> Accepted:
        """Take an intent: the same one again is the same job, also where it could not be taken any more (INT-2).

        Raises IntentRefused (each class has its code), RpcError where the chain cannot be asked, StorageError with
        nothing recorded, CommitUnknown: then submitting again tells. CoalescerClosed: `run` has ended.
        """
        examined = examine(signed, self._domain, recover=self._recover)
        # A known intent is answered with its job, whatever clock and chain would say of it by now.
        if not await self._intake.is_known(examined.digest):
            require_in_time(signed.intent, now=int(self._now()))
            refusal = await self._permit(signed)
            if refusal is not None:
                raise IntentNotPermitted(refusal.reason)
        return await self._intake.record(signed, examined)

    async def status(self, job_id: UUID) -> IntentStatus | None:
        """How far an intent has come; None where there is none of that id."""
        return (await self.statuses([job_id])).get(job_id)

    async def statuses(self, job_ids: Sequence[UUID]) -> dict[UUID, IntentStatus]:
        """How far each has come, in two statements however many they are; unknown ones are left out."""
        async with self._database.connection() as connection:
            # In this order: an end that is seen comes with what its batch said, which was written with it.
            jobs = {job.job_id: job for job in await self._coordination.progress(connection, job_ids)}
            rows = await store.FIND_BY_JOBS(connection, self._domain.chain_id, self._environment, list(jobs))
        return {row["job_id"]: store.status_of(row, jobs[row["job_id"]]) for row in rows}
