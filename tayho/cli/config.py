"""`tayho config`."""

from __future__ import annotations

import json
import os

import click
from rich.console import Console
from rich.table import Table

from tayho.cli.outcome import ends_clearly
from tayho.config import load_settings


@click.group("config")
def config_group() -> None:
    """Look at the effective configuration."""


@config_group.command("check")
@click.argument("roles", nargs=-1, metavar="[ROLE]…")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@ends_clearly
def check(roles: tuple[str, ...], *, as_json: bool) -> None:
    """Show what a process of these ROLEs would run with, secrets masked; exit 2 with every problem otherwise."""
    shown = load_settings(os.environ, roles).shown()
    if as_json:
        click.echo(json.dumps({name: {"value": value, "source": source} for name, value, source in shown}))
        return
    table = Table("variable", "value", "source")
    for name, value, source in shown:
        table.add_row(name, value, source)
    Console().print(table)
