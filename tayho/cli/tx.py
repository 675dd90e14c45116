"""`tayho tx`."""

from __future__ import annotations

import click

from tayho.cli.tx_acts import bump, cancel


@click.group("tx")
def tx_group() -> None:
    """Look at the transactions of CHAIN_ID and ENVIRONMENT, and act on them."""


tx_group.add_command(bump)
tx_group.add_command(cancel)
