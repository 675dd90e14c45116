"""`tayho db`: the schema, as a step of its own. No process ever migrates at its start (OPS-1)."""

from __future__ import annotations

import json
import os

import click

from nursery.asyncio_bridge import open_bridge
from storage import migrations
from tayho.cli.outcome import ends_clearly, run_trio
from tayho.config.database_url import database_url_from


@click.group("db")
def db_group() -> None:
    """Make and check the schema of DATABASE_URL."""


@db_group.command("migrate")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@ends_clearly
def migrate(*, as_json: bool) -> None:
    """Apply the migrations that the database lacks, under an advisory lock."""
    url = database_url_from(os.environ)

    async def apply() -> list[str]:
        async with open_bridge():
            return [f"{one.version:04d} {one.name}" for one in await migrations.migrate(url)]

    applied = run_trio(apply)
    if as_json:
        click.echo(json.dumps({"applied": applied}))
    elif applied:
        click.echo("\n".join(f"applied {line}" for line in applied))
    else:
        click.echo("nothing to apply: the schema is up to date")


@db_group.command("check")
@ends_clearly
def check() -> None:
    """Fail when migrations and snapshot disagree, or an applied migration was changed."""
    url = database_url_from(os.environ)

    async def compare() -> None:
        async with open_bridge():
            await migrations.check(url)

    run_trio(compare)
    click.echo("migrations, snapshot and database agree")


@db_group.command("snapshot")
@ends_clearly
def snapshot() -> None:
    """Print the schema that the migrations make, as sql/schema.sql keeps it; made on a throw-away database."""
    url = database_url_from(os.environ)

    async def take() -> str:
        async with open_bridge():
            return await migrations.fresh_snapshot(url)

    click.echo(run_trio(take), nl=False)
