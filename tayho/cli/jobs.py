"""`tayho jobs`."""

from __future__ import annotations

import json
import os
import sys
from uuid import UUID

import click
from rich.console import Console
from rich.table import Table

from tayho.cli.job_control import cancel, replay
from tayho.cli.job_evidence import evidence
from tayho.cli.job_instances import drain, instances, undrain
from tayho.cli.job_keys import key_retire_check
from tayho.cli.job_questions import dead, explain
from tayho.cli.job_signers import (
    signer_drain,
    signer_pool_add,
    signer_pool_rotate,
    signer_retire_check,
    signer_undrain,
)
from tayho.cli.opened import opened_database
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.config import load_settings
from tayho.coordination.module import JobReader
from tayho.coordination.types import JobLine, JobRecord
from tayho.kernel.plain import plain
from tayho.kernel.transitions import JOB
from tayho.transactions.module import lineages_of_job
from tayho.transactions.types import LineageRecord


@click.group("jobs")
def jobs_group() -> None:
    """Look at the jobs of CHAIN_ID and ENVIRONMENT, and act on them."""


@jobs_group.command("list")
@click.option("--state", type=click.Choice(sorted(JOB.states)), help="Only jobs in this state.")
@click.option("--role", help="Only jobs of this role.")
@click.option("--limit", "lines_max", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@ends_clearly
def list_command(*, state: str | None, role: str | None, lines_max: int, as_json: bool) -> None:
    """The newest jobs."""
    settings = load_settings(os.environ, ())

    async def read() -> list[JobLine]:
        async with opened_database() as database:
            jobs = JobReader(database, settings.chain_id, settings.environment)
            return await jobs.list_recent(state=state, role=role, lines_max=lines_max)

    lines = run_trio(read)
    if as_json:
        for line in lines:
            click.echo(json.dumps(plain(line)))
        return
    table = Table("job", "kind", "state", "attempts", "key", "updated")
    for line in lines:
        table.add_row(
            str(line.job_id),
            line.kind,
            line.state,
            f"{line.attempts_spent} ({line.attempt_number})",
            line.idempotency_key,
            f"{line.updated_at:%Y-%m-%d %H:%M:%S}",
        )
    Console().print(table)


@jobs_group.command("inspect")
@click.argument("job_id", type=click.UUID)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@ends_clearly
def inspect(job_id: UUID, *, as_json: bool) -> None:
    """One job whole: its attempts, its lineage and every transaction signed for it; never the signed bytes."""
    settings = load_settings(os.environ, ())

    async def read() -> tuple[JobRecord | None, list[LineageRecord]]:
        async with opened_database() as database:
            jobs = JobReader(database, settings.chain_id, settings.environment)
            return await jobs.inspect(job_id), await lineages_of_job(database, job_id)

    record, lineages = run_trio(read)
    if record is None:
        click.echo(f"tayho: there is no job {job_id}", err=True)
        sys.exit(EXIT_FAILED)
    whole = {"job": plain(record), "lineages": [plain(lineage) for lineage in lineages]}
    if as_json:
        click.echo(json.dumps(whole))
    else:
        Console().print_json(json.dumps(whole))


_OF_JOBS = (explain, evidence, dead, replay, cancel)
_OF_INSTANCES = (instances, drain, undrain)
_OF_SIGNERS = (signer_drain, signer_undrain, signer_retire_check, signer_pool_rotate, signer_pool_add)
for _command in (*_OF_JOBS, *_OF_INSTANCES, *_OF_SIGNERS, key_retire_check):
    jobs_group.add_command(_command)
