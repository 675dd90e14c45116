"""Every wait of the delivery, shortened: a minute of recovery would else leave room for one schedule a minute.

Only waits are named here. What depends on one being longer than another keeps its order.
"""

from __future__ import annotations

import pytest

from storage import pool, redis_client, unanswered
from tayho.coordination import module, outbox, running, worker
from tayho.coordination.types import WorkerSettings

ROLE = "automation"
KIND = "work"
LOCK_SECONDS = 0.6
STALLED_INTERVAL_SECONDS = 0.2
COMMAND_SECONDS = 2.0
DRAIN_SECONDS = 2.0
LEASE_SECONDS = 0.4
PAUSED_SECONDS = 1.0
RECONCILE_SECONDS = 0.5
BACKOFF_MILLISECONDS = 60
SETTINGS = WorkerSettings(
    roles=(ROLE,),
    concurrency=3,
    lock_seconds=LOCK_SECONDS,  # type: ignore[arg-type] - a whole number only where people set it
    reconcile_seconds=RECONCILE_SECONDS,  # type: ignore[arg-type] - as above
    attempts_max=4,
    poll_milliseconds=50,
)
# No outbox row may be due later than this after now, whatever became of its publisher, or after its job's own time.
DUE_SECONDS_MAX = max(LEASE_SECONDS, PAUSED_SECONDS, RECONCILE_SECONDS)

_SHORTENED = (
    (outbox, "LEASE_SECONDS", LEASE_SECONDS),
    (outbox, "PAUSED_SECONDS", PAUSED_SECONDS),
    (outbox, "BACKOFF_MILLISECONDS", BACKOFF_MILLISECONDS),
    (running, "OUTAGE_DELAY_SECONDS", 0.1),
    (running, "END_SECONDS", 4.0),
    (worker, "TROUBLE_SECONDS", 0.05),
    (worker, "WAIT_SECONDS", 0.5),
    (worker, "PUT_BACK_SECONDS", {"early": 0, "surplus": 0, "unbegun": 0.05, "paused": 0.3, "unknown_kind": 0.5}),
    (module, "HEARTBEAT_SECONDS", 0.2),
    (module, "LISTEN_AGAIN_SECONDS", 0.1),
    (module, "STALLED_SCAN_SECONDS_MIN", STALLED_INTERVAL_SECONDS),
    (unanswered, "LOOK_AGAIN_SECONDS", 0.1),
    (redis_client, "CLOSE_SECONDS", 1.0),
    (pool, "ACQUIRE_SECONDS", 3.0),
    (pool, "COMMIT_SECONDS", 2.0),
    (pool, "END_SECONDS", 1.0),
    (pool, "CLOSE_SECONDS", 1.0),
)


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the test ends."""
    for where, name, value in _SHORTENED:
        monkeypatch.setattr(where, name, value)
