"""`tayho jobs signer-drain`, `signer-undrain`, `signer-retire-check`, `signer-pool-rotate` and `signer-pool-add`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import click

from rpc.errors import RpcError
from tayho.cli.opened import deed_of, names_operator, opened_database
from tayho.cli.opened_chain import coordination_over, opened_chain, transaction_settings
from tayho.cli.outcome import EXIT_FAILED, EXIT_UNACKNOWLEDGED, ends_clearly, run_trio
from tayho.config import Settings, load_settings
from tayho.kernel.address import Address
from tayho.kernel.plain import plain
from tayho.kernel.roles import ROLES
from tayho.transactions.module import (
    CheckDone,
    LaneDrained,
    LaneLeft,
    Rotated,
    SignerDrains,
    SignerRotation,
    TransactionError,
)

T = TypeVar("T")


class AddressType(click.ParamType["Address"]):
    """An account of the chain."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        if isinstance(value, Address):
            return value
        try:
            return Address.parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class PoolType(click.ParamType["tuple[str, str]"]):
    """A pool of signers: an environment and a role."""

    name = "env:role"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        environment, _, role = str(value).partition(":")
        if not environment or role not in ROLES or not ROLES[role].signs:
            signing = ", ".join(sorted(name for name, one in ROLES.items() if one.signs))
            self.fail(f"{value!r} is not ENV:ROLE, an environment and one of {signing}", param, ctx)
        return environment, role


