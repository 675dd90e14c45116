"""Acting on jobs that are named, or on all that match a filter."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from attrs import field, frozen

from storage.database import Database
from tayho.cli.job_filter import as_previewed, confirm
from tayho.cli.opened import opened_database
from tayho.cli.outcome import run_trio
from tayho.config import Settings, load_settings
from tayho.coordination.module import BulkControl, BulkDone, ControlRefused, JobFilter, Preview


@frozen
class Acted:
    """What came of one command."""

    # Changed, by number: of many jobs nobody wants the list.
    jobs: int
    # Of a cancellation: those that a worker has to stop first.
    running: tuple[UUID, ...] = ()
    refused: dict[str, str] = field(factory=dict[str, str])


def act_on_each(job_ids: Sequence[UUID], change: Callable[[BulkControl, UUID], Awaitable[bool]]) -> Acted:
    """Change each; one that is refused stops no other. `change` says whether the job still runs."""

    async def act() -> Acted:
        done: list[UUID] = []
        running: list[UUID] = []
        refused: dict[str, str] = {}
        async with opened_database() as database:
            jobs = _control(database, _settings())
            for job_id in dict.fromkeys(job_ids):
                try:
                    still_runs = await change(jobs, job_id)
                except ControlRefused as error:
                    refused[str(job_id)] = str(error)
                else:
                    done.append(job_id)
                    running += [job_id] if still_runs else []
        return Acted(len(done), tuple(running), refused)

    return run_trio(act)


def act_on_all(
    what: str,
    which: JobFilter,
    *,
    preview: Callable[[BulkControl, JobFilter], Awaitable[Preview]],
    change: Callable[[BulkControl, JobFilter], Awaitable[BulkDone]],
    is_sure: bool,
    as_json: bool,
) -> Acted:
    """Show what matches, and change it after consent; without it the command ends here, with exit 1."""

    async def look() -> Preview:
        async with opened_database() as database:
            return await preview(_control(database, _settings()), which)

    async def act(asked: JobFilter) -> BulkDone:
        async with opened_database() as database:
            return await change(_control(database, _settings()), asked)

    seen = run_trio(look)
    if not seen.jobs:
        return Acted(0)
    confirm(what, seen, is_sure=is_sure, as_json=as_json)
    done = run_trio(act, as_previewed(which, seen))
    return Acted(done.jobs, done.still_running)


def await_end(job_ids: Sequence[UUID], seconds: int) -> dict[UUID, str]:
    """The states of the jobs once their workers have answered, or after `seconds`."""

    async def wait() -> dict[UUID, str]:
        async with opened_database() as database:
            return await _control(database, _settings()).await_end(job_ids, seconds=seconds)

    return run_trio(wait) if job_ids else {}


def _settings() -> Settings:
    return load_settings(os.environ, ())


def _control(database: Database, settings: Settings) -> BulkControl:
    return BulkControl(database, settings.chain_id, settings.environment)
