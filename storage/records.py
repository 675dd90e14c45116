"""What goes into the delivery plane and what comes out of it: plain values and their rules, no Redis.

A *record* is one BullMQ job as we publish it. A *delivery* is one record in the hands of one holder, under one lock
token. Neither decides anything about the job behind it: PostgreSQL does.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeAlias
from uuid import UUID

from attrs import Attribute, field, frozen

from storage.errors import StorageError

# BullMQ keeps the priority in the upper bits of a sorted-set score; Node refuses anything above (PRIORITY_LIMIT).
PRIORITY_MAX = 2**21 - 1
ATTEMPTS_MAX = 100
# No wait between two attempts of one delivery is longer, whoever computes it. A Node worker knows no such bound, so a
# record whose last wait would pass it is refused when it is made.
BACKOFF_MILLISECONDS_MAX = 24 * 60 * 60 * 1000
GENERATION_MAX = 2**31 - 1

_DELIVERY_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-g(0|[1-9][0-9]{0,9})")


class RecordInvalid(StorageError):
    """A record, or a delivery id, that must not reach BullMQ; nothing was sent. The message names the field."""


def delivery_id(job_id: UUID, generation: int) -> str:
    """The BullMQ job id of one delivery generation of a job: `<uuid>-g<generation>`.

    BullMQ checks no id in Python, and some ids collide with the queue's own keys ("meta", "wait") and lose the job
    without a word. This form cannot.

    Raises:
        RecordInvalid: the generation is negative or above 2**31 - 1.
    """
    if not 0 <= generation <= GENERATION_MAX:
        raise RecordInvalid(f"Delivery generation {generation} of job {job_id} is outside 0 to {GENERATION_MAX}.")
    return f"{job_id}-g{generation}"


def parse_delivery_id(text: str) -> tuple[UUID, int]:
    """The job id and the generation that `delivery_id` put together.

    Raises:
        RecordInvalid: the text has another form, as the ids of records that others added do.
    """
    match = _DELIVERY_ID.fullmatch(text)
    if match is None or int(match[2]) > GENERATION_MAX:
        raise RecordInvalid(f"{text[:80]!r} is not a delivery id: expected <job uuid in lower case>-g<generation>.")
    return UUID(match[1]), int(match[2])


def _is_delivery_id(_record: "Record", _attribute: "Attribute[str]", value: str) -> None:
    parse_delivery_id(value)


def _is_name(record: "Record", _attribute: "Attribute[str]", value: str) -> None:
    # A lone surrogate cannot be encoded, and would fail in the middle of a batch instead of here.
    if not value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise RecordInvalid(f"Record {record.delivery_id}: the name {value!r} is empty or no valid Unicode text.")


def _is_between(low: int, high: int) -> Callable[["Record", "Attribute[int]", object], None]:
    def check(record: "Record", attribute: "Attribute[int]", value: object) -> None:
        # bool is an int, and 2.0 would be packed as a float that Lua formats differently from an integer.
        if type(value) is not int or not low <= value <= high:
            raise RecordInvalid(
                f"Record {record.delivery_id}: {attribute.name} is {value!r}, expected an integer {low} to {high}."
            )

    return check


@frozen
class Record:
    """What is published. Every record carries a priority, because BullMQ serves those with one after those without.

    Raises:
        RecordInvalid: a field is out of its range, or the last wait would pass BACKOFF_MILLISECONDS_MAX.
    """

    delivery_id: str = field(validator=_is_delivery_id)
    # The job kind: BullMQ's job name.
    name: str = field(validator=_is_name)
    # JSON; what Redis holds is for people who look and for Node: the truth is read from PostgreSQL.
    data: Mapping[str, object]
    # 1 is the most urgent.
    priority: int = field(validator=_is_between(1, PRIORITY_MAX))
    # How often BullMQ hands the record out before it is terminal.
    attempts: int = field(validator=_is_between(1, ATTEMPTS_MAX))
    # The wait after the first failure; it doubles with each further one, of which the last half is random.
    backoff_milliseconds: int = field(validator=_is_between(0, BACKOFF_MILLISECONDS_MAX))

    def __attrs_post_init__(self) -> None:
        waits = self.attempts - 1
        if waits and self.backoff_milliseconds << (waits - 1) > BACKOFF_MILLISECONDS_MAX:
            raise RecordInvalid(
                f"Record {self.delivery_id}: a backoff of {self.backoff_milliseconds} ms over {self.attempts} attempts "
                f"ends in a wait above {BACKOFF_MILLISECONDS_MAX} ms. Take fewer attempts or a shorter backoff."
            )


@frozen
class Delivery:
    """One record, active in BullMQ and locked by `token`. Whoever holds it must extend it, finish it or put it back.

    A record with `damaged` must not be run: what it says is missing or unreadable. One with `deferred_failure` was
    condemned by another worker's stall counter; whether it runs is PostgreSQL's decision.
    """

    delivery_id: str
    token: str
    name: str
    data: Mapping[str, object]
    # Attempts that ended before this one.
    attempts_made: int
    attempts_allowed: int
    # How often a holder vanished without a word.
    stalled_count: int
    deferred_failure: str | None
    damaged: str | None
    # BullMQ's options as the record carries them: its backoff and what is kept of it afterwards.
    options: Mapping[str, object] = field(repr=False)


@frozen
class Completion:
    """A delivery to be completed, with the JSON value that a person looking at the queue sees as its result."""

    delivery: Delivery
    result: object = None


@frozen
class Failure:
    """A delivery whose attempt failed. BullMQ hands it out again after its backoff if `retry` and attempts remain."""

    delivery: Delivery
    reason: str
    retry: bool


@frozen
class Return:
    """A delivery given up unharmed: it is handed out again after the delay, and no attempt is counted."""

    delivery: Delivery
    delay_seconds: float


Acknowledgement: TypeAlias = Completion | Failure | Return


class RecordState(Enum):
    """Where BullMQ has a record."""

    WAITING = "waiting"
    DELAYED = "delayed"
    ACTIVE = "active"
    # A parent of a Node flow whose children are not done; none of our records is one.
    WAITING_CHILDREN = "waiting-children"
    COMPLETED = "completed"
    FAILED = "failed"
    # Never added, finished and trimmed, or lost: only PostgreSQL can tell which.
    MISSING = "unknown"

    @property
    def is_terminal(self) -> bool:
        """BullMQ will not hand this record out again, and will not take its id again while it is kept."""
        return self in {RecordState.COMPLETED, RecordState.FAILED}


class AckOutcome(Enum):
    """What came of finishing, failing or putting back one delivery."""

    COMPLETED = "completed"
    # Terminal: BullMQ hands the record out no more.
    FAILED = "failed"
    # BullMQ hands it out again, after its backoff.
    RETRIED = "retried"
    PUT_BACK = "put back"
    # Benign, nothing was changed: the record is gone or no longer active (finished earlier and trimmed, or FLUSHALL).
    GONE = "gone"
    # Benign, nothing was changed: the lock ran out, or another holder has the record.
    LOCK_LOST = "lock lost"
    # A parent of a Node flow cannot be completed before its children; nothing was changed.
    CHILDREN_PENDING = "children pending"

    @property
    def took_effect(self) -> bool:
        """Whether this call changed the record."""
        return self in {AckOutcome.COMPLETED, AckOutcome.FAILED, AckOutcome.RETRIED, AckOutcome.PUT_BACK}
