"""What must be true at the end, kept in plain Python beside the system (I7, I8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

from attrs import define, field

from tests.simulation.delivery.clockwork import BACKOFF_MILLISECONDS
from tests.simulation.delivery.operations import ATTEMPTS_MAX
from tests.simulation.delivery.stage import ENDS, Stage

# Half of every wait is random; and a statement looks at the clock more than once.
BACKOFF_MIN = timedelta(milliseconds=BACKOFF_MILLISECONDS / 2 - 10)


@define
class Wanted:
    """One idempotency key that was accepted."""

    key: str
    do: str
    job_id: UUID
    run_at: datetime | None
    was_cancelled: bool = False
    # Attempts made before the last replay: the budget begins anew after them.
    attempts_before: int = 0


@define
class Model:
    accepted: dict[str, Wanted] = field(factory=dict[str, Wanted])

    def refuses(self, asked: Sequence[tuple[str, str]]) -> bool:
        """Whether a call for these (key, behaviour) must be refused as a whole."""
        known = {key: wanted.do for key, wanted in self.accepted.items()}
        return any(known.setdefault(key, do) != do for key, do in asked)

    def record(self, key: str, do: str, job_id: UUID, run_at: datetime | None) -> None:
        """An accepted answer. The same key must always be the same job."""
        wanted = self.accepted.setdefault(key, Wanted(key, do, job_id, run_at))
        assert wanted.job_id == job_id, f"I7: key {key!r} was job {wanted.job_id} and is now {job_id}"

    def judge(
        self, wanted: Wanted, job: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]], stage: Stage
    ) -> None:
        """Fail if the job, which has ended, ended otherwise than it may have."""
        where = f"job {wanted.job_id} of key {wanted.key!r} ({wanted.do}), {job['state']}"
        by_state = [attempt["state"] for attempt in attempts]
        spent = sum(state != "returned" for state in by_state[wanted.attempts_before :])
        runs = stage.runs[wanted.job_id]
        if job["state"] == "dead" and wanted.was_cancelled:
            assert "Cancelled" in str(job["last_error"]), where
        elif job["state"] == "dead":
            assert spent >= ATTEMPTS_MAX, f"{where}: dead with a budget left: {by_state}"
        else:
            assert job["state"] == ENDS[wanted.do.partition(":")[0]], f"{where}: {by_state}"
        if job["state"] == "completed":
            assert stage.effects[wanted.job_id] >= 1, f"{where}: no effect"
            assert job["result"]["result"]["run"] in runs, f"{where}: a result that no run gave"
        assert len(runs) == len(set(runs)), f"{where}: one token ran twice"
        assert set(runs) <= {attempt["token"] for attempt in attempts}, f"{where}: ran without an attempt"
        assert job["attempts_spent"] == spent, f"{where}: spent {job['attempts_spent']}: {by_state}"
        for number, (before, after) in enumerate(pairwise(attempts), start=1):
            if before["state"] == "failed" and number != wanted.attempts_before:
                wait = after["started_at"] - before["ended_at"]
                assert wait >= BACKOFF_MIN, f"{where}: attempt {number + 1} came {wait} after a failure"
        if wanted.run_at is not None:
            early = [attempt["started_at"] for attempt in attempts if attempt["started_at"] < wanted.run_at]
            assert not early, f"{where}: due at {wanted.run_at}, begun at {early}"
