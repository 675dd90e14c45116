"""What coordination shows to the other contexts and to whoever enqueues."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Protocol, TypeAlias
from uuid import UUID

from attrs import field, frozen
from attrs.validators import optional

from tayho.kernel.arguments import is_name, is_object, is_one_of, is_run_at, is_tags, is_whole
from tayho.kernel.jobs import Attempt, Job, Outcome
from tayho.kernel.json_document import Json
from tayho.kernel.roles import ROLES
from tayho.kernel.schedule import Schedule

PRIORITY_DEFAULT = 1_000
PRIORITY_MAX = 2_097_151  # BullMQ's own bound; 1 is the most urgent
TAGS_MAX = 16
# How many jobs of one limit key may be published at once for each handler of a process, where no limit says otherwise:
# what a job of another key waits behind at most (DLV-15).
FAIR_SHARE = 4


@frozen
class NewJob:
    """A request for one durable unit of work.

    The idempotency key names the effect for ever within (chain, environment): the same key with an equal kind and
    request is the same job, with another request it is refused. Raises ArgumentRefused (a ValueError) when a field is
    out of its range, and DocumentRefused when the request is no object.
    """

    kind: str = field(validator=is_name(128))
    role: str = field(validator=is_one_of(ROLES))
    idempotency_key: str = field(validator=is_name(255))
    request: Mapping[str, Json] = field(validator=is_object)
    priority: int = field(default=PRIORITY_DEFAULT, validator=is_whole(1, PRIORITY_MAX))
    # In PostgreSQL's clock; None is at once, and so is what is past.
    run_at: datetime | None = field(default=None, validator=is_run_at)
    # Whose job it is: jobs of one key share its limits, and take turns with other keys' jobs. None is unlimited.
    limit_key: str | None = field(default=None, validator=optional(is_name(255)))
    tags: tuple[str, ...] = field(default=(), validator=is_tags(TAGS_MAX, 64))


@frozen
class Enqueued:
    """The honest answer to an enqueue: the job that the key stands for, and whether this call made it."""

    job_id: UUID
    idempotency_key: str
    created: bool
    state: str


class Transaction(Protocol):
    """A caller's open transaction: an asyncpg connection of its own program, or our Connection inside tayho."""

    def fetch(self, query: str, /, *args: Any) -> Awaitable[Sequence[Any]]:
        """All rows of a statement; each is read by column name."""
        ...

    def is_in_transaction(self) -> bool:
        """Whether a transaction is open on it."""
        ...


class IdempotencyConflict(Exception):
    """The idempotency key already stands for another request. Nothing was recorded."""

    def __init__(self, idempotency_key: str, job_id: UUID, recorded_digest: bytes, asked_digest: bytes) -> None:
        super().__init__(
            f"the idempotency key {idempotency_key!r} belongs to job {job_id}, whose request has digest "
            f"{recorded_digest.hex()}; this request has digest {asked_digest.hex()}: use another key for another effect"
        )
        self.idempotency_key = idempotency_key
        self.job_id = job_id
        self.recorded_digest = recorded_digest
        self.asked_digest = asked_digest


@frozen
class Settlement:
    """The end that the chain gave to a job: `completed` or `dead`, with what is to be kept about it."""

    job_id: UUID
    state: str
    detail: Mapping[str, Json]


@frozen
class Quarantine:
    """A job that can never be carried out, and why."""

    job_id: UUID
    detail: Mapping[str, Json]


@frozen
class Revival:
    """A job whose end the chain took back, and what is to be kept about it as its last error."""

    job_id: UUID
    detail: Mapping[str, Json]


@frozen
class AttemptRecord:
    """One attempt as the history keeps it."""

    attempt_number: int
    generation: int
    state: str
    instance_id: str
    started_at: datetime
    ended_at: datetime | None
    detail: Json


@frozen
class JobRecord:
    """A job with its history, for a person's eyes."""

    job_id: UUID
    role: str
    kind: str
    idempotency_key: str
    request: Mapping[str, Json]
    state: str
    generation: int
    attempt_number: int
    attempts_spent: int
    has_live_lineage: bool
    priority: int
    run_at: datetime
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    result: Json
    last_error: Json
    outbox_due_at: datetime | None
    outbox_published_at: datetime | None
    attempts: tuple[AttemptRecord, ...]


@frozen
class JobProgress:
    """How far a job has come, and since when. `result` and `last_error` are what its kind kept."""

    job_id: UUID
    state: str
    result: Json
    last_error: Json
    updated_at: datetime


@frozen
class JobLine:
    """A job in a list."""

    job_id: UUID
    role: str
    kind: str
    idempotency_key: str
    state: str
    attempt_number: int
    attempts_spent: int
    run_at: datetime
    updated_at: datetime
    last_error: Json


@frozen
class LiveWorker:
    """A process that beats."""

    worker_id: UUID
    instance_id: str
    roles: tuple[str, ...]
    process_id: int
    draining: bool
    heartbeat_age_seconds: float
    running: int


@frozen
class Backlog:
    """How far the outbox is behind."""

    rows: int
    unpublished: int
    oldest_due_seconds: float


@frozen
class RoleAges:
    """How old the oldest of a role's open jobs are; 0 where there is none."""

    role: str
    # Since it was due, of a job that nobody runs.
    waiting_seconds: float
    # Since it was begun, of an attempt that runs.
    running_seconds: float


@frozen
class Declared:
    """A schedule, the kind that declares it, and the role whose queue its jobs wait in."""

    schedule: Schedule
    kind: str
    role: str


@frozen
class ScheduleLine:
    """A schedule in a list."""

    name: str
    # As PostgreSQL has it; the process that is asked may have been told otherwise.
    declaration: Mapping[str, Json]
    # Every slot up to here has been fired, or skipped for good.
    decided_until: datetime
    last_slot_at: datetime | None
    # None where the declaration is one that this release cannot read.
    next_slot_at: datetime | None
    # Since a process last said that this declaration is its own.
    silent_seconds: float
    first_seen_at: datetime


@frozen
class Archived:
    """What one page of retention did."""

    archived: int
    is_more: bool
    # Every job was walked by: the walk starts over.
    is_through: bool


Handler: TypeAlias = Callable[[Job, Attempt], Awaitable[Outcome]]


class Happening(Enum):
    """What coordination counts. The comment says what the count's label is."""

    PUBLISHED = "published"  # "first" or "again"
    GENERATION_ADVANCED = "generation_advanced"  # empty
    DECLINED = "declined"  # the verdict
    ENDED = "ended"  # the state that the job went to, or "stale"
    LOCK_LOST = "lock_lost"  # empty
    STALLED = "stalled"  # empty


# Called with what happened, its label, and how often.
Observe: TypeAlias = Callable[[Happening, str, int], None]


@frozen
class WorkerSettings:
    """How this process takes and holds work. Units are in the names."""

    roles: tuple[str, ...]
    concurrency: int
    lock_seconds: int
    reconcile_seconds: int
    attempts_max: int
    poll_milliseconds: int

    @property
    def fair_window(self) -> int:
        """Jobs of one limit key that are published at once where no limit says otherwise."""
        return FAIR_SHARE * self.concurrency
