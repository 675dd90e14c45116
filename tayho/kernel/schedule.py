"""A recurring piece of work, as a kind declares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import field, frozen

from tayho.kernel.json_document import Json

CatchUp: TypeAlias = Literal["latest", "all", "none"]


@frozen(kw_only=True)
class Schedule:
    """Fire one job of the declaring kind per slot: every so many seconds, or as a cron expression says.

    Nothing is checked when it is made: a process refuses to start with every fault of every schedule, told together.
    `docs/scheduling.md` has the rules.
    """

    # Unique among all kinds; part of each job's idempotency key, so another name is another schedule.
    name: str
    # Either: slots at every multiple of this since 1970-01-01T00:00:00Z.
    every_seconds: int | None = None
    # Or: five fields (minute, hour, day of month, month, day of week), read in `time_zone`.
    cron: str | None = None
    # An IANA name; only for `cron`.
    time_zone: str = "UTC"
    # The request of each job, to which `slot_at` is added: the slot in UTC, as in 2026-03-29T01:00:00Z.
    request: Mapping[str, Json] = field(factory=dict[str, Json])
    # BullMQ's meaning: 1 is the most urgent; None is the default of any job.
    priority: int | None = None
    # What becomes of slots that nobody fired in time: the newest fires, all fire, none does.
    catch_up: CatchUp = "latest"
