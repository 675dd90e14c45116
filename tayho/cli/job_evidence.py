"""`tayho jobs evidence`."""

from __future__ import annotations

import json
import sys
from uuid import UUID

import click
from rich.console import Console

from tayho.cli.opened import opened_database
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.kernel.plain import plain
from tayho.transactions.module import evidence_of_job
from tayho.transactions.types import EvidenceRecord


@click.command("evidence")
@click.argument("job_id", type=click.UUID)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, one for each decision.")
@ends_clearly
def evidence(job_id: UUID, *, as_json: bool) -> None:
    """Who told what the end of the job rests on, and who proved it. Exit 1: nothing is kept of it."""

    async def read() -> list[EvidenceRecord]:
        async with opened_database() as database:
            return await evidence_of_job(database, job_id)

    records = [plain(record) for record in run_trio(read)]
    if not records:
        click.echo(f"tayho: there is no evidence of job {job_id}: it has not ended on the chain, or long ago", err=True)
        sys.exit(EXIT_FAILED)
    for record in records:
        if as_json:
            click.echo(json.dumps(record))
        else:
            Console().print_json(json.dumps(record))
