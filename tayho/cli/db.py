"""`tayho db`: the schema, as a step of its own. No process ever migrates at its start (OPS-1)."""

from __future__ import annotations

import json
import os
import sys

import attrs
import click

from nursery.asyncio_bridge import open_bridge
from storage import migrations
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.config import ConfigurationRefused
from tayho.config.database_url import database_url_from, identity_urls_from
from tayho.config.errors import Problem
from tayho.config.variables import IDENTITY_VARIABLES
from tayho.identities import qualifying as identities
from tayho.identities.making import credentials_of, make_identities
from tayho.identities.qualifying import Proof


@click.group("db")
def db_group() -> None:
    """Make and check the schema of DATABASE_URL."""


@db_group.command("migrate")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@ends_clearly
def migrate(*, as_json: bool) -> None:
    """Apply the migrations that the database lacks, then make the logins that are set, with their privileges.

    The logins are those of RUNTIME_DATABASE_URL and AUDITOR_DATABASE_URL: what a process gets as its DATABASE_URL.
    """
    url = database_url_from(os.environ)
    urls = identity_urls_from(os.environ)

    async def apply() -> tuple[list[str], list[str]]:
        wanted = {identity: credentials_of(identity, each) for identity, each in urls.items()}
        async with open_bridge():
            applied = [f"{one.version:04d} {one.name}" for one in await migrations.migrate(url)]
            return applied, await make_identities(url, wanted) if wanted else []

    applied, logins = run_trio(apply)
    if as_json:
        click.echo(json.dumps({"applied": applied, "logins": logins}))
        return
    click.echo("\n".join(f"applied {line}" for line in applied) or "nothing to apply: the schema is up to date")
    for name in logins:
        click.echo(f"login {name} has its privileges, and no other")


@db_group.command("qualify")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@ends_clearly
def qualify(*, as_json: bool) -> None:
    """Connect as each login and prove what it may do and what it is refused, one line each; changes nothing."""
    urls = identity_urls_from(os.environ)
    if not urls:
        names = " or ".join(variable.name for variable in IDENTITY_VARIABLES.values())
        raise ConfigurationRefused([Problem(names, "the URL of a login to prove", "nothing")])

    async def prove() -> list[Proof]:
        async with open_bridge():
            return [proof for identity, url in urls.items() for proof in await identities.qualify(identity, url)]

    proofs = run_trio(prove)
    failed = [proof for proof in proofs if not proof.holds]
    if as_json:
        lines = [{**attrs.asdict(one), "holds": one.holds} for one in proofs]
        click.echo(json.dumps({"proofs": lines, "failed": len(failed)}))
    else:
        for one in proofs:
            click.echo(f"{'ok    ' if one.holds else 'FAILED'}  {one.identity}  {one.claim}")
            if not one.holds:
                click.echo(f"        {one.found}")
        click.echo(f"{len(proofs) - len(failed)} of {len(proofs)} hold")
    if failed:
        sys.exit(EXIT_FAILED)


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
