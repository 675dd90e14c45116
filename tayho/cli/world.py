"""`tayho world`: which chain a halted pool goes on with."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal, NoReturn, TypeAlias

import click

from nursery.asyncio_bridge import open_bridge
from rpc.errors import RpcError
from rpc.pool import ReadPool
from storage.database import Database
from storage.delivery import DeliveryQueue
from tayho.cli.opened import deed_of, says_who
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.config import load_settings
from tayho.config.database_url import database_url_from
from tayho.coordination.module import Coordination
from tayho.coordination.types import WorkerSettings
from tayho.kernel.plain import plain
from tayho.kernel.roles import ROLES
from tayho.refusals import EnvironmentRefused
from tayho.transactions.module import TransactionError, WorldActs, open_halts
from tayho.transactions.types import ActDone, Halt, TransactionSettings
from tayho.voters import truth_of, voter_problems

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
    async with open_bridge(), _database() as database:
        return await open_halts(database, _settings(role))


async def _act(act: Act, role: str, actor: str) -> ActDone:
    async with _acts(role) as acts:
        return await (acts.adopt(actor) if act == "adopt" else acts.restart(actor))


@asynccontextmanager
async def _acts(role: str) -> AsyncGenerator[WorldActs]:
    """The acts, over the database and the chain as a majority of RPC_READ_URLS has it."""
    settings = load_settings(os.environ, ())
    if not settings.rpc_read_urls:
        raise EnvironmentRefused(["RPC_READ_URLS and RPC_URL are not set: there is no endpoint to ask"])
    async with (
        open_bridge(),
        _database() as database,
        ReadPool.open(
            list(dict.fromkeys(settings.rpc_read_urls)),
            chain_id=settings.chain_id,
            cooldown_milliseconds=settings.rpc_circuit_cooldown_milliseconds,
        ) as pool,
    ):
        problems = await voter_problems(settings, settings.rpc_read_urls, pool.members)
        if problems:
            raise EnvironmentRefused(problems)
        workers = WorkerSettings(
            roles=(),
            concurrency=1,
            lock_seconds=settings.queue_lock_seconds,
            reconcile_seconds=settings.queue_reconcile_seconds,
            attempts_max=settings.job_max_attempts,
            poll_milliseconds=settings.outbox_poll_milliseconds,
        )
        coordination = Coordination(database, _no_queue, settings.chain_id, settings.environment, workers)
        yield WorldActs(database, coordination, truth_of(pool.members), _settings(role))


def _no_queue(role: str) -> DeliveryQueue:
    raise LookupError(f"a command that delivers nothing asked for the queue of {role}")


def _database() -> AbstractAsyncContextManager[Database]:
    return Database.open(database_url_from(os.environ), pool_size=1, application_name="tayho cli")


def _settings(role: str) -> TransactionSettings:
    settings = load_settings(os.environ, ())
    return TransactionSettings(
        chain_id=settings.chain_id,
        environment=settings.environment,
        role=role,
        confirmations=settings.tx_confirmations,
        reconcile_seconds=settings.tx_reconcile_seconds,
        lane_depth=settings.signer_lane_depth,
        fee_wei_max=settings.tx_max_fee_per_gas_wei or 0,
        reorg_lookback_blocks=settings.tx_reorg_lookback_blocks,
        instance_id="tayho cli",
    )
