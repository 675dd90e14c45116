"""The waits and depths of the engine, shortened, on top of those of the delivery."""

from __future__ import annotations

import pytest
from attrs import evolve

from rpc import truth
from storage import pool
from tayho.coordination import outbox
from tayho.transactions import blocking, executor
from tayho.transactions.types import TransactionSettings
from tests.simulation.delivery import clockwork as delivery

ROLE = delivery.ROLE
CHAIN_ID = 31337
GWEI = 10**9
FEE_WEI_MAX = 100 * GWEI
CALM_BASE_FEE_WEI = GWEI
CONFIRMATIONS = 2
LOOKBACK_BLOCKS = 8
RECONCILE_SECONDS = 0.5
STUCK_SECONDS = 1.2
BLOCK_SECONDS = 0.1
# An attempt asks several nodes, on a machine that runs them too: a shorter lock would run out under it again and again.
LOCK_SECONDS = 4.0
STALLED_INTERVAL_SECONDS = 1.0
RPC_SECONDS = 3.0
# A job that no node can be reached for spends none of them; so many failures mean a loop.
ATTEMPTS_MAX = 40
WORKER_SETTINGS = evolve(delivery.SETTINGS, concurrency=6, attempts_max=ATTEMPTS_MAX, lock_seconds=LOCK_SECONDS)

_SHORTENED = (
    (outbox, "BACKOFF_MILLISECONDS", 20),
    (executor, "ROOM_SECONDS", 0.5),
    (executor, "ROOM_LOOK_SECONDS", 0.1),
    (executor, "MARKET_DELAY_SECONDS", 0.2),
    (executor, "HALT_DELAY_SECONDS", 0.2),
    (executor, "TAKEN_DELAY_SECONDS", 0.2),
    (executor, "BLOCKED_DELAY_SECONDS", 0.2),
    (blocking, "PROBE_SECONDS", 0.5),
    (pool, "CLOSE_SECONDS", 5.0),
    (truth, "POOLS_DEADLINE_SECONDS", 1.0),
    (truth, "POOLS_GRACE_SECONDS", 0.1),
)


def settings_of(environment: str, instance_id: str) -> TransactionSettings:
    return TransactionSettings(
        chain_id=CHAIN_ID,
        environment=environment,
        role=ROLE,
        confirmations=CONFIRMATIONS,
        reconcile_seconds=RECONCILE_SECONDS,  # type: ignore[arg-type] - a whole number only where people set it
        lane_depth=4,
        fee_wei_max=FEE_WEI_MAX,
        reorg_lookback_blocks=LOOKBACK_BLOCKS,
        stuck_seconds=STUCK_SECONDS,  # type: ignore[arg-type] - as above
        replacements_max=4,
        instance_id=instance_id,
    )


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the test ends."""
    delivery.shorten(monkeypatch)
    for where, name, value in _SHORTENED:
        monkeypatch.setattr(where, name, value)
