"""The face of intents."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from uuid import UUID

from storage.commits import again_if_lost
from storage.database import Connection, Database
from tayho.contracts.coordination import Coordination, NewJob
from tayho.intents import store
from tayho.intents.admission import Examined, examine
from tayho.intents.batch_kind import BatchKind
from tayho.intents.batcher import Batcher, Sight
from tayho.intents.constants import BATCH_KIND, CHILD_KIND, ROLE
from tayho.intents.errors import IntentNotPermitted, LineDrifted
from tayho.intents.line import Line
from tayho.intents.signing import intent_document
from tayho.intents.types import Accepted, IntentDomain, IntentStatus, Permit, Recover, SignedIntent
from tayho.kernel.steps import step

__all__ = ["BATCH_KIND", "CHILD_KIND", "ROLE", "BatchKind", "Batcher", "Intents", "Line", "LineDrifted", "Sight"]


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
        self._domain = domain
        self._environment = environment
        self._permit = permit
        self._recover = recover
        self._now = now

    async def register(self) -> None:
        """Make sure that there is a line. Replicas may do it at once."""
        await Line(self._database, self._domain.chain_id, self._environment).register()

    async def submit(self, signed: SignedIntent) -> Accepted:
        """Take an intent: the same one again is the same job, also where it could not be taken any more (INT-2).

        Raises IntentRefused (each class has its code), RpcError where the chain cannot be asked, StorageError with
        nothing recorded, CommitUnknown: then submitting again tells.
        """
        examined = examine(signed, self._domain, now=int(self._now()), recover=self._recover)
        if not await self._is_known(examined.digest):
            refusal = await self._permit(signed)
            if refusal is not None:
                raise IntentNotPermitted(refusal.reason)
        return await again_if_lost(lambda: self._record(signed, examined))

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

    async def _is_known(self, digest: bytes) -> bool:
        """A known intent is answered with its job, whatever the chain would say of it by now."""
        async with self._database.connection() as connection:
            return await store.IS_KNOWN(connection, self._domain.chain_id, self._environment, digest) is not None

    async def _record(self, signed: SignedIntent, examined: Examined) -> Accepted:
        async with self._database.transaction() as tx:
            (job,) = await self._coordination.admit(tx, [self._job(signed, examined)])
            if job.created:
                await self._insert(tx, job.job_id, signed, examined)
        step("intent.after_accept")
        return Accepted(job.job_id, examined.digest, job.created, job.state)

    def _job(self, signed: SignedIntent, examined: Examined) -> NewJob:
        """The child's job. Its key is the digest; its request says what was signed, without the signature."""
        return NewJob(
            kind=CHILD_KIND,
            role=ROLE,
            idempotency_key=f"0x{examined.digest.hex()}",
            request=intent_document(signed.intent),
            limit_key=str(signed.intent.account),
        )

    async def _insert(self, tx: Connection, job_id: UUID, signed: SignedIntent, examined: Examined) -> None:
        intent = signed.intent
        await store.RECORD(
            tx,
            job_id,
            self._domain.chain_id,
            self._environment,
            examined.digest,
            self._domain.protocol.value,
            intent.account.value,
            examined.session_key.value,
            intent.action,
            intent.market,
            intent.payload,
            intent.salt,
            intent.deadline,
            signed.signature,
        )
