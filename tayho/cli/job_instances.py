"""`tayho jobs instances`, `drain` and `undrain`: one process of many."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NoReturn

import click
from rich.console import Console
from rich.table import Table

from tayho.cli.opened import deed_of, names_operator, opened_database
from tayho.cli.outcome import EXIT_FAILED, EXIT_UNACKNOWLEDGED, ends_clearly, run_trio
from tayho.config import load_settings
from tayho.coordination.module import Deed, Drained, InstanceRefused, Instances, JobReader, Standing
from tayho.coordination.types import LiveWorker
from tayho.kernel.plain import plain

_INSTANCE = click.argument("instance", metavar="INSTANCE")
_REASON = click.option("--reason", default="", help="Why, for the record.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command("instances")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@ends_clearly
def instances(*, as_json: bool) -> None:
    """The processes that live, and how much each has in hand.

    Example: tayho jobs instances
    """
    live = run_trio(_live)
    if as_json:
        for one in live:
            click.echo(json.dumps(plain(one)))
        return
    table = Table("instance", "worker", "roles", "running", "beat", "takes work")
    for one in live:
        beat = f"{one.heartbeat_age_seconds:.0f} s ago"
        takes = "no" if one.draining else "yes"
        table.add_row(one.instance_id, str(one.worker_id), " ".join(one.roles), str(one.running), beat, takes)
    Console().print(table)


@click.command("drain")
@_INSTANCE
@click.option(
    *("--wait", "wait_seconds"),
    type=click.IntRange(0, 3600),
    default=0,
    show_default=True,
    help="Seconds for the process to finish what it has.",
)
@_REASON
@names_operator
@_JSON
@ends_clearly
def drain(instance: str, *, wait_seconds: int, reason: str, actor: str, as_json: bool) -> None:
    """Let the process INSTANCE (an INSTANCE_ID or a worker id) take no new work; its siblings go on.

    It finishes what it has within its DRAIN_SECONDS, after which its handlers are cut off and their jobs returned. It
    lives on, is not ready, still looks after the transactions of its pool, and waits for a signal to end or for
    `tayho jobs undrain`. Exit 0: it is drained, or without --wait it will be; 1: refused; 4: it is not through yet.

    Example: OPERATOR_ID=ada tayho jobs drain payouts-1 --wait 90
    """
    drained, standing = _carried_out("drain", instance, deed_of(actor, reason), wait_seconds)
    is_through = standing is not None and standing.is_through
    if as_json:
        click.echo(json.dumps(plain({"drained": drained, "standing": standing, "is_through": is_through})))
    else:
        before = "" if drained.changed else ", and did not before"
        click.echo(f"{drained.instance_id} (worker {drained.worker_id}) takes no new work{before}")
        if standing is not None:
            click.echo("it has nothing in hand" if is_through else f"{standing.running} attempts of it still run")
    if wait_seconds and not is_through:
        sys.exit(EXIT_UNACKNOWLEDGED)


@click.command("undrain")
@_INSTANCE
@_REASON
@names_operator
@_JSON
@ends_clearly
def undrain(instance: str, *, reason: str, actor: str, as_json: bool) -> None:
    """Let the drained process INSTANCE take work again. Exit 0 also if it was not drained.

    Exit 1: refused. The name may be another process's by now, which nobody drained; or the process was told to end by a
    signal, which nothing undoes.

    Example: OPERATOR_ID=ada tayho jobs undrain payouts-1
    """
    drained, _ = _carried_out("undrain", instance, deed_of(actor, reason), 0)
    if as_json:
        click.echo(json.dumps(plain({"undrained": drained})))
        return
    before = "" if drained.changed else ", and was not drained"
    click.echo(f"{drained.instance_id} (worker {drained.worker_id}) takes work{before}")


async def _live() -> list[LiveWorker]:
    settings = load_settings(os.environ, ())
    async with opened_database() as database:
        return await JobReader(database, settings.chain_id, settings.environment).live_workers()


def _carried_out(act: str, instance: str, deed: Deed, wait_seconds: int) -> tuple[Drained, Standing | None]:
    async def carry_out() -> tuple[Drained, Standing | None]:
        async with _opened() as faces:
            if act == "undrain":
                return await faces.undrain(instance, deed), None
            drained = await faces.drain(instance, deed)
            return drained, await faces.await_drained(drained, wait_seconds) if wait_seconds else None

    try:
        return run_trio(carry_out)
    except InstanceRefused as error:
        _refuse(str(error))


@asynccontextmanager
async def _opened() -> AsyncGenerator[Instances]:
    settings = load_settings(os.environ, ())
    async with opened_database() as database:
        yield Instances(database, settings.chain_id, settings.environment)


def _refuse(reason: str) -> NoReturn:
    click.echo(f"tayho: refused: {reason}", err=True)
    sys.exit(EXIT_FAILED)
