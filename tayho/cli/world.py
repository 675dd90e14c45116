"""`tayho world`: which chain a halted pool goes on with."""

from __future__ import annotations

import json
import os
import sys
from typing import Literal, NoReturn, TypeAlias

import click

from rpc.errors import RpcError
from tayho.cli.opened import deed_of, opened_database, says_who
from tayho.cli.opened_chain import opened_chain, transaction_settings
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.config import load_settings
from tayho.kernel.plain import plain
from tayho.kernel.roles import ROLES
from tayho.transactions.module import TransactionError, WorldActs, open_halts
from tayho.transactions.types import ActDone, Halt

Act: TypeAlias = Literal["adopt", "restart"]

_ROLE = click.argument(
    "role", type=click.Choice(sorted(name for name, role in ROLES.items() if role.signs)), metavar="ROLE"
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_SURE = click.option("--yes", "is_sure", is_flag=True, help="Do it without asking.")


@click.group("world")
def world_group() -> None:
    """Look at what halts the pool of a role of CHAIN_ID and ENVIRONMENT, and say which chain it goes on with."""


@world_group.command("show")
@_ROLE
@_JSON
@ends_clearly
def show(role: str, *, as_json: bool) -> None:
    """The open halts with their evidence. Exit 0 also where there is none."""
    halts = run_trio(_halts, role)
    if as_json:
        click.echo(json.dumps({"role": role, "halts": plain(halts)}))
    else:
        _tell_halts(role, halts)


@world_group.command("adopt")
@_ROLE
@_SURE
@says_who
@_JSON
@ends_clearly
def adopt(role: str, *, is_sure: bool, actor: str, as_json: bool) -> None:
    """The chain is right. Fences go up to it, and what others used is noted; nothing signed is given up.

    After a database was restored from a backup: first cancel the jobs that took effect after that backup was made, or
    they run again (`tayho jobs cancel`).
    """
    _carry_out("adopt", role, actor, is_sure=is_sure, as_json=as_json)


@world_group.command("restart")
@_ROLE
@_SURE
@says_who
@_JSON
@ends_clearly
def restart(role: str, *, is_sure: bool, actor: str, as_json: bool) -> None:
    """The chain began anew. Jobs whose bytes are signed end dead, jobs with only a nonce take another, and every lane
    starts where the new chain has it. Refused where the chain still has the block by which it is known."""
    _carry_out("restart", role, actor, is_sure=is_sure, as_json=as_json)


def _carry_out(act: Act, role: str, actor: str, *, is_sure: bool, as_json: bool) -> None:
    deed = deed_of(actor)
    halts = run_trio(_halts, role)
    if not is_sure:
        _ask(act, role, halts, as_json=as_json)
    try:
        done = run_trio(_act, act, role, deed.actor)
    except (TransactionError, RpcError) as error:
        _refuse(str(error))
    if as_json:
        click.echo(json.dumps({"role": role, "act": act, "done": plain(done)}))
        return
    click.echo(f"{len(done.resolved)} halts resolved; {role} goes on with the chain at its next tick")
    for signer, fence in done.fences.items():
        click.echo(f"lane {signer}: next nonce {fence}")
    if done.foreign_nonces:
        click.echo(f"{done.foreign_nonces} nonces are noted as used by somebody else")
    if done.superseded:
        click.echo(f"{done.superseded} open transactions ended with the old chain")


def _ask(act: Act, role: str, halts: list[Halt], *, as_json: bool) -> None:
    """Go on only with consent; else exit 1, nothing changed."""
    if as_json:
        click.echo(json.dumps({"role": role, "act": act, "halts": plain(halts), "done": None}))
    else:
        _tell_halts(role, halts)
    if as_json or not sys.stdin.isatty():
        _refuse("nothing was changed: add --yes to do it")
    if not click.confirm(f"{act.capitalize()} the chain as it is now?"):
        _refuse("nothing was changed")


def _refuse(reason: str) -> NoReturn:
    click.echo(f"tayho: {reason}", err=True)
    sys.exit(EXIT_FAILED)


def _tell_halts(role: str, halts: list[Halt]) -> None:
    if not halts:
        click.echo(f"no halt of {role} is open")
    for halt in halts:
        click.echo(f"{halt.kind} since {halt.raised_at:%Y-%m-%d %H:%M:%S} UTC, found by {halt.raised_by}")
        click.echo(f"  {json.dumps(dict(halt.evidence), sort_keys=True)}")


async def _halts(role: str) -> list[Halt]:
    async with opened_database() as database:
        return await open_halts(database, transaction_settings(load_settings(os.environ, ()), role))


async def _act(act: Act, role: str, actor: str) -> ActDone:
    async with opened_chain() as chain:
        acts = WorldActs(chain.database, chain.coordination, chain.truth, transaction_settings(chain.settings, role))
        return await (acts.adopt(actor) if act == "adopt" else acts.restart(actor))
