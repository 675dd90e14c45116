"""`tayho demo`."""

from __future__ import annotations

import json
import sys

import attrs
import click
from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.demo.fleet import ReplicaDied
from tayho.demo.running import DemoStuck, Progress, run_demo
from tayho.demo.types import DemoPlan, DemoReport

STATES = ("queued", "processing", "retry", "confirming", "completed", "not_actionable", "dead")


@click.command("demo")
@click.option("--jobs", type=click.IntRange(1, 100_000), default=200, show_default=True)
@click.option("--replicas", type=click.IntRange(1, 16), default=2, show_default=True)
@click.option("--kill", is_flag=True, help="SIGKILL the busiest replica while its transactions are in flight.")
@click.option("--deadline", "deadline_seconds", type=click.IntRange(10), default=300, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
@ends_clearly
def demo_command(*, jobs: int, replicas: int, kill: bool, deadline_seconds: int, as_json: bool) -> None:
    """Run JOBS real transactions through real replicas on a throw-away stack, and count their effects on the chain.

    Needs no configuration and leaves nothing behind. Exits 1 if any job was lost or took effect twice.
    """
    if kill and replicas == 1:
        raise click.UsageError("--kill needs a replica that survives: take --replicas 2 or more")
    plan = DemoPlan(jobs, replicas, kill, deadline_seconds)
    # Progress goes to stderr, so that stdout is the report alone.
    console = Console(stderr=True)
    try:
        with Live(console=console, refresh_per_second=8, transient=False) as live:
            report = run_trio(run_demo, plan, lambda progress: live.update(_table(plan, progress)))
        if not console.is_terminal:
            # Only on a terminal does the last frame end its own line.
            console.line()
    except (ReplicaDied, DemoStuck) as error:
        click.echo(f"tayho: demo: {error}", err=True)
        sys.exit(EXIT_FAILED)
    _tell(report, as_json=as_json)
    if not report.is_right:
        sys.exit(EXIT_FAILED)


def _table(plan: DemoPlan, progress: Progress) -> Group:
    jobs = Table("state", "jobs", title=f"{plan.jobs} jobs after {progress.seconds:.0f} s", title_justify="left")
    for state in STATES:
        jobs.add_row(state, str(progress.states.get(state, 0)))
    replicas = Table("replica", "running", title_justify="left")
    for name, running in sorted({**dict(progress.workers), **dict.fromkeys(progress.killed, 0)}.items()):
        replicas.add_row(name, "killed" if name in progress.killed else str(running))
    return Group(f"Counter contract {progress.contract}", Columns([jobs, replicas]))


def _tell(report: DemoReport, *, as_json: bool) -> None:
    if as_json:
        fields = attrs.asdict(report, filter=lambda attribute, _: attribute.name != "exit_codes")
        click.echo(json.dumps(fields))
        return
    verdict = "every job took effect exactly once" if report.is_right else "SOMETHING IS WRONG"
    click.echo(
        f"{report.completed} of {report.jobs} jobs completed, {report.effects} effects on the chain, "
        f"{report.duplicates} duplicates, {report.lost} lost, {report.killed} replicas killed; "
        f"{report.jobs_per_second} jobs/s end to end, {report.chain_seconds} s of chain: {verdict}"
    )
