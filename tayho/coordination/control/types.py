"""What operators ask for, and what they are told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from attrs import field, frozen
from attrs.validators import and_, ge, in_, instance_of, le, matches_re, max_len, min_len, optional

from tayho.coordination.control.constants import OPEN_STATES
from tayho.coordination.control.errors import ControlRefused
from tayho.kernel.roles import ROLES

CONCURRENT_MAX = 100_000
RATE_MAX = 1_000_000
RATE_SECONDS_MAX = 86_400

# What PostgreSQL stores and a terminal shows: no control characters, no half of a surrogate pair.
_printable = matches_re(r"[^\x00-\x1f\x7f\ud800-\udfff]*")
_text = optional(and_(instance_of(str), min_len(1), max_len(255)))


@frozen
class Cancelled:
    """What a cancellation did. `has_ended` is false while a worker still has to stop the handler."""

    job_id: UUID
    has_ended: bool


@frozen
class PageDone:
    """What one transaction did. A job is in one of the two; those that it changed may have ended by it."""

    has_ended: Mapping[UUID, bool]
    refused: Mapping[UUID, ControlRefused]


@frozen
class Deed:
    """Who does something and why, for the record. Raises ValueError when a text is empty, too long or not printable."""

    actor: str = field(validator=and_(instance_of(str), min_len(1), max_len(128), _printable))
    reason: str = field(default="", validator=and_(instance_of(str), max_len(500), _printable))


@frozen
class JobFilter:
    """Which jobs a bulk operation is about. What is None does not narrow it. Raises ValueError out of range."""

    state: str | None = field(default=None, validator=optional(in_(OPEN_STATES)))
    role: str | None = field(default=None, validator=optional(in_(ROLES)))
    kind: str | None = field(default=None, validator=_text)
    tag: str | None = field(default=None, validator=_text)
    limit_key: str | None = field(default=None, validator=_text)
    error_type: str | None = field(default=None, validator=_text)
    # In PostgreSQL's clock: from the first, to just before the second.
    created_from: datetime | None = None
    created_before: datetime | None = None


@frozen
class JobSample:
    """One job that a bulk operation would change."""

    job_id: UUID
    role: str
    kind: str
    idempotency_key: str
    state: str
    created_at: datetime


@frozen
class Preview:
    """What a bulk operation would change if it were done now."""

    # At most the bound of the look; `is_more` says that there are others beyond it.
    jobs: int
    is_more: bool
    by_kind: Mapping[str, int]
    sample: tuple[JobSample, ...]
    # PostgreSQL's time of the look; None where nothing was found.
    seen_at: datetime | None


@frozen
class BulkDone:
    """What a bulk operation did."""

    jobs: int
    # Of a cancellation: those that a worker has to stop first.
    still_running: tuple[UUID, ...]
    # Jobs that had changed between the look and the deed, and were left as they are.
    left: int


@frozen
class Drained:
    """The process that was drained or undrained; `changed` is false where it was so before."""

    worker_id: UUID
    instance_id: str
    changed: bool


@frozen
class Standing:
    """How far the drain of a process has come."""

    # It says that it takes nothing and has nothing in hand.
    is_drained: bool
    has_stopped: bool
    heartbeat_age_seconds: float
    # Attempts of it that have not ended.
    running: int

    @property
    def is_through(self) -> bool:
        """Nothing of it is left to wait for."""
        return self.running == 0 and (self.is_drained or self.has_stopped)


@frozen
class Pause:
    """Work that is not taken: a whole role, or one kind of it (`kind` is not empty)."""

    role: str
    kind: str
    reason: str
    actor: str
    paused_at: datetime


@frozen
class RoleBacklog:
    """What a role has before it."""

    role: str
    jobs: int
    unpublished: int
    processing: int
    # How long the oldest job waits that is due and not running.
    oldest_waiting_seconds: float


@frozen
class Limit:
    """The numbers of a limit key. None is no such limit. Raises ValueError when a number is out of its range.

    A rate is a bucket of `rate_max` starts that refills evenly over `rate_seconds`.
    """

    concurrent_max: int | None = field(
        default=None, validator=optional(and_(instance_of(int), ge(1), le(CONCURRENT_MAX)))
    )
    rate_max: int | None = field(default=None, validator=optional(and_(instance_of(int), ge(1), le(RATE_MAX))))
    rate_seconds: int | None = field(
        default=None, validator=optional(and_(instance_of(int), ge(1), le(RATE_SECONDS_MAX)))
    )

    def __attrs_post_init__(self) -> None:
        if (self.rate_max is None) != (self.rate_seconds is None):
            raise ValueError("a rate is two numbers: rate_max starts in rate_seconds seconds")
        if self.concurrent_max is None and self.rate_max is None:
            raise ValueError("a limit without a number limits nothing: give concurrent_max, or a rate")


@frozen
class LimitLine:
    """A limit key in a list: its numbers, and the jobs that count against them."""

    limit_key: str
    concurrent_max: int | None
    rate_max: int | None
    rate_seconds: int | None
    # Starts that the bucket has now, where there is a rate.
    starts_left: int | None
    in_flight: int
    waiting: int
