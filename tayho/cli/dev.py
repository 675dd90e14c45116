"""`tayho dev`."""

from __future__ import annotations

import click

from nursery.asyncio_bridge import open_bridge
from rpc.endpoint import Endpoint
from storage.migrations import migrate
from tayho.cli.outcome import ends_clearly, run_trio
from tayho.local.anvil import Chain
from tayho.local.development import PUBLIC_ACCOUNTS, deploy
from tayho.local.stack import local_stack
from tayho.protocol import artifacts

CHAIN_ID = 31337


@click.command("dev")
@click.option("--block-seconds", type=float, default=1.0, show_default=True, help="0 makes a block a transaction.")
@ends_clearly
def dev_command(*, block_seconds: float) -> None:
    """Bring up PostgreSQL, Redis and an EVM node with the reference contract, migrated, until Ctrl-C.

    Prints the variables that `tayho run` wants, ready to be pasted into a shell.
    """
    try:
        run_trio(_stay, block_seconds or None)
    except KeyboardInterrupt:
        click.echo("stack gone", err=True)


async def _stay(block_seconds: float | None) -> None:
    async with open_bridge(), local_stack(chain=Chain(chain_id=CHAIN_ID, block_seconds=block_seconds)) as stack:
        await migrate(stack.database_url)
        async with Endpoint.open(str(stack.rpc_url), chain_id=CHAIN_ID) as node:
            contract = await deploy(node, artifacts.load("Counter").bytecode)
        keys = ", ".join(f'"{address}": "{key}"' for address, key in PUBLIC_ACCOUNTS)
        click.echo(f"export DATABASE_URL='{stack.database_url}'")
        click.echo(f"export REDIS_URL='{stack.redis_url}'")
        click.echo(f"export RPC_URL='{stack.rpc_url}'")
        click.echo(f"export CHAIN_ID={CHAIN_ID} ENVIRONMENT=dev TX_CONFIRMATIONS=2 TX_RECONCILE_SECONDS=1")
        click.echo(f"export SIGNER_KEYS='{{{keys}}}'  # public test keys")
        click.echo('export TX_JOURNAL_KEYS=\'{"dev": "0x' + "11" * 32 + "\"}' TX_JOURNAL_ACTIVE_KEY_ID=dev")
        click.echo("export TX_MAX_FEE_PER_GAS_WEI=100000000000")
        click.echo(f"# Counter contract: {contract}")
        click.echo("# The stack runs until Ctrl-C.", err=True)
        await stack.watch()
