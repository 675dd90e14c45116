"""`tayho tx cancel` and `tayho tx bump`."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any
from uuid import UUID

import click
from attrs import asdict

from tayho.cli.opened import deed_of, opened_database, says_who
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.config import load_settings
from tayho.coordination.module import Deed
from tayho.kernel.plain import plain
from tayho.transactions.module import Act, ActRefused, LineageControl, Wished

_HASH = re.compile(r"0x[0-9a-fA-F]{64}")


class Named(click.ParamType["UUID | bytes"]):
    """The id of a lineage or of a job, or a transaction's hash."""

    name = "lineage, job or hash"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> UUID | bytes:
        if isinstance(value, UUID | bytes):
            return value
        if _HASH.fullmatch(value):
            return bytes.fromhex(value[2:])
        try:
            return UUID(value)
        except ValueError:
            self.fail(f"{value!r} is neither an id nor 0x and the 64 digits of a hash", param, ctx)


_NAMED = click.argument("named", type=Named(), metavar="LINEAGE|JOB|HASH")
_SURE = click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command("cancel")
@_NAMED
@click.option("--reason", default="", help="Why, for the record.")
@_SURE
@says_who
@_JSON
@ends_clearly
def cancel(named: UUID | bytes, *, reason: str, is_sure: bool, actor: str, as_json: bool) -> None:
    """Have a transaction that is not mined replaced by a transfer of nothing, at the same nonce.

    Whichever of the two is mined decides: the job may still be completed. What nobody has signed is given up at once.
    The replica that holds the key does it at its next tick. Exit 0: the wish stands; 1: refused, or not confirmed.
    """
    _confirm("Cancel it", is_sure=is_sure)
    wished = _request("cancel", named, deed_of(actor, reason))
    _tell("cancel", wished, "is to be cancelled; whichever of its transactions is mined decides", as_json=as_json)


@click.command("bump")
@_NAMED
@click.option("--reason", default="", help="Why, for the record.")
@_SURE
@says_who
@_JSON
@ends_clearly
def bump(named: UUID | bytes, *, reason: str, is_sure: bool, actor: str, as_json: bool) -> None:
    """Have a transaction replaced by the same call with higher fees now, without waiting for TX_STUCK_SECONDS.

    It waits until it is the lowest of its lane that is not mined: those behind it are not stuck. TX_MAX_FEE_PER_GAS_WEI
    and TX_MAX_REPLACEMENTS hold for it too. Exit 0: the wish stands; 1: refused, or not confirmed.
    """
    _confirm("Raise its fees", is_sure=is_sure)
    wished = _request("bump", named, deed_of(actor, reason))
    _tell("bump", wished, "is to be bumped when it is the lowest of its lane that is not mined", as_json=as_json)


def _confirm(question: str, *, is_sure: bool) -> None:
    if is_sure:
        return
    if not sys.stdin.isatty():
        click.echo("tayho: nothing was changed: add --yes to do it", err=True)
        sys.exit(EXIT_FAILED)
    if not click.confirm(f"{question}?"):
        click.echo("tayho: nothing was changed", err=True)
        sys.exit(EXIT_FAILED)


def _request(act: Act, named: UUID | bytes, deed: Deed) -> Wished:
    settings = load_settings(os.environ, ())

    async def request() -> Wished:
        async with opened_database() as database:
            control = LineageControl(database, settings.chain_id, settings.environment)
            return await control.request(act, named, deed.actor, deed.reason)

    try:
        return run_trio(request)
    except ActRefused as error:
        click.echo(f"tayho: refused: {error}", err=True)
        sys.exit(EXIT_FAILED)


def _tell(act: Act, wished: Wished, what: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(plain({"act": act, **asdict(wished)})))
        return
    again = "" if wished.is_new else " (the wish stood already)"
    click.echo(f"lineage {wished.lineage_id}, nonce {wished.nonce} of {wished.signer}, {what}{again}")
