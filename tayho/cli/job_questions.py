"""`tayho jobs explain` and `tayho jobs dead`."""

from __future__ import annotations

import json
import os
import sys
from uuid import UUID

import attrs
import click
from attrs import evolve
from rich.console import Console
from rich.table import Table

from storage.redis_client import open_redis
from tayho.cli.opened import opened_database
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.cli.tx_reads import explanations
from tayho.config import Settings, load_settings
from tayho.coordination.module import Explainer, Explanation, JobControl
from tayho.coordination.types import FAIR_SHARE, JobLine
from tayho.kernel.plain import plain
from tayho.resources import queues_of


@click.command("explain")
@click.argument("job_id", type=click.UUID)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@ends_clearly
def explain(job_id: UUID, *, as_json: bool) -> None:
    """Why the job is not running, or how it ended, and what to do next. Exit 1: there is no such job."""
    settings = load_settings(os.environ, ())
    found, transaction = run_trio(_explain, settings, job_id)
    if found is None:
        click.echo(f"tayho: there is no job {job_id} here: look at CHAIN_ID and ENVIRONMENT", err=True)
        sys.exit(EXIT_FAILED)
    if as_json:
        click.echo(json.dumps(plain({**attrs.asdict(found, recurse=False), "transaction": transaction})))
        return
    click.echo(f"{found.state}: {found.summary}")
    for cause in found.causes[1:]:
        click.echo(f"  also: {cause.sentence}")
    if transaction is not None:
        click.echo(f"  transaction: {transaction}")
    click.echo(f"  do: {found.next_action}")
    if found.next_at is not None:
        click.echo(f"  next: {found.next_at:%Y-%m-%d %H:%M:%S}Z")


async def _explain(settings: Settings, job_id: UUID) -> tuple[Explanation | None, str | None]:
    """The job's explanation, and what its newest transaction waits for, where it has one."""
    async with opened_database() as database, open_redis(settings.redis_url or "") as redis:
        explainer = Explainer(
            database,
            queues_of(redis, settings),
            settings.chain_id,
            settings.environment,
            fair_window=FAIR_SHARE * settings.queue_concurrency,
        )
        found = await explainer.explain(job_id)
    # The database's word alone: `tayho tx explain` asks the endpoints too.
    transactions = await explanations(evolve(settings, rpc_read_urls=()), job_id) if found is not None else []
    return found, transactions[0].summary if transactions else None


@click.command("dead")
@click.option("--kind", help="Only jobs of this kind.")
@click.option("--error", "error_type", help="Only jobs whose last error is of this type.")
@click.option("--limit", "lines_max", type=click.IntRange(1, 10_000), default=50, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@ends_clearly
def dead(*, kind: str | None, error_type: str | None, lines_max: int, as_json: bool) -> None:
    """The newest dead jobs, with their last error."""
    settings = load_settings(os.environ, ())

    async def read() -> list[JobLine]:
        async with opened_database() as database:
            jobs = JobControl(database, settings.chain_id, settings.environment)
            return await jobs.list_dead(kind=kind, error_type=error_type, lines_max=lines_max)

    lines = run_trio(read)
    if as_json:
        for line in lines:
            click.echo(json.dumps(plain(line)))
        return
    table = Table("job", "kind", "attempts", "error", "message", "died")
    for line in lines:
        error = line.last_error if isinstance(line.last_error, dict) else {}
        table.add_row(
            str(line.job_id),
            line.kind,
            f"{line.attempts_spent} ({line.attempt_number})",
            str(error.get("type", "")),
            str(error.get("message", ""))[:200],
            f"{line.updated_at:%Y-%m-%d %H:%M:%S}",
        )
    Console().print(table)
