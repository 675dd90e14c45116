"""`tayho config`."""

from __future__ import annotations

import json
import os

import click
from rich.console import Console
from rich.table import Column, Table

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
    settings = load_settings(os.environ, roles)
    if as_json:
        variables = {one.name: {"value": one.shown, "source": one.source} for one in settings.effective}
        click.echo(json.dumps({"variables": variables, "warnings": settings.warnings}))
        return
    table = Table(Column("variable", no_wrap=True), Column("value", overflow="fold"), "source")
    for one in settings.effective:
        table.add_row(one.name, one.shown, one.source)
    Console().print(table)
    for warning in settings.warnings:
        click.echo(f"tayho: warning: {warning}", err=True)
