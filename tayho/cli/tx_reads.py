"""`tayho tx explain`, `inspect` and `ambiguous`: what is known of a transaction, for people and for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias, TypeVar
from uuid import UUID

import click

from rpc.member import Member
from rpc.pool import ReadPool
from tayho.cli.opened import opened_database
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.cli.tx_tables import print_doubtful, print_explanation, print_whole
from tayho.config import Settings, load_settings
from tayho.kernel.plain import plain
from tayho.kernel.roles import ROLES
from tayho.transactions.module import (
    DoubtfulLine,
    EngineRules,
    LineageReader,
    LineageWhole,
    TxExplanation,
    explain_lineage,
)

T = TypeVar("T")
# A lineage's or a job's id, or the hash of any transaction ever signed for it.
Named: TypeAlias = UUID | bytes


class NamedLineage(click.ParamType[UUID | bytes]):
    """A lineage by its id, by its job's, or by the hash of one of its transactions."""

    name = "job, lineage or hash"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Named:
        text = str(value)
        try:
            hashed = bytes.fromhex(text.removeprefix("0x"))
        except ValueError:
            hashed = b""
        if len(hashed) == 32:
            return hashed
        try:
            return UUID(text)
        except ValueError:
            self.fail(f"{text!r} is no id of a job or a lineage, and no hash of a transaction", param, ctx)


_NAMED = click.argument("named", type=NamedLineage(), metavar="JOB|LINEAGE|HASH")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")


@click.command("inspect")
@_NAMED
@_JSON
@ends_clearly
def inspect(named: Named, *, as_json: bool) -> None:
    """Everything about a transaction but its signed bytes: fees, hashes, who sent it when and what was answered,
    receipts (those of orphaned blocks too), events, and what was found about its lane meanwhile.

    A job that was replayed may have several lineages: the newest comes first. Exit 1: there is none of that name.

    Example: tayho tx inspect 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060
    """
    settings = load_settings(os.environ, ())

    async def read() -> list[LineageWhole]:
        async with opened_database() as database:
            reader = LineageReader(database, settings.chain_id, settings.environment)
            found = [await reader.whole(lineage_id) for lineage_id in await reader.find(named)]
        return [one for one in found if one is not None]

    _show(named, run_trio(read), print_whole, as_json=as_json)


@click.command("explain")
@_NAMED
@_JSON
@ends_clearly
def explain(named: Named, *, as_json: bool) -> None:
    """Why a transaction is not final, what happens next and when, and what each endpoint of RPC_READ_URLS says of it
    now. An endpoint that fails is shown as failing; without any, only the database is asked.

    TX_CONFIRMATIONS, TX_STUCK_SECONDS and TX_MAX_REPLACEMENTS are read from this environment: give it the engine's.
    Exit 1: there is none of that name.

    Example: tayho tx explain 0199f0c2-7b1e-7cc3-98f4-0c6d2b8a1f00 --json
    """
    settings = load_settings(os.environ, ())
    _show(named, run_trio(explanations, settings, named), print_explanation, as_json=as_json)


async def explanations(settings: Settings, named: Named) -> list[TxExplanation]:
    """One for each lineage of that name, the newest first."""
    rules = EngineRules(
        confirmations=settings.tx_confirmations,
        reorg_lookback_blocks=settings.tx_reorg_lookback_blocks,
        stuck_seconds=settings.tx_stuck_seconds,
        reconcile_seconds=settings.tx_reconcile_seconds,
        replacements_max=settings.tx_max_replacements,
    )
    async with opened_database() as database, _endpoints(settings) as members:
        reader = LineageReader(database, settings.chain_id, settings.environment)
        found = [await reader.facts(lineage_id, rules, members) for lineage_id in await reader.find(named)]
    return [explain_lineage(facts) for facts in found if facts is not None]


@click.command("ambiguous")
@click.option("--role", type=click.Choice(sorted(ROLES)), help="Only the lanes of this role.")
@click.option("--limit", "lines_max", type=click.IntRange(1, 10_000), default=50, show_default=True)
@_JSON
@ends_clearly
def ambiguous(*, role: str | None, lines_max: int, as_json: bool) -> None:
    """Open transactions that are neither surely sent nor surely not, and those that are held, the oldest first.

    Example: tayho tx ambiguous --role payouts
    """
    settings = load_settings(os.environ, ())

    async def read() -> list[DoubtfulLine]:
        async with opened_database() as database:
            reader = LineageReader(database, settings.chain_id, settings.environment)
            return await reader.doubtful(role=role, lines_max=lines_max)

    lines = run_trio(read)
    if as_json:
        for line in lines:
            click.echo(json.dumps(plain(line)))
    else:
        print_doubtful(lines)


@asynccontextmanager
async def _endpoints(settings: Settings) -> AsyncGenerator[Sequence[Member]]:
    """Each endpoint for reads by itself; none where none is configured."""
    if not settings.rpc_read_urls:
        yield ()
        return
    async with ReadPool.open(
        settings.rpc_read_urls, chain_id=settings.chain_id, deadline_seconds=5, head_poll_seconds=None
    ) as pool:
        yield pool.members


def _show(named: Named, found: Sequence[T], show: Callable[[T], None], *, as_json: bool) -> None:
    if not found:
        shown = named if isinstance(named, UUID) else f"0x{named.hex()}"
        click.echo(f"tayho: there is no transaction of {shown} here: look at CHAIN_ID and ENVIRONMENT", err=True)
        sys.exit(EXIT_FAILED)
    for one in found:
        if as_json:
            click.echo(json.dumps(plain(one)))
        else:
            show(one)
