"""`tayho lanes`."""

from __future__ import annotations

import json
import os

import click
import trio

from tayho.cli.opened import opened_database
from tayho.cli.outcome import ends_clearly, run_trio
from tayho.cli.tx_tables import print_lanes
from tayho.config import Settings, load_settings
from tayho.kernel.plain import plain
from tayho.kernel.roles import ROLES
from tayho.transactions.module import LineageReader


@click.command("lanes")
@click.option("--role", type=click.Choice(sorted(ROLES)), help="Only the lanes of this role.")
@click.option("--watch", is_flag=True, help="Show again every --seconds, until Ctrl-C.")
@click.option("--seconds", type=click.FloatRange(0.5, 600), default=2, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, one for each lane.")
@ends_clearly
def lanes_command(*, role: str | None, watch: bool, seconds: float, as_json: bool) -> None:
    """The nonce lanes of CHAIN_ID and ENVIRONMENT: the fence (next), what a majority of the nodes last showed (latest,
    pending, balance), what is in flight and held, how long the oldest waits, and why a lane takes no new work.

    Example: tayho lanes --role payouts --watch
    """
    settings = load_settings(os.environ, ())
    run_trio(_look, settings, role, seconds, watch=watch, as_json=as_json)


async def _look(settings: Settings, role: str | None, seconds: float, *, watch: bool, as_json: bool) -> None:
    async with opened_database() as database:
        reader = LineageReader(database, settings.chain_id, settings.environment)
        while True:
            lines = await reader.lanes(role=role)
            if as_json:
                for line in lines:
                    click.echo(json.dumps(plain(line)))
            else:
                print_lanes(lines)
            if not watch:
                return
            await trio.sleep(seconds)
