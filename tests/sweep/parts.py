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
# The kind that is paused when the play begins, and the one part that is of it.
PAUSED_KIND: Final = "paused part"
PAUSED_PART: Final = "paused"
# The part whose handler ends only because an operator wants it to.
RUNNING_PART: Final = "cancelled while it runs"
# What bulk operations are about.
REPLAYED_TAG: Final = "replay these"
UNWANTED_TAG: Final = "unwanted"
# Whose the limited parts are.
TENANT: Final = "tenant"
# Longer than the time between two renewals, so that a lock is extended under the handler.
LONG_SECONDS: Final = SETTINGS.lock_seconds * 0.45


@frozen
class End:
    """How a job of the play ends, whatever is lost on the way."""

    state: str
    # The state of its last attempt; every one before it was failed, returned or lost.
    # None where there was no attempt at all.
    last_attempt: str | None
    # Attempts whose holder vanished, all of them in the prologue.
    lost: int = 0
    # Attempts whose handler raised.
    failed: int = 0
    # Attempts that a replay forgave: they count against no budget any more.
    forgiven: int = 0


_COMPLETED: Final = End("completed", "completed")
_REPLAYED: Final = End("completed", "completed", failed=1, forgiven=1)
_CANCELLED: Final = End("dead", None)

# By the name of the part. Where a new statement needs another one to be reached, add it here, with its behaviour in
# `Handlers`; it is enqueued by play.py or prologue.py.
ENDS: Final[Mapping[str, End]] = {
    # Of the play itself.
    **{f"plain-{number}": _COMPLETED for number in range(4)},
    "in the caller's transaction": _COMPLETED,
    **{f"batch-{number}": _COMPLETED for number in range(2)},
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
    PAUSED_PART: _COMPLETED,
    "cancelled": _CANCELLED,
    **{f"unwanted-{number}": _CANCELLED for number in range(2)},
    RUNNING_PART: End("dead", "cancelled"),
    # From before it (prologue.py).
    "held by one who vanished": End("completed", "completed", lost=1),
    "failed in the queue alone": _COMPLETED,
    "delivered too early": _COMPLETED,
    "delayed by a wrong clock": _COMPLETED,
    "aged": _COMPLETED,
    "replayed": _REPLAYED,
    **{f"replay these-{number}": _REPLAYED for number in range(2)},
    "spent": End("dead", "lost", lost=SETTINGS.attempts_max),
}

REPLAYED_PARTS: Final = tuple(name for name in ENDS if name.startswith("replay"))
CANCELLED_PARTS: Final = (*(name for name, end in ENDS.items() if end is _CANCELLED), RUNNING_PART)

# Its slots are years apart, and the newest of them is due when the play begins.
SCHEDULED: Final = Declared(
    Schedule(name="sweep", every_seconds=100_000_000, request={"part": "scheduled"}), kind=KIND, role=ROLE
)


def part(name: str) -> NewJob:
    limit_key = TENANT if name.startswith("limited") else None
    tags = tuple(tag for tag in (REPLAYED_TAG, UNWANTED_TAG) if name.startswith(tag))
    kind = PAUSED_KIND if name == PAUSED_PART else KIND
    return NewJob(kind, ROLE, name, {"part": name}, limit_key=limit_key, tags=tags)


class Handlers:
    """One handler for every part: what it does is in the job's request."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        # Set while the part runs that would never end.
        self.runs_for_ever = trio.Event()

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
            case part if part == RUNNING_PART:
                self.runs_for_ever.set()
                await trio.sleep_forever()
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
