"""The jobs of the play: what becomes of each in its handler, and how each must end."""

from collections.abc import Mapping
from typing import Final

import trio
from attrs import frozen

from storage.database import Connection
from tayho.coordination.types import Declared, NewJob
from tayho.kernel.jobs import (
    Attempt,
    Completed,
    Ended,
    Job,
    NotActionable,
    Outcome,
    Postponed,
    RequestRefused,
    StaleAttempt,
)
from tayho.kernel.schedule import Schedule
from tests.sweep.stage import ROLE, SETTINGS, Plane

KIND: Final = "part"
# Longer than the time between two renewals, so that a lock is extended under the handler.
LONG_SECONDS: Final = SETTINGS.lock_seconds * 0.45


@frozen
class End:
    """How a job of the play ends, whatever is lost on the way."""

    state: str
    # The state of its last attempt; every one before it was failed, returned or lost.
    last_attempt: str
    # Attempts whose holder vanished, all of them in the prologue.
    lost: int = 0
    # Attempts whose handler raised.
    failed: int = 0


_COMPLETED: Final = End("completed", "completed")

# By the name of the part. Where a new statement needs another one to be reached, add it here, with its behaviour in
# `Handlers`; it is enqueued by play.py or prologue.py.
ENDS: Final[Mapping[str, End]] = {
    # Of the play itself.
    **{f"plain-{number}": _COMPLETED for number in range(4)},
    "in the caller's transaction": _COMPLETED,
    "fails once": End("completed", "completed", failed=1),
    "fails for ever": End("dead", "failed", failed=SETTINGS.attempts_max),
    "postponed": _COMPLETED,
    "long": _COMPLETED,
    **{f"limited-{number}": _COMPLETED for number in range(2)},
    "scheduled": _COMPLETED,
    "not wanted": End("not_actionable", "not_actionable"),
    "malformed": End("quarantined", "quarantined"),
    "confirmed": End("completed", "confirming"),
    "released": End("not_actionable", "not_actionable"),
    # From before it (prologue.py).
    "held by one who vanished": End("completed", "completed", lost=1),
    "failed in the queue alone": _COMPLETED,
    "delivered too early": _COMPLETED,
    "aged": _COMPLETED,
    "spent": End("dead", "lost", lost=SETTINGS.attempts_max),
}


# Its slots are years apart, and the newest of them is due when the play begins.
SCHEDULED: Final = Declared(
    Schedule(name="sweep", every_seconds=100_000_000, request={"part": "scheduled"}), kind=KIND, role=ROLE
)


def part(name: str) -> NewJob:
    limit_key = "tenant" if name.startswith("limited") else None
    return NewJob(KIND, ROLE, name, {"part": name}, limit_key=limit_key)


class Handlers:
    """One handler for every part: what it does is in the job's request."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def handle(self, job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        match job.request["part"]:
            case "fails once" if attempt.attempt_number == 1:
                raise RuntimeError("once")
            case "fails for ever":
                raise RuntimeError("for ever")
            case "postponed" if attempt.attempt_number == 1:
                return Postponed("not yet", 0)
            case "long":
                await trio.sleep(LONG_SECONDS)
            case "not wanted":
                return NotActionable("nobody wants it")
            case "malformed":
                raise RequestRefused("it can never be carried out")
            case "confirmed":
                return await self._confirm(job, attempt)
            case "released":
                return await self._release(job, attempt)
            case _:
                pass
        return Completed({"part": job.request["part"]})

    async def _confirm(self, job: Job, attempt: Attempt) -> Outcome:
        """As transactions do: own a nonce, then end the attempt because the transaction is out."""
        coordination = self._plane.coordination
        await self._hold(job, attempt)
        async with self._plane.database.transaction() as tx:
            _current(attempt, await coordination.lock_if_current(tx, [attempt]))
            _current(attempt, await coordination.confirm_if_current(tx, [attempt]))
        return Ended()

    async def _release(self, job: Job, attempt: Attempt) -> Outcome:
        """As transactions do with an allocation that is not wanted any more."""
        await self._hold(job, attempt)
        async with self._plane.database.transaction() as tx:
            if not await self._plane.coordination.release_lineage_if_current(tx, attempt, {"reason": "not wanted"}):
                raise StaleAttempt(attempt)
        return Ended()

    async def _hold(self, job: Job, attempt: Attempt) -> None:
        if job.has_live_lineage:
            return
        async with self._plane.database.transaction() as tx:
            _current(attempt, await self._hold_in(tx, attempt))

    async def _hold_in(self, tx: Connection, attempt: Attempt) -> frozenset[object]:
        return frozenset(await self._plane.coordination.hold_for_lineage_if_current(tx, [attempt]))


def _current(attempt: Attempt, current: frozenset[object]) -> None:
    if attempt.job_id not in current:
        raise StaleAttempt(attempt)
