"""`tayho demo`."""

from __future__ import annotations

import json
import sys

import attrs
import click
from rich.columns import Columns
from rich.console import Console
from rich.live import Live
from rich.table import Table

from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.client import EngineError
from tayho.demo.fleet import ReplicaDied
from tayho.demo.running import DemoStuck, Progress, run_demo
from tayho.demo.types import DemoPlan, DemoReport
from tayho.local.development import DeploymentFailed

STATES = ("pending_batch", "batched", "completed", "quarantined", "dead")


@click.command("demo")
@click.option("--intents", type=click.IntRange(4, 100_000), default=500, show_default=True)
@click.option(
    "--replicas",
    type=click.IntRange(1, 8),
    default=2,
    show_default=True,
    help="Processes of each role; of relayers at least two with --kill.",
)
@click.option("--kill", is_flag=True, help="SIGKILL a relayer in the middle of a batch.")
@click.option("--deadline", "deadline_seconds", type=click.IntRange(10), default=300, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
@ends_clearly
def demo_command(*, intents: int, replicas: int, kill: bool, deadline_seconds: int, as_json: bool) -> None:
    """Run the reference protocol with every role on a throw-away stack: users sign INTENTS and submit them over HTTP,
    relayers batch them, keepers find their own work; then count the effects on the chain.

    Needs no configuration and leaves nothing behind. Exits 1 if any intent was lost, took effect twice, or a role did
    not do its work.
    """
    plan = DemoPlan(intents, replicas, kill, deadline_seconds)
    # Progress goes to stderr, so that stdout is the report alone.
    console = Console(stderr=True)
    try:
        with Live(console=console, refresh_per_second=8, transient=False) as live:
            report = run_trio(run_demo, plan, lambda progress: live.update(_table(plan, progress)))
        if not console.is_terminal:
            # Only on a terminal does the last frame end its own line.
            console.line()
    except (ReplicaDied, DemoStuck, DeploymentFailed, EngineError) as error:
        click.echo(f"tayho: demo: {error}", err=True)
        sys.exit(EXIT_FAILED)
    _tell(report, as_json=as_json)
    if not report.is_right:
        sys.exit(EXIT_FAILED)


def _table(plan: DemoPlan, progress: Progress) -> Columns:
    title = f"{plan.intents} intents after {progress.seconds:.0f} s, {progress.batches} batches"
    intents = Table("intents", "", title=title, title_justify="left")
    for state in STATES:
        intents.add_row(state, str(progress.intents.get(state, 0)))
    roles = Table("role", "processes", "on the chain", "at least")
    for role, living in progress.living.items():
        done, wanted = progress.done.get(role), progress.wanted.get(role)
        roles.add_row(role, str(living), "" if done is None else str(done), "" if wanted is None else str(wanted))
    for killed in progress.killed:
        roles.add_row(killed, "killed", "", "")
    return Columns([intents, roles])


def _tell(report: DemoReport, *, as_json: bool) -> None:
    figures = report.figures
    if as_json:
        click.echo(json.dumps({**attrs.asdict(figures), "killed": report.killed, "seconds": report.seconds}))
        return
    verdict = "every intent took effect once, every role did its work" if report.is_right else "SOMETHING IS WRONG"
    click.echo(
        f"{figures.accepted} intents accepted, {figures.completed} executed in {figures.batches} batches of "
        f"{figures.children_per_batch_mean} on average, {figures.quarantined} quarantined, {figures.duplicates} "
        f"duplicates, {figures.lost} lost, {report.killed} relayers killed; accepted to final in "
        f"{figures.accept_to_final_ms_p50} ms (p50), {figures.accept_to_final_ms_p99} ms (p99), {report.seconds} s "
        f"in all: {verdict}"
    )
    click.echo("on the chain: " + ", ".join(f"{role} {count}" for role, count in figures.roles.items()))