_SIGNER = click.argument("signer", type=AddressType(), metavar="ADDRESS")
_REASON = click.option("--reason", default="", help="Why, for the record.")
_SURE = click.option("--yes", "is_sure", is_flag=True, help="Do it without asking.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_CHAIN = click.argument("chain_id", type=click.IntRange(min=1), metavar="CHAIN")
_POOL = click.argument("pool", type=PoolType(), metavar="ENV:ROLE")


@click.command("signer-drain")
@_SIGNER
@click.argument("seconds", type=click.IntRange(0, 86_400), metavar="SECONDS")
@_REASON
@names_operator
@_JSON
@ends_clearly
def signer_drain(signer: Address, seconds: int, *, reason: str, actor: str, as_json: bool) -> None:
    """Let no replica take a new nonce of ADDRESS, and wait up to SECONDS for its transactions to be final.

    It holds from its commit on, for all replicas and those to come, until `signer-undrain`. What is open is sent,
    bumped and filled as always. Exit 0: nothing is left; 1: refused; 4: the drain stands and something is left.

    Example: OPERATOR_ID=ada tayho jobs signer-drain 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 600
    """
    deed = deed_of(actor, reason)

    async def carry_out(drains: SignerDrains) -> tuple[LaneDrained, LaneLeft]:
        drained = await drains.drain(signer, deed.actor, deed.reason)
        return drained, await drains.await_final(signer, seconds, _progress())

    drained, left = _refusing(lambda: _with_drains(carry_out))
    if as_json:
        click.echo(json.dumps(plain({"signer": signer, "changed": drained.changed, "left": left})))
    else:
        before = "" if drained.changed else ", and did not before"
        click.echo(f"lane {signer} of {drained.lane.role} takes no new nonce{before}")
        _tell_left(left)
    if left.lineages:
        sys.exit(EXIT_UNACKNOWLEDGED)


@click.command("signer-undrain")
@_SIGNER
@_REASON
@names_operator
@_JSON
@ends_clearly
def signer_undrain(signer: Address, *, reason: str, actor: str, as_json: bool) -> None:
    """Let the lane of ADDRESS take nonces again. Exit 0 also if it was not drained; 1: refused, it is retired.

    Example: OPERATOR_ID=ada tayho jobs signer-undrain 0x70997970C51812dc3A010C7d01b50e0d17dc79C8
    """
    deed = deed_of(actor, reason)

    async def carry_out(drains: SignerDrains) -> LaneDrained:
        return await drains.undrain(signer, deed.actor, deed.reason)

    done = _refusing(lambda: _with_drains(carry_out))
    if as_json:
        click.echo(json.dumps(plain({"signer": signer, "changed": done.changed})))
        return
    click.echo(f"lane {signer} of {done.lane.role} takes nonces" + ("" if done.changed else ", and was not drained"))


@click.command("signer-retire-check")
@_SIGNER
@names_operator
@_JSON
@ends_clearly
def signer_retire_check(signer: Address, *, actor: str, as_json: bool) -> None:
    """Whether ADDRESS may leave its pool: it is drained, nothing of it is open, nothing could be brought back by a
    reorganisation, and the chain's nonce is at the fence by a majority of RPC_READ_URLS.

    What is found is recorded with its time; for 15 minutes a pass allows `signer-pool-rotate`. Exit 0: it may; 1: it
    may not, and each condition that is missing stands there.

    Example: OPERATOR_ID=ada tayho jobs signer-retire-check 0x70997970C51812dc3A010C7d01b50e0d17dc79C8
    """
    deed = deed_of(actor)

    async def carry_out() -> CheckDone:
        async with opened_chain() as chain:
            drains = SignerDrains(
                chain.database, chain.coordination, chain.settings.chain_id, chain.settings.environment
            )
            lane = await drains.lane(signer)
            settings = transaction_settings(chain.settings, lane.role)
            rotation = SignerRotation(chain.database, chain.coordination, chain.truth, settings)
            return await rotation.retire_check(signer, deed.actor)

    done = _refusing(lambda: run_trio(carry_out))
    if as_json:
        click.echo(json.dumps(plain({"signer": signer, "has_passed": done.has_passed, "check": done})))
    else:
        click.echo(f"{signer} " + ("may be retired within 15 minutes" if done.has_passed else "may not be retired:"))
        for one in done.missing:
            click.echo(f"  {one.code}: {one.sentence}")
    if not done.has_passed:
        sys.exit(EXIT_FAILED)


@click.command("signer-pool-rotate")
@_CHAIN
@_POOL
@click.argument("old", type=AddressType(), metavar="OLD")
@click.argument("new", type=AddressType(), metavar="NEW")
@_REASON
@_SURE
@names_operator
@_JSON
@ends_clearly
def signer_pool_rotate(
    chain_id: int,
    pool: tuple[str, str],
    old: Address,
    new: Address,
    *,
    reason: str,
    is_sure: bool,
    actor: str,
    as_json: bool,
) -> None:
    """Hand the place of OLD in the pool ENV:ROLE of CHAIN to NEW, at most 15 minutes after OLD's check has passed.

    OLD is retired for ever. Replicas that hold NEW's key take nonces of it at once, the others pass it by: give every
    replica the key first. Exit 0: done, or it was before; 1: refused, or not confirmed.

    Example: OPERATOR_ID=ada tayho jobs signer-pool-rotate 137 live:payouts 0x7099…79C8 0x3C44…93BC --yes
    """
    _confirm(f"Retire {old} for ever, and give its place to {new}", is_sure=is_sure)
    deed = deed_of(actor, reason)

    async def carry_out(rotation: SignerRotation) -> Rotated:
        return await rotation.rotate(old, new, deed.actor, deed.reason)

    done = _refusing(lambda: _with_pool(chain_id, pool, carry_out))
    _tell_rotated(done, f"{old} is retired", as_json=as_json)


@click.command("signer-pool-add")
@_CHAIN
@_POOL
@click.argument("new", type=AddressType(), metavar="NEW")
@_REASON
@_SURE
@names_operator
@_JSON
@ends_clearly
def signer_pool_add(
    chain_id: int, pool: tuple[str, str], new: Address, *, reason: str, is_sure: bool, actor: str, as_json: bool
) -> None:
    """Give NEW a place in the pool ENV:ROLE of CHAIN beside the others. Exit 0: done; 1: refused, or not confirmed.

    Example: OPERATOR_ID=ada tayho jobs signer-pool-add 137 live:payouts 0x3C44…93BC --yes
    """
    _confirm(f"Give {new} a place in the pool", is_sure=is_sure)
    deed = deed_of(actor, reason)

    async def carry_out(rotation: SignerRotation) -> Rotated:
        return await rotation.widen(new, deed.actor, deed.reason)

    _tell_rotated(_refusing(lambda: _with_pool(chain_id, pool, carry_out)), "the pool is wider", as_json=as_json)


def _with_drains(carry_out: Callable[[SignerDrains], Awaitable[T]]) -> T:
    async def opened() -> T:
        settings = load_settings(os.environ, ())
        async with opened_database() as database:
            coordination = coordination_over(database, settings)
            return await carry_out(SignerDrains(database, coordination, settings.chain_id, settings.environment))

    return run_trio(opened)


def _with_pool(chain_id: int, pool: tuple[str, str], carry_out: Callable[[SignerRotation], Awaitable[T]]) -> T:
    environment, role = pool
    _require_meant(load_settings(os.environ, ()), chain_id, environment)

    async def opened() -> T:
        async with opened_chain() as chain:
            settings = transaction_settings(chain.settings, role)
            return await carry_out(SignerRotation(chain.database, chain.coordination, chain.truth, settings))

    return run_trio(opened)


def _require_meant(settings: Settings, chain_id: int, environment: str) -> None:
    """What is typed and what is configured must agree: this cannot be undone."""
    if (chain_id, environment) != (settings.chain_id, settings.environment):
        _refuse(
            f"you named {environment} on chain {chain_id}, and ENVIRONMENT and CHAIN_ID are {settings.environment} on "
            f"chain {settings.chain_id}"
        )


def _refusing(act: Callable[[], T]) -> T:
    try:
        return act()
    except (TransactionError, RpcError) as error:
        _refuse(f"refused: {error}")


def _refuse(reason: str) -> NoReturn:
    click.echo(f"tayho: {reason}", err=True)
    sys.exit(EXIT_FAILED)


def _confirm(question: str, *, is_sure: bool) -> None:
    if is_sure:
        return
    if not sys.stdin.isatty():
        _refuse("nothing was changed: add --yes to do it")
    if not click.confirm(f"{question}?"):
        _refuse("nothing was changed")


def _progress() -> Callable[[LaneLeft], None]:
    """Tell a terminal when less is left than at the last look."""
    told: list[int] = []

    def on_look(left: LaneLeft) -> None:
        if sys.stderr.isatty() and told[-1:] != [left.lineages]:
            told.append(left.lineages)
            click.echo(f"{left.lineages} transactions are not final", err=True)

    return on_look


def _tell_left(left: LaneLeft) -> None:
    if not left.lineages:
        click.echo("all its transactions are final")
        return
    click.echo(f"{left.lineages} of its transactions are not final; the lowest:")
    for one in left.lowest:
        where = one.hold or (
            one.state if one.included_block_number is None else f"in block {one.included_block_number}"
        )
        click.echo(
            f"  nonce {one.nonce} ({where}), open for {one.open_seconds:.0f} s: `tayho tx explain {one.lineage_id}`"
        )


def _tell_rotated(done: Rotated, what: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(plain({"rotated": done})))
        return
    before = "" if done.changed else " (and was before)"
    click.echo(f"{what}; lane {done.new} begins at nonce {done.next_nonce}{before}")
