"""`tayho rpc`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

import attrs
import click
import trio
from rich.console import Console
from rich.table import Table

from rpc.errors import RpcError
from rpc.member import Member
from rpc.member_status import MemberStatus
from rpc.methods import block_by_number, block_number, fee_history
from rpc.pool import ReadPool
from rpc.reads import Call
from tayho.cli.outcome import ends_clearly, run_trio
from tayho.config import Settings, load_settings
from tayho.refusals import EnvironmentRefused

# One cheap question of each kind that every endpoint serves.
_QUESTIONS: tuple[Call[object], ...] = (block_number(), block_by_number("latest"), fee_history(1, "latest", [50]))
_PAUSE_SECONDS = 0.5


@click.group("rpc")
def rpc_group() -> None:
    """Look at the endpoints for reads."""


@rpc_group.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line, one for each endpoint.")
@click.option("--watch", is_flag=True, help="Ask on and show again, until Ctrl-C.")
@click.option(
    "--seconds", type=click.FloatRange(0.5, 600), default=3, show_default=True, help="How long to ask before showing."
)
@ends_clearly
def status(*, as_json: bool, watch: bool, seconds: float) -> None:
    """Ask every endpoint of RPC_READ_URLS for a few seconds, and show how each did.

    A look from here and now: what running processes think of the endpoints is in their metrics.
    """
    settings = load_settings(os.environ, ())
    run_trio(_look, settings, seconds, _print_lines if as_json else _print_table, watch=watch)


async def _look(
    settings: Settings, seconds: float, show: Callable[[Sequence[MemberStatus]], None], *, watch: bool
) -> None:
    if not settings.rpc_read_urls:
        raise EnvironmentRefused(["RPC_READ_URLS and RPC_URL are not set: there is no endpoint to look at"])
    async with ReadPool.open(
        settings.rpc_read_urls,
        chain_id=settings.chain_id,
        cooldown_milliseconds=settings.rpc_circuit_cooldown_milliseconds,
        head_poll_seconds=1,
    ) as pool:
        while True:
            with trio.move_on_after(seconds):
                await _ask_each(pool)
            show(pool.status())
            if not watch:
                return


async def _ask_each(pool: ReadPool) -> None:
    """Ask every member at once, again and again: a question to the pool would only tell of the best one."""
    async with trio.open_nursery() as members:
        for member in pool.members:
            members.start_soon(_ask_on, member)


async def _ask_on(member: Member) -> None:
    while True:
        for question in _QUESTIONS:
            with suppress(RpcError):
                await member.ask(question)
        await trio.sleep(_PAUSE_SECONDS)


def _print_lines(members: Sequence[MemberStatus]) -> None:
    for member in members:
        click.echo(json.dumps(attrs.asdict(member)))


def _print_table(members: Sequence[MemberStatus]) -> None:
    table = Table("endpoint", "score", "circuits", "head", "lag", "latency", "faults", "hedges", "dissents")
    for member in members:
        table.add_row(
            member.endpoint,
            f"{member.score:.2f}",
            _circuits(member),
            "" if member.head is None else str(member.head),
            str(member.lag_blocks),
            "\n".join(
                f"{method} {one.latency_seconds * 1000:.0f} ms"
                for method, one in sorted(member.methods.items())
                if one.latency_seconds is not None
            ),
            f"{member.faults} of {member.requests}",
            f"{member.hedges_fired} fired, {member.hedges_won} won",
            str(member.dissents),
        )
    Console().print(table)


def _circuits(member: MemberStatus) -> str:
    """The circuits that are not closed, with their cause."""
    found = [f"{work}: {state}" for work, state in member.circuits_open.items()]
    causes = dict.fromkeys(member.circuit_causes.values())
    return "\n".join([*found, *causes]) or "closed"
