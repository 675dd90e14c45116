"""`tayho tx`."""

from __future__ import annotations

import click

from tayho.cli.tx_acts import bump, cancel
from tayho.cli.tx_reads import ambiguous, explain, inspect


@click.group("tx")
def tx_group() -> None:
    """Look at the transactions of CHAIN_ID and ENVIRONMENT, and act on them. Looking needs no key."""


for _command in (explain, inspect, ambiguous, bump, cancel):
    tx_group.add_command(_command)
