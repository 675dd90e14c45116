"""`tayho findings`."""

from __future__ import annotations

import json
import os
from datetime import UTC

import click
from attrs import asdict
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tayho.cli.opened import opened_database
from tayho.cli.outcome import ends_clearly, run_trio
from tayho.config import load_settings
from tayho.discovery.module import FindingReader
from tayho.discovery.types import FindingRecord


@click.command("findings")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="The newest so many.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@ends_clearly
def findings_command(*, limit: int, as_json: bool) -> None:
    """What keeps kinds from discovering work: silent sources, absurd values. The newest first, in UTC."""
    settings = load_settings(os.environ, ())

    async def read() -> list[FindingRecord]:
        async with opened_database() as database:
            return await FindingReader(database, settings.chain_id, settings.environment).newest(limit)

    found = run_trio(read)
    if as_json:
        for one in found:
            click.echo(json.dumps({**asdict(one), "found_at": one.found_at.isoformat()}))
        return
    table = Table("found", "kind", "subject", "finding", "detail", "by")
    for one in found:
        moment = f"{one.found_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
        # As they are: a text of somebody else's may look like markup.
        table.add_row(moment, *map(Text, (one.kind, one.subject, one.name, one.detail, one.found_by)))
    Console().print(table)
