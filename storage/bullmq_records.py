"""Our values as the bullmq package's jobs, and its raw fields as our values. No Redis."""

import json
import secrets
from collections.abc import Mapping
from typing import Any, Final, cast

from attrs import frozen

from storage.backoff import BOUNDED, wait_milliseconds
from storage.bullmq_package import PackageBackend, PackageJob, decoded_options, new_backend, new_job
from storage.bullmq_scripts import ScriptCarrier
from storage.records import BACKOFF_MILLISECONDS_MAX, Delivery, Record

# Half of every wait is random: callers that failed together do not come back together.
JITTER: Final = 0.5
_BACKOFF: Final = "backoff"


@frozen
class Kept:
    """How much of finished records stays in Redis, for people who look: no more than `count`, none older than `age`.

    The age is enforced when a record finishes, so an idle queue may show older ones.
    """

    count: int
    age_seconds: int

    def option(self) -> dict[str, int]:
        """In BullMQ's words. A count of 0 removes the record at once."""
        return {"count": self.count, "age": self.age_seconds}


class QueueView:
    """What a job of the bullmq package needs to know of its queue, and nothing that connects or waits."""

    def __init__(self, *, prefix: str, name: str, lock_milliseconds: int, completed: Kept, failed: Kept) -> None:
        self.backend: PackageBackend = new_backend(name, ScriptCarrier(), prefix=prefix)
        self.qualifiedName = self.backend.qualifiedName
        self.lock_milliseconds = lock_milliseconds
        self.opts: dict[str, Any] = {
            "lockDuration": lock_milliseconds,
            "settings": {"backoffStrategy": _bounded_wait},
        }
        self.completed = completed
        self.failed = failed
        self._kept_options: dict[str, object] = {"removeOnComplete": completed.option()}

    def new_job(self, record: Record) -> PackageJob:
        """The package's job for a record that is to be added."""
        options: dict[str, object] = {
            "jobId": record.delivery_id,
            "priority": record.priority,
            "attempts": record.attempts,
            _BACKOFF: {"type": "exponential", "delay": record.backoff_milliseconds, "jitter": JITTER},
            "removeOnComplete": self.completed.option(),
            "removeOnFail": self.failed.option(),
        }
        # A copy, because json takes no mapping but a dict.
        return new_job(self, record.name, dict(record.data), options, record.delivery_id)

    def completed_job(self, delivery: Delivery) -> PackageJob:
        """The package's job for a delivery that is to be completed: all that its script is told of one."""
        options = delivery.options if "removeOnComplete" in delivery.options else self._kept_options
        return cast(
            "PackageJob",
            _CompletedJob(self, delivery.delivery_id, options, delivery.attempts_allowed, delivery.attempts_made),
        )

    def held_job(self, delivery: Delivery) -> PackageJob:
        """The package's job for a delivery that is to be failed."""
        options: dict[str, object] = {
            "removeOnComplete": self.completed.option(),
            "removeOnFail": self.failed.option(),
            **delivery.options,
            # The package would store a traceback, and outside of an except block the text "NoneType: None".
            "stackTraceLimit": 0,
        }
        declared = options.get(_BACKOFF)
        if declared:
            options[_BACKOFF] = {"type": BOUNDED, "declared": declared}
        job = new_job(self, delivery.name, delivery.data, options, None)
        # Not through the options: those of a record from elsewhere may name another id, or none.
        job.id = delivery.delivery_id
        job.attempts = delivery.attempts_allowed
        job.opts["attempts"] = delivery.attempts_allowed
        job.attemptsMade = delivery.attempts_made
        return job


@frozen
class _CompletedJob:
    """Stands for a bullmq.job.Job, whose making costs more than the rest of a completion."""

    queue: QueueView
    id: str
    opts: Mapping[str, object]
    attempts: int
    attemptsMade: int  # noqa: N815 - the package's name


def delivery_of(identifier: str, token: str, fields: Mapping[str, str]) -> Delivery:
    """The delivery that a record's raw fields make.

    Fields that are missing or unreadable make a damaged delivery, never an error: the record is locked by then, and
    an error would hide it until the lock runs out, for ever again. `moveToActive` itself writes two fields into a
    hash that was evicted, so an evicted record is known by its missing name.
    """
    problems: list[str] = []
    if not is_text(identifier):
        problems.append("its id is no UTF-8 text")
    if "name" not in fields or "data" not in fields:
        problems.append("its name or data are gone (evicted or deleted)")
    data = _json_object(fields.get("data", "{}"), "data", problems)
    options = _json_object(fields.get("opts", "{}"), "opts", problems)
    return Delivery(
        delivery_id=identifier,
        token=token,
        name=fields.get("name", ""),
        data=data,
        attempts_made=_count(fields.get("atm") or fields.get("attemptsMade")),
        attempts_allowed=max(1, _count(options.get("attempts"))),
        stalled_count=_count(fields.get("stc")),
        deferred_failure=fields.get("defa"),
        damaged="; ".join(problems) or None,
        options=decoded_options(options),
    )


def _bounded_wait(attempts_made: int, _kind: object, _error: object, job: PackageJob) -> int:
    """BullMQ's hook for a backoff of one's own; `attempts_made` counts the failure that is being recorded."""
    declared: object = job.opts[_BACKOFF]["declared"]
    return wait_milliseconds(
        # A bare number is BullMQ's short form of a fixed wait.
        cast("Mapping[str, object]", declared) if isinstance(declared, dict) else {"delay": declared},
        failures=attempts_made,
        milliseconds_max=BACKOFF_MILLISECONDS_MAX,
        chance=secrets.randbelow(1 << 20) / (1 << 20),
    )


def _json_object(text: str, what: str, problems: list[str]) -> dict[str, object]:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        problems.append(f"its {what} are no JSON")
        return {}
    if not isinstance(value, dict):
        problems.append(f"its {what} are no JSON object")
        return {}
    return cast("dict[str, object]", value)


def _count(value: object) -> int:
    try:
        return max(0, int(cast("Any", value or 0)))
    except (TypeError, ValueError, OverflowError):
        return 0


def is_text(text: str) -> bool:
    """Whether the text can be encoded. False where redis-py kept undecodable bytes as lone surrogates."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)
