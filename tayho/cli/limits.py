"""`tayho limits`: how much one key (a tenant, an account) may have at once."""

from __future__ import annotations

import json
import os
import sys

import click
from rich.console import Console
from rich.table import Table

from tayho.cli.opened import deed_of, opened_database, says_who
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.config import load_settings
from tayho.coordination.module import Deed, Limit, LimitLine, Throttles
from tayho.kernel.plain import plain

_KEY = click.argument("limit_key", metavar="KEY")
_REASON = click.option("--reason", default="", help="Why, for the record.")


@click.group("limits")
def limits_group() -> None:
    """Limits of the keys that jobs were enqueued with, in CHAIN_ID and ENVIRONMENT."""


@limits_group.command("set")
@_KEY
@click.option("--concurrent", "concurrent_max", type=int, help="Jobs of KEY that are in the queue or run at once.")
@click.option("--rate", "rate_max", type=int, help="Starts in --per-seconds; so many at once, then evenly.")
@click.option("--per-seconds", "rate_seconds", type=int, help="What --rate is counted over.")
@_REASON
@says_who
@ends_clearly
def set_command(
    limit_key: str,
    *,
    concurrent_max: int | None,
    rate_max: int | None,
    rate_seconds: int | None,
    reason: str,
    actor: str,
) -> None:
    """Give KEY these numbers and no others."""
    try:
        limit = Limit(concurrent_max, rate_max, rate_seconds)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    run_trio(_set, _checked(limit_key), limit, deed_of(actor, reason))
    click.echo(f"{limit_key} is limited")


@limits_group.command("remove")
@_KEY
@_REASON
@says_who
@ends_clearly
def remove(limit_key: str, *, reason: str, actor: str) -> None:
    """Leave KEY its fair share alone. Exit 1: it had no limit."""
    if not run_trio(_remove, _checked(limit_key), deed_of(actor, reason)):
        click.echo(f"tayho: {limit_key} has no limit", err=True)
        sys.exit(EXIT_FAILED)
    click.echo(f"{limit_key} has its fair share again")


@limits_group.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@ends_clearly
def list_command(*, as_json: bool) -> None:
    """Every key that has a limit or jobs, those with the most waiting jobs first."""
    lines = run_trio(_read)
    if as_json:
        for line in lines:
            click.echo(json.dumps(plain(line)))
        return
    table = Table("key", "at once", "rate", "starts left", "in flight", "waiting")
    for line in lines:
        table.add_row(
            line.limit_key,
            "fair share" if line.concurrent_max is None else str(line.concurrent_max),
            "-" if line.rate_max is None else f"{line.rate_max} in {line.rate_seconds} s",
            "-" if line.starts_left is None else str(line.starts_left),
            str(line.in_flight),
            str(line.waiting),
        )
    Console().print(table)


def _checked(limit_key: str) -> str:
    if not 1 <= len(limit_key) <= 255:
        raise click.UsageError(f"a limit key has 1 to 255 characters, and this one has {len(limit_key)}")
    return limit_key


async def _set(limit_key: str, limit: Limit, deed: Deed) -> None:
    settings = load_settings(os.environ, ())
    async with opened_database() as database:
        await Throttles(database, settings.chain_id, settings.environment).set_limit(limit_key, limit, deed)


async def _remove(limit_key: str, deed: Deed) -> bool:
    settings = load_settings(os.environ, ())
    async with opened_database() as database:
        return await Throttles(database, settings.chain_id, settings.environment).remove_limit(limit_key, deed)


async def _read() -> list[LimitLine]:
    settings = load_settings(os.environ, ())
    async with opened_database() as database:
        return await Throttles(database, settings.chain_id, settings.environment).list_limits()
