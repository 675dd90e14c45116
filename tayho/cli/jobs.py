"""`tayho jobs`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import cast
from uuid import UUID

import attrs
import click
from rich.console import Console
from rich.table import Table

from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.config import Settings, load_settings
from tayho.config.database_url import database_url_from
from tayho.coordination.module import JobReader
from tayho.coordination.types import JobLine, JobRecord
from tayho.kernel.address import Address
from tayho.kernel.transitions import JOB
from tayho.transactions.module import lineages_of_job
from tayho.transactions.types import LineageRecord


@click.group("jobs")
def jobs_group() -> None:
    """Look at the jobs of CHAIN_ID and ENVIRONMENT."""


@jobs_group.command("list")
@click.option("--state", type=click.Choice(sorted(JOB.states)), help="Only jobs in this state.")
@click.option("--role", help="Only jobs of this role.")
@click.option("--limit", "lines_max", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@ends_clearly
def list_command(*, state: str | None, role: str | None, lines_max: int, as_json: bool) -> None:
    """The newest jobs."""
    settings = load_settings(os.environ, ())

    async def read() -> list[JobLine]:
        async with _reader(settings) as (_, jobs):
            return await jobs.list_recent(state=state, role=role, lines_max=lines_max)

    lines = run_trio(read)
    if as_json:
        for line in lines:
            click.echo(json.dumps(_plain(line)))
        return
    table = Table("job", "kind", "state", "attempts", "key", "updated")
    for line in lines:
        table.add_row(
            str(line.job_id),
            line.kind,
            line.state,
            f"{line.attempts_spent} ({line.attempt_number})",
            line.idempotency_key,
            f"{line.updated_at:%Y-%m-%d %H:%M:%S}",
        )
    Console().print(table)


@jobs_group.command("inspect")
@click.argument("job_id", type=click.UUID)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@ends_clearly
def inspect(job_id: UUID, *, as_json: bool) -> None:
    """One job whole: its attempts, its lineage and every transaction signed for it; never the signed bytes."""
    settings = load_settings(os.environ, ())

    async def read() -> tuple[JobRecord | None, list[LineageRecord]]:
        async with _reader(settings) as (database, jobs):
            return await jobs.inspect(job_id), await lineages_of_job(database, job_id)

    record, lineages = run_trio(read)
    if record is None:
        click.echo(f"tayho: there is no job {job_id}", err=True)
        sys.exit(EXIT_FAILED)
    whole = {"job": _plain(record), "lineages": [_plain(lineage) for lineage in lineages]}
    if as_json:
        click.echo(json.dumps(whole))
    else:
        Console().print_json(json.dumps(whole))


@asynccontextmanager
async def _reader(settings: Settings) -> AsyncGenerator[tuple[Database, JobReader]]:
    async with (
        open_bridge(),
        Database.open(database_url_from(os.environ), pool_size=1, application_name="tayho cli") as database,
    ):
        yield database, JobReader(database, settings.chain_id, settings.environment)


def _plain(value: object) -> object:
    """A value as JSON holds it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, (UUID, Address)):
        return str(value)
    return _plain_parts(value)


def _plain_parts(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("Sequence[object]", value)]
    if attrs.has(type(value)):
        return {name: _plain(getattr(value, name)) for name in attrs.fields_dict(type(value))}
    return value
