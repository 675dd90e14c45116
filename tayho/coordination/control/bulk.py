"""Replay and cancel of many jobs by a filter: looked at first, then changed a page a transaction (DLV-15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from attrs import asdict, evolve

from storage.database import Row
from storage.rows import value_from
from tayho.coordination import store
from tayho.coordination.control.jobs import JobControl
from tayho.coordination.control.types import BulkDone, Deed, JobFilter, JobSample, PageDone, Preview
from tayho.kernel.json_document import Json

# Jobs that one transaction changes.
PAGE_MAX = 500
# Jobs that a preview counts.
PREVIEW_MAX = 10_000
SAMPLE_MAX = 5
_BEFORE_ALL = UUID(int=0)


class BulkControl(JobControl):
    """Operations over all jobs that match. Dead ones are found by the index of what is set aside, open ones by the
    outbox: neither grows with the jobs that ended well.

    Each job is looked at once, in the order of the ids. What a failure leaves undone the same call does again.
    """

    async def preview_replay(self, which: JobFilter) -> Preview:
        """What `replay_many` would queue again."""
        return _preview(await self._dead(which, _BEFORE_ALL, PREVIEW_MAX + 1))

    async def preview_cancel(self, which: JobFilter) -> Preview:
        """What `cancel_many` would end or ask to stop. Jobs that own a nonce are not among it."""
        return _preview(await self._open(which, _BEFORE_ALL, PREVIEW_MAX + 1))

    async def replay_many(self, which: JobFilter, deed: Deed) -> BulkDone:
        """Replay the dead jobs that match."""
        done = await _in_pages(which, self._dead, partial(self.replay_page, deed=deed, detail=_document_of(which)))
        return evolve(done, still_running=())

    async def cancel_many(self, which: JobFilter, deed: Deed) -> BulkDone:
        """Cancel the open jobs that match and own no nonce."""
        return await _in_pages(which, self._open, partial(self.cancel_page, deed=deed, detail=_document_of(which)))

    async def _dead(self, which: JobFilter, after: UUID, jobs_max: int) -> list[Row]:
        async with self._database.connection() as connection:
            return await store.PAGE_OF_DEAD(connection, *self._asked(which, after, jobs_max))

    async def _open(self, which: JobFilter, after: UUID, jobs_max: int) -> list[Row]:
        async with self._database.connection() as connection:
            return await store.PAGE_OF_OPEN(connection, *self._asked(which, after, jobs_max), which.state)

    def _asked(self, which: JobFilter, after: UUID, jobs_max: int) -> tuple[object, ...]:
        narrowed = (which.role, which.kind, which.tag, which.limit_key, which.error_type)
        times = (which.created_from, which.created_before)
        return (self._chain_id, self._environment, after, jobs_max, *narrowed, *times)


async def _in_pages(
    which: JobFilter,
    find: Callable[[JobFilter, UUID, int], Awaitable[list[Row]]],
    change: Callable[[Sequence[UUID]], Awaitable[PageDone]],
) -> BulkDone:
    after, changed, left = _BEFORE_ALL, 0, 0
    running: list[UUID] = []
    while rows := await find(which, after, PAGE_MAX):
        if which.created_before is None:
            # Jobs that are made while this runs are nobody's wish.
            which = evolve(which, created_before=rows[0]["now"])
        done = await change([row["job_id"] for row in rows])
        changed += len(done.has_ended)
        left += len(done.refused)
        running += [job_id for job_id, has_ended in done.has_ended.items() if not has_ended]
        after = rows[-1]["job_id"]
    return BulkDone(changed, tuple(running), left)


def _preview(rows: Sequence[Row]) -> Preview:
    counted = rows[:PREVIEW_MAX]
    return Preview(
        jobs=len(counted),
        is_more=len(rows) > len(counted),
        by_kind=dict(Counter(row["kind"] for row in counted).most_common()),
        sample=tuple(value_from(JobSample, row) for row in counted[:SAMPLE_MAX]),
        seen_at=rows[0]["now"] if rows else None,
    )


def _document_of(which: JobFilter) -> Mapping[str, Json]:
    """The filter for the record: what was asked, without what was not."""
    return {"filter": {name: _plain(value) for name, value in asdict(which).items() if value is not None}}


def _plain(value: datetime | str) -> str:
    return value.isoformat() if isinstance(value, datetime) else value
