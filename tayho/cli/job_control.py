"""`tayho jobs replay` and `tayho jobs cancel`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import click

from tayho.cli.job_acting import Acted, act_on_all, act_on_each, await_end
from tayho.cli.job_filter import filter_of, takes_filter
from tayho.cli.opened import deed_of, says_who
from tayho.cli.outcome import EXIT_FAILED, EXIT_UNACKNOWLEDGED, ends_clearly
from tayho.coordination.module import BulkControl, Deed, JobFilter
from tayho.kernel.transitions import JOB

_IDS = click.argument("job_ids", nargs=-1, type=click.UUID, metavar="[ID]…")


@click.command("replay")
@_IDS
@takes_filter
@click.option("--reason", default="", help="Why, for the record.")
@says_who
@ends_clearly
def replay(
    job_ids: tuple[UUID, ...], *, is_all: bool, is_sure: bool, as_json: bool, reason: str, actor: str, **options: Any
) -> None:
    """Queue dead jobs again: their keys and histories stay, their budgets are whole.

    Exit 0: all were; 1: at least one was refused, or nothing was confirmed.
    """
    which, deed = filter_of(job_ids, options, is_all=is_all), deed_of(actor, reason)
    acted = _replay_named(job_ids, deed) if which is None else _replay_all(which, deed, is_sure, as_json)
    _tell({"replayed": acted.jobs, "refused": acted.refused}, [f"{acted.jobs} jobs are queued again"], as_json=as_json)
    _end_if_refused(acted)


@click.command("cancel")
@_IDS
@click.option("--state", type=click.Choice(["queued", "retry", "processing"]), help="Only jobs in this state.")
@takes_filter
@click.option("--reason", required=True, help="Why, for the record and for the job's last error.")
@click.option(
    *("--wait", "wait_seconds"),
    type=click.IntRange(0, 3600),
    default=30,
    show_default=True,
    help="Seconds for the workers of running jobs to answer.",
)
@says_who
@ends_clearly
def cancel(
    job_ids: tuple[UUID, ...],
    *,
    is_all: bool,
    is_sure: bool,
    as_json: bool,
    reason: str,
    wait_seconds: int,
    actor: str,
    **options: Any,
) -> None:
    """End jobs that wait, and have running ones stopped by their workers. A job that owns a nonce is refused.

    Exit 0: all have ended; 1: at least one was refused, or nothing was confirmed; 4: a worker has not answered yet,
    and the request stands.
    """
    which, deed = filter_of(job_ids, options, is_all=is_all), deed_of(actor, reason)
    acted = _cancel_named(job_ids, deed) if which is None else _cancel_all(which, deed, is_sure, as_json)
    states = {str(job_id): state for job_id, state in await_end(acted.running, wait_seconds).items()}
    silent = sorted(job_id for job_id, state in states.items() if state not in JOB.terminal)
    # The handler was through before the word reached it, and its end stands.
    first = {job_id: state for job_id, state in states.items() if state in JOB.terminal and state != "dead"}
    cancelled = acted.jobs - len(silent) - len(first)
    lines = [f"{cancelled} jobs are cancelled"]
    lines += [f"{job_id} was {state} before its worker heard of it" for job_id, state in first.items()]
    lines += [f"{job_id}: no answer of its worker in {wait_seconds} s; the request stands" for job_id in silent]
    told = {"cancelled": cancelled, "ended_first": first, "unanswered": silent, "refused": acted.refused}
    _tell(told, lines, as_json=as_json)
    _end_if_refused(acted)
    if silent:
        sys.exit(EXIT_UNACKNOWLEDGED)


def _replay_named(job_ids: Sequence[UUID], deed: Deed) -> Acted:
    async def change(jobs: BulkControl, job_id: UUID) -> bool:
        await jobs.replay(job_id, deed)
        return False

    return act_on_each(job_ids, change)


def _replay_all(which: JobFilter, deed: Deed, is_sure: bool, as_json: bool) -> Acted:
    return act_on_all(
        "replay",
        which,
        preview=lambda jobs, asked: jobs.preview_replay(asked),
        change=lambda jobs, asked: jobs.replay_many(asked, deed),
        is_sure=is_sure,
        as_json=as_json,
    )


def _cancel_named(job_ids: Sequence[UUID], deed: Deed) -> Acted:
    async def change(jobs: BulkControl, job_id: UUID) -> bool:
        return not (await jobs.cancel(job_id, deed)).has_ended

    return act_on_each(job_ids, change)


def _cancel_all(which: JobFilter, deed: Deed, is_sure: bool, as_json: bool) -> Acted:
    return act_on_all(
        "cancel",
        which,
        preview=lambda jobs, asked: jobs.preview_cancel(asked),
        change=lambda jobs, asked: jobs.cancel_many(asked, deed),
        is_sure=is_sure,
        as_json=as_json,
    )


def _tell(document: Mapping[str, object], lines: Sequence[str], *, as_json: bool) -> None:
    click.echo(json.dumps(document) if as_json else "\n".join(lines))


def _end_if_refused(acted: Acted) -> None:
    for message in acted.refused.values():
        click.echo(f"tayho: refused: {message}", err=True)
    if acted.refused:
        sys.exit(EXIT_FAILED)
