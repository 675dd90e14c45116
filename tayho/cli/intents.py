"""`tayho intents`: the line, where an intent or a batch stands, and letting go of what a dead batch carried."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, cast
from uuid import UUID

import click
from attrs import frozen
from rich.console import Console
from rich.table import Table

from storage.database import Connection
from tayho.cli.opened import deed_of, opened_database, says_who
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.config import load_settings
from tayho.coordination.module import ControlRefused, Deed, JobControl, JobReader
from tayho.intents.module import Line
from tayho.intents.types import LineLook, LinePlace
from tayho.kernel.plain import plain

_DIGEST = re.compile(r"0x[0-9a-fA-F]{64}")
LINES_MAX = 10_000


class Named(click.ParamType["UUID | bytes"]):
    """The id of an intent's job or of a batch, or an intent's digest."""

    name = "job, batch or digest"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> UUID | bytes:
        if isinstance(value, UUID | bytes):
            return value
        if _DIGEST.fullmatch(value):
            return bytes.fromhex(value[2:])
        try:
            return UUID(value)
        except ValueError:
            self.fail(f"{value!r} is neither an id nor 0x and the 64 digits of a digest", param, ctx)


@frozen
class Found:
    """An intent's place, and the state of its job."""

    state: str
    place: LinePlace


@click.group("intents")
def intents_group() -> None:
    """Intents of CHAIN_ID and ENVIRONMENT: the line, batches, and what became of each."""


@intents_group.command("list")
@click.option("--limit", "lines_max", type=click.IntRange(1, LINES_MAX), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, the line's own first.")
@ends_clearly
def list_command(*, lines_max: int, as_json: bool) -> None:
    """The line from its front."""
    look, found = run_trio(_read, None, lines_max)
    if as_json:
        click.echo(json.dumps(plain(look)))
    else:
        click.echo(f"{look.waiting} wait, the first for {look.oldest_seconds:.1f} s")
    _show(found, as_json=as_json)


@intents_group.command("inspect")
@click.argument("named", type=Named(), metavar="JOB|BATCH|DIGEST")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@ends_clearly
def inspect(named: UUID | bytes, *, as_json: bool) -> None:
    """One intent, or everything that a batch carries. Exit 1: there is none of that name."""
    _, found = run_trio(_read, named, LINES_MAX)
    if not found:
        click.echo("tayho: no intent and no batch of that name in this chain and environment", err=True)
        sys.exit(EXIT_FAILED)
    _show(found, as_json=as_json)


@intents_group.command("release")
@click.argument("batch", type=click.UUID, metavar="BATCH")
@click.option("--reason", default="", help="Why, for the record.")
@says_who
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@ends_clearly
def release(batch: UUID, *, reason: str, actor: str, as_json: bool) -> None:
    """Let what a batch carried wait for another: of one that ended without an effect, and then is not replayed.

    Each goes back to its old place in the line. Exit 1: refused.
    """
    try:
        count = run_trio(_release, batch, deed_of(actor, reason))
    except ControlRefused as error:
        click.echo(f"tayho: {error}", err=True)
        sys.exit(EXIT_FAILED)
    click.echo(json.dumps({"batch": str(batch), "released": count}) if as_json else f"{count} wait in the line again")


def _show(found: list[Found], *, as_json: bool) -> None:
    if as_json:
        for one in found:
            click.echo(json.dumps({"state": one.state, **_document(one.place)}))
        return
    table = Table("job", "state", "account", "action", "deadline", "batch", "index", "stipend", "result")
    for one in found:
        place = one.place
        table.add_row(
            str(place.job_id),
            one.state,
            str(place.account),
            str(place.action),
            str(place.deadline),
            *(
                "-" if each is None else str(each)
                for each in (place.batch_job_id, place.child_index, place.gas_stipend)
            ),
            {None: "-", True: "succeeded", False: "failed"}[place.succeeded],
        )
    Console().print(table)


def _document(place: LinePlace) -> dict[str, object]:
    return cast("dict[str, object]", plain(place))


async def _read(named: UUID | bytes | None, lines_max: int) -> tuple[LineLook, list[Found]]:
    settings = load_settings(os.environ, ())
    async with opened_database() as database:
        line = Line(database, settings.chain_id, settings.environment)
        places = await line.places(named, lines_max=lines_max)
        reader = JobReader(database, settings.chain_id, settings.environment)
        states = await reader.states_of([place.job_id for place in places])
        return await line.look(), [Found(states.get(place.job_id, "unknown"), place) for place in places]


async def _release(batch: UUID, deed: Deed) -> int:
    settings = load_settings(os.environ, ())
    async with opened_database() as database:
        control = JobControl(database, settings.chain_id, settings.environment)

        async def let_go(tx: Connection, batch_job_id: UUID) -> frozenset[UUID]:
            return await control.release_children(tx, batch_job_id, deed)

        return await Line(database, settings.chain_id, settings.environment).release(batch, let_go)
