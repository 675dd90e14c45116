"""`tayho jobs key-retire-check`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import click

from rpc.errors import RpcError
from rpc.voters import independent_hosts
from tayho.cli.opened import deed_of, names_operator
from tayho.cli.opened_chain import opened_chain
from tayho.cli.outcome import EXIT_FAILED, ends_clearly, run_trio
from tayho.kernel.plain import plain
from tayho.transactions.module import CheckDone, KeyRetirement


@click.command("key-retire-check")
@click.argument("key_id", metavar="KEY_ID")
@names_operator
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@ends_clearly
def key_retire_check(key_id: str, *, actor: str, as_json: bool) -> None:
    """Whether the journal key KEY_ID may be destroyed, as far as CHAIN_ID goes.

    Nothing sealed under it may be open; TX_SEAL_RETENTION_DAYS, 30 at least, must have passed since its last seal;
    and every receipt must be TX_REORG_LOOKBACK_BLOCKS below the head, in the very block that the journal has, by a
    majority of three or more endpoints of hosts of their own. Exit 0: it may; 1: it may not, and each condition that is
    missing stands there.

    Example: OPERATOR_ID=ada tayho jobs key-retire-check 2025-a
    """
    deed = deed_of(actor)

    async def carry_out() -> CheckDone:
        async with opened_chain() as chain:
            settings = chain.settings
            retirement = KeyRetirement(
                chain.database,
                chain.coordination,
                chain.truth,
                settings.chain_id,
                settings.environment,
                voters=await independent_hosts(settings.rpc_read_urls),
                lookback_blocks=settings.tx_reorg_lookback_blocks,
                retention_days=settings.tx_seal_retention_days,
            )
            return await retirement.check(key_id, deed.actor, _progress())

    try:
        done = run_trio(carry_out)
    except RpcError as error:
        click.echo(f"tayho: refused: {error}", err=True)
        sys.exit(EXIT_FAILED)
    _tell(key_id, done, as_json=as_json)
    if not done.has_passed:
        sys.exit(EXIT_FAILED)


def _progress() -> Callable[[int, int], None]:
    def on_page(read: int, lineages: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"{read} of {lineages} receipts read", err=True)

    return on_page


def _tell(key_id: str, done: CheckDone, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(plain({"key_id": key_id, "has_passed": done.has_passed, "check": done})))
        return
    click.echo(f"key {key_id} " + ("may be destroyed" if done.has_passed else "may not be destroyed:"))
    for one in done.missing:
        click.echo(f"  {one.code}: {one.sentence}")
    for chain_id in plain_chains(done):
        click.echo(f"  it sealed on chain {chain_id} too: check it with CHAIN_ID={chain_id}")


def plain_chains(done: CheckDone) -> list[object]:
    """The other chains on which the key sealed, each with a check of its own."""
    found = done.detail.get("other_chains")
    return list(found) if isinstance(found, list) else []
