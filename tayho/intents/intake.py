"""Intents into the line: what many submit at once is looked up and recorded together, each answered for itself."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from attrs import frozen

from nursery.coalesce import Coalescer
from storage.commits import isolating
from storage.database import Database
from tayho.contracts.coordination import Coordination, NewJob
from tayho.intents import store
from tayho.intents.admission import Examined
from tayho.intents.constants import CHILD_KIND, ROLE
from tayho.intents.signing import intent_document
from tayho.intents.types import Accepted, IntentDomain, SignedIntent
from tayho.kernel.steps import step

TOGETHER_MAX = 128
WAITING_MAX = 4_096
# Two, so that the one's commit and the other's statements overlap.
PARALLEL = 2


@frozen
class _Entry:
    """One submission on its way into the line."""

    signed: SignedIntent
    examined: Examined


class Intake:
    """The way into one line. `run` must run for anything to be answered."""

    def __init__(self, database: Database, coordination: Coordination, domain: IntentDomain, environment: str) -> None:
        self._database = database
        self._coordination = coordination
        self._domain = domain
        self._environment = environment
        self._lookups: Coalescer[bytes, bool] = Coalescer(
            self._are_known,
            name="known intents",
            items_max=TOGETHER_MAX,
            queued_max=WAITING_MAX,
            parallel=PARALLEL,
        )
        self._records: Coalescer[_Entry, Accepted] = Coalescer(
            isolating(self._record), name="intents", items_max=TOGETHER_MAX, queued_max=WAITING_MAX, parallel=PARALLEL
        )

    async def run(self) -> None:
        """Look up and record for all who submit, until cancelled."""
        async with trio.open_nursery() as coalescers:
            coalescers.start_soon(self._lookups.run)
            coalescers.start_soon(self._records.run)

    async def is_known(self, digest: bytes) -> bool:
        """Whether the intent was taken before. Raises StorageError, CoalescerClosed."""
        return await self._lookups.submit(digest)

    async def record(self, signed: SignedIntent, examined: Examined) -> Accepted:
        """The intent's job, made now or before. Raises StorageError, CommitUnknown, CoalescerClosed."""
        return await self._records.submit(_Entry(signed, examined))

    async def _are_known(self, digests: Sequence[bytes]) -> Sequence[bool]:
        async with self._database.connection() as connection:
            rows = await store.WHICH_ARE_KNOWN(connection, self._domain.chain_id, self._environment, list(digests))
        known = {row["digest"] for row in rows}
        return [digest in known for digest in digests]

    async def _record(self, entries: Sequence[_Entry]) -> Sequence[Accepted]:
        async with self._database.transaction() as tx:
            jobs = await self._coordination.admit(tx, [_job_of(entry) for entry in entries])
            made = [(job.job_id, entry) for job, entry in zip(jobs, entries, strict=True) if job.created]
            if made:
                rows = [self._row(entry) for _, entry in made]
                columns = [list(column) for column in zip(*rows, strict=True)]
                job_ids = [job_id for job_id, _ in made]
                await store.RECORD(tx, self._domain.chain_id, self._environment, job_ids, *columns)
        step("intent.after_accept")
        return [
            Accepted(job.job_id, entry.examined.digest, job.created, job.state)
            for job, entry in zip(jobs, entries, strict=True)
        ]

    def _row(self, entry: _Entry) -> tuple[object, ...]:
        """The columns of an intent, in the statement's order."""
        intent = entry.signed.intent
        return (
            entry.examined.digest,
            self._domain.protocol.value,
            intent.account.value,
            entry.examined.session_key.value,
            intent.action,
            intent.market,
            intent.payload,
            intent.salt,
            intent.deadline,
            entry.signed.signature,
        )


def _job_of(entry: _Entry) -> NewJob:
    """The child's job. Its key is the digest; its request says what was signed, without the signature."""
    return NewJob(
        kind=CHILD_KIND,
        role=ROLE,
        idempotency_key=f"0x{entry.examined.digest.hex()}",
        request=intent_document(entry.signed.intent),
        limit_key=str(entry.signed.intent.account),
    )
