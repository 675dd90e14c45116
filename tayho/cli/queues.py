"""`tayho queues`: what is taken, and what is not."""

from __future__ import annotations

import json
import os

import click
from rich.console import Console
from rich.table import Table

from tayho.cli.opened import deed_of, opened_database, says_who
from tayho.cli.outcome import ends_clearly, run_trio
from tayho.config import load_settings
from tayho.coordination.module import Deed, Pause, RoleBacklog, Throttles
from tayho.kernel.plain import plain
from tayho.kernel.roles import ROLES

_ROLE = click.argument("role", type=click.Choice(sorted(ROLES)), metavar="ROLE")
_KIND = click.option("--kind", default="", help="Only this kind of the role's jobs.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group("queues")
def queues_group() -> None:
    """Pause and resume the roles and kinds of CHAIN_ID and ENVIRONMENT."""


@queues_group.command("pause")
@_ROLE
@_KIND
@click.option("--reason", required=True, help="Why: shown to whoever asks about a job that waits.")
@says_who
@_JSON
@ends_clearly
def pause(role: str, *, kind: str, reason: str, actor: str, as_json: bool) -> None:
    """Let no new work of ROLE begin. What runs goes on, and so does a job whose nonce is taken. Exit 0 also if it was
    paused before."""
    began = run_trio(_pause, role, kind, deed_of(actor, reason))
    _tell(role, kind, "paused", changed=began, as_json=as_json)


@queues_group.command("resume")
@_ROLE
@_KIND
@click.option("--reason", default="", help="Why, for the record.")
@says_who
@_JSON
@ends_clearly
def resume(role: str, *, kind: str, reason: str, actor: str, as_json: bool) -> None:
    """Let the work of ROLE begin again, at once. A pause of a kind and one of its role end apart. Exit 0 also if it was
    not paused."""
    ended = run_trio(_resume, role, kind, deed_of(actor, reason))
    _tell(role, kind, "resumed", changed=ended, as_json=as_json)


@queues_group.command("list")
@_JSON
@ends_clearly
def list_command(*, as_json: bool) -> None:
    """What is paused, and what each role has before it."""
    pauses, backlogs = run_trio(_read)
    if as_json:
        click.echo(json.dumps({"pauses": plain(pauses), "backlogs": plain(backlogs)}))
        return
    paused = Table("role", "kind", "paused by", "since", "reason", title="Pauses", title_justify="left")
    for one in pauses:
        paused.add_row(one.role, one.kind or "all", one.actor, f"{one.paused_at:%Y-%m-%d %H:%M:%S}", one.reason)
    waiting = Table("role", "jobs", "unpublished", "running", "oldest waits", title="Backlog", title_justify="left")
    for each in backlogs:
        waiting.add_row(
            each.role,
            str(each.jobs),
            str(each.unpublished),
            str(each.processing),
            f"{each.oldest_waiting_seconds:.0f} s",
        )
    for table in (paused, waiting):
        Console().print(table)


async def _pause(role: str, kind: str, deed: Deed) -> bool:
    settings = load_settings(os.environ, ())
    async with opened_database() as database:
        return await Throttles(database, settings.chain_id, settings.environment).pause(role, deed, kind=kind)


async def _resume(role: str, kind: str, deed: Deed) -> bool:
    settings = load_settings(os.environ, ())
    async with opened_database() as database:
        return await Throttles(database, settings.chain_id, settings.environment).resume(role, deed, kind=kind)


async def _read() -> tuple[list[Pause], list[RoleBacklog]]:
    settings = load_settings(os.environ, ())
    async with opened_database() as database:
        throttles = Throttles(database, settings.chain_id, settings.environment)
        return await throttles.list_pauses(), await throttles.backlog_by_role()


def _tell(role: str, kind: str, what: str, *, changed: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"role": role, "kind": kind, "changed": changed}))
        return
    named = f"{role}, kind {kind}" if kind else role
    unchanged = {"paused": "was paused already", "resumed": "was not paused"}[what]
    click.echo(f"{named} is {what}" if changed else f"{named} {unchanged}")
