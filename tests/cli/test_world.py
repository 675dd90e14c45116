"""`tayho world`: what halts a pool is shown, and nothing is changed without consent, a chain and a halt."""

from __future__ import annotations

import json

import pytest

from storage.database import Database
from tayho.transactions import store
from tayho.transactions.halts import Halts
from tayho.transactions.types import TransactionSettings
from tests.cli.test_control import CHAIN_ID, ENVIRONMENT, ROLE, Tayho, tayho
from tests.services.chain import LocalChain

__all__ = ["tayho"]

pytestmark = pytest.mark.services

SETTINGS = TransactionSettings(
    chain_id=CHAIN_ID,
    environment=ENVIRONMENT,
    role=ROLE,
    confirmations=1,
    reconcile_seconds=1,
    lane_depth=1,
    fee_wei_max=1,
    instance_id="one",
)


async def _halted(database: Database) -> Halts:
    async with database.connection() as connection:
        await store.REGISTER_POOL(connection, CHAIN_ID, ENVIRONMENT, ROLE)
    halts = Halts(database, SETTINGS)
    await halts.raise_halt("chain_ahead", {"lanes": []})
    return halts


async def test_a_halt_is_shown_and_nothing_is_done_without_consent(database: Database, tayho: Tayho) -> None:
    """Goal: an operator sees the evidence first. Method: show without and with a halt; adopt without --yes, as text and
    as JSON: exit 1, and the halt is open as before."""
    assert json.loads(tayho("world", "show", ROLE, "--json").stdout) == {"role": ROLE, "halts": []}
    halts = await _halted(database)
    (shown,) = json.loads(tayho("world", "show", ROLE, "--json").stdout)["halts"]
    assert (shown["kind"], shown["raised_by"]) == ("chain_ahead", "one")
    for extra in ((), ("--json",)):
        refused = tayho("world", "adopt", ROLE, *extra)
        assert (refused.returncode, "add --yes" in refused.stderr) == (1, True), refused.stderr
        assert "chain_ahead" in refused.stdout
    assert len(await halts.open()) == 1


async def test_an_act_needs_a_chain_and_a_halt(database: Database, tayho: Tayho, chain: LocalChain) -> None:
    """Goal: no act rests on a guess. Method: adopt with no node to ask: exit 3, still halted; with a node: done, by the
    operator of the login; again: exit 1, there is nothing to resolve; a role that signs nothing is a usage error."""
    halts = await _halted(database)
    assert tayho("world", "adopt", ROLE, "--yes").returncode == 3
    assert len(await halts.open()) == 1
    environment = {**tayho.args[0], "RPC_URL": chain.url}  # type: ignore[attr-defined]
    adopted = tayho.func(environment, "world", "adopt", ROLE, "--yes", "--json")  # type: ignore[attr-defined]
    assert adopted.returncode == 0, adopted.stderr
    assert len(json.loads(adopted.stdout)["done"]["resolved"]) == 1
    async with database.connection() as connection:
        resolved = await connection.fetchrow("SELECT resolution, resolved_by FROM transactions.halts")
    assert resolved is not None
    assert tuple(resolved.values()) == ("adopted", "ada")
    again = tayho.func(environment, "world", "adopt", ROLE, "--yes")  # type: ignore[attr-defined]
    assert (again.returncode, "nothing to resolve" in again.stderr) == (1, True)
    assert tayho("world", "show", "auditor").returncode == 2
