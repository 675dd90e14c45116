"""`tayho schedules`."""

from __future__ import annotations

import json
import os
from datetime import datetime

import click
from rich.console import Console
from rich.table import Table

from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from tayho.cli.outcome import ends_clearly, run_trio
from tayho.config import load_settings
from tayho.config.database_url import database_url_from
from tayho.coordination.module import JobReader
from tayho.coordination.types import ScheduleLine
from tayho.kernel.json_document import Json

# Past this the processes that declared a schedule are gone: each says its word every ten seconds or so.
SILENT_SECONDS = 60


@click.group("schedules")
def schedules_group() -> None:
    """Look at the recurring jobs of CHAIN_ID and ENVIRONMENT."""


@schedules_group.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@ends_clearly
def list_command(*, as_json: bool) -> None:
    """Every schedule with its last and its next slot, in UTC."""
    settings = load_settings(os.environ, ())

    async def read() -> list[ScheduleLine]:
        async with (
            open_bridge(),
            Database.open(database_url_from(os.environ), pool_size=1, application_name="tayho cli") as database,
        ):
            return await JobReader(database, settings.chain_id, settings.environment).list_schedules()

    lines = run_trio(read)
    if as_json:
        for line in lines:
            click.echo(json.dumps(_plain(line)))
        return
    table = Table("schedule", "kind", "rule", "zone", "last slot", "next slot", "declared by")
    for line in lines:
        table.add_row(
            line.name,
            str(line.declaration.get("kind")),
            _rule(line),
            str(line.declaration.get("time_zone", "UTC")),
            _shown(line.last_slot_at),
            _shown(line.next_slot_at),
            _declared_by(line),
        )
    Console().print(table)


def _plain(line: ScheduleLine) -> dict[str, Json]:
    return {
        "name": line.name,
        "declaration": line.declaration,
        "decided_until": line.decided_until.isoformat(),
        "last_slot_at": None if line.last_slot_at is None else line.last_slot_at.isoformat(),
        "next_slot_at": None if line.next_slot_at is None else line.next_slot_at.isoformat(),
        "silent_seconds": line.silent_seconds,
        "first_seen_at": line.first_seen_at.isoformat(),
    }


def _rule(line: ScheduleLine) -> str:
    every_seconds = line.declaration.get("every_seconds")
    return str(line.declaration.get("cron")) if every_seconds is None else f"every {every_seconds} s"


def _shown(slot: datetime | None) -> str:
    return "-" if slot is None else f"{slot:%Y-%m-%d %H:%M:%S}"


def _declared_by(line: ScheduleLine) -> str:
    if line.silent_seconds > SILENT_SECONDS:
        return f"nobody since {line.silent_seconds:.0f} s"
    return "a running process"
