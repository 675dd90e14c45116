"""Beginning and ending attempts: every change is fenced by token, worker and attempt number (DLV-6, I6)."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias
from uuid import UUID

import structlog
from attrs import field, frozen

from storage.database import Asks, Connection, Database, Row
from storage.errors import CommitUnknown, StoreUnavailable
from storage.records import Delivery, RecordInvalid, parse_delivery_id
from tayho.coordination.store import BEGIN, END_IF_CURRENT, LOCK_JOBS, FenceColumns, job_of
from tayho.kernel.jobs import (
    Attempt,
    Completed,
    Ended,
    Job,
    NotActionable,
    Outcome,
    Postponed,
    Quarantined,
    StaleAttempt,
)
from tayho.kernel.json_document import DocumentRefused, Json, check
from tayho.kernel.steps import step

log = structlog.get_logger("tayho.worker")

MESSAGE_CHARACTERS_MAX = 2_000
# A kind that this release does not know may be known to another: it is left to it, never discarded (DLV-10). So long
# where a worker that knows it is alive; and at most so long where none is, which bounds what such a job costs.
KNOWN_ELSEWHERE_SECONDS = 1.0
KNOWN_NOWHERE_SECONDS_MAX = 60.0
# A worker that was silent for longer is not waited for.
SILENT_SECONDS_MAX = 30.0

BeginVerdict: TypeAlias = Literal[
    "begun",
    "held",
    "early",
    "stale_generation",
    "not_deliverable",
    "unknown_kind",
    "exhausted",
    "cancelled",
    "paused",
    "contended",
    "foreign",
    "unknown_job",
    "damaged",
    "surplus",
    "unbegun",
]
EndVerdict: TypeAlias = Literal["completed", "not_actionable", "quarantined", "failed", "returned"]


@frozen
class Begun:
    """What PostgreSQL said to one delivery; job and attempt are there only where an attempt began or is held."""

    delivery: Delivery
    verdict: BeginVerdict
    # How long it is to be left alone: until it is due, or until somebody may have come who knows its kind.
    wait_seconds: float = 0
    job: Job | None = None
    attempt: Attempt | None = None


@frozen
class End:
    """How one attempt wants to end."""

    attempt: Attempt
    verdict: EndVerdict
    detail: Mapping[str, Json] = field(factory=dict[str, Json])
    # For a job that goes on: no attempt of it begins before.
    delay_seconds: float = 0


async def begin(
    database: Database,
    own: Asks,
    deliveries: Sequence[Delivery],
    *,
    worker_id: UUID,
    attempts_max: int,
    chain_id: int,
    environment: str,
    kinds: Sequence[str],
) -> list[Begun]:
    """Begin an attempt for each delivery that may have one: in one statement, but for those that take a job over.

    `own` runs the one statement, `database` the transaction of the others.
    Raises SerializationLost, StoreUnavailable, and CommitUnknown: under the same tokens, to ask again is right.
    """
    identities = {delivery.token: _identity(delivery) for delivery in deliveries}
    known = {token: identity for token, identity in identities.items() if identity is not None}

    async def ask(connection: Connection, tokens: Sequence[str], *, takes_over: bool) -> list[Row]:
        return await BEGIN(
            connection,
            [known[token][0] for token in tokens],
            [known[token][1] for token in tokens],
            tokens,
            worker_id,
            attempts_max,
            chain_id,
            environment,
            kinds,
            takes_over,
            KNOWN_ELSEWHERE_SECONDS,
            KNOWN_NOWHERE_SECONDS_MAX,
            SILENT_SECONDS_MAX,
        )

    rows = await own.run(lambda connection: ask(connection, list(known), takes_over=False))
    answered = {row["asked_token"]: row for row in rows}
    contended = [token for token, row in answered.items() if row["verdict"] == "contended"]
    if contended:
        try:
            async with database.transaction() as tx:
                await LOCK_JOBS(tx, [known[token][0] for token in contended])
                rows = await ask(tx, contended, takes_over=True)
            answered.update({row["asked_token"]: row for row in rows})
        except StoreUnavailable:
            # Nobody was taken over: they stay contended. The others have begun, and must have their handlers.
            log.warning("take_over_interrupted", deliveries=len(contended))
    step("attempt.after_begin")
    return [_begun(delivery, answered.get(delivery.token), worker_id) for delivery in deliveries]


def _begun(delivery: Delivery, row: Row | None, worker_id: UUID) -> Begun:
    if row is None:
        return Begun(delivery, "unknown_job")
    if row["verdict"] == "contended":
        return Begun(delivery, "unbegun")
    attempt = Attempt(row["job_id"], row["attempt_number"], delivery.token, worker_id)
    return Begun(delivery, row["verdict"], row["wait_seconds"], job_of(row), attempt)


def _identity(delivery: Delivery) -> tuple[UUID, int] | None:
    """Job and generation, or None for a record that somebody else added to the queue under an id of his own."""
    try:
        return parse_delivery_id(delivery.delivery_id)
    except RecordInvalid:
        return None


@frozen
class EndedJob:
    """What became of a job whose attempt ended."""

    state: str
    # It counted against a limit, and does no more once it has ended.
    frees_a_limit: bool


class Ends:
    """Ends many attempts in one statement: the batch behind the group commit of completions."""

    def __init__(self, own: Asks, attempts_max: int) -> None:
        """`own` runs the statement."""
        self._own = own
        self._attempts_max = attempts_max

    async def end_all_if_current(self, ends: Sequence[End]) -> Sequence[EndedJob | Exception]:
        """What became of each job, or StaleAttempt for those whose attempt is not current any more.

        Where the connection breaks under it, it is asked for once more: an end that did take effect is answered again,
        and one that did not is written after all, instead of the work being done again and spending another attempt.
        """
        try:
            rows = await self._end_all(ends)
        except CommitUnknown:
            rows = await self._end_all(ends)
        step("attempt.after_end")
        ended = {row["job_id"]: EndedJob(row["state"], row["frees_a_limit"]) for row in rows}
        return [ended.get(end.attempt.job_id) or StaleAttempt(end.attempt) for end in ends]

    async def _end_all(self, ends: Sequence[End]) -> list[Row]:
        columns = FenceColumns.of([end.attempt for end in ends])
        arguments = (
            *columns.arguments(),
            [end.verdict for end in ends],
            [dict(end.detail) for end in ends],
            [float(end.delay_seconds) for end in ends],
            self._attempts_max,
        )
        return await self._own.run(lambda connection: END_IF_CURRENT(connection, *arguments))


def end_of(attempt: Attempt, outcome: Outcome) -> End | Ended:
    """How an outcome ends its attempt; `Ended` where the effect's own transaction has done so already."""
    match outcome:
        case Completed(result):
            return _completed(attempt, result)
        case NotActionable(reason):
            return End(attempt, "not_actionable", {"reason": printable(reason)})
        case Quarantined(reason):
            return End(attempt, "quarantined", {"type": "RequestRefused", "message": printable(reason)})
        case Postponed(reason, delay_seconds):
            return End(attempt, "returned", {"reason": printable(reason)}, delay_seconds)
        case Ended():
            return outcome
        case _:  # pyright: ignore[reportUnnecessaryComparison] - a team's handler is not ours to trust
            return failed(attempt, TypeError(f"the handler returned a {type(outcome).__name__}, which is no Outcome"))


def _completed(attempt: Attempt, result: Json) -> End:
    """A result that PostgreSQL cannot hold fails its attempt; it must never wedge the job in `processing`."""
    detail: Mapping[str, Json] = {"result": result}
    try:
        check(detail)
    except DocumentRefused as error:
        return failed(attempt, error)
    return End(attempt, "completed", detail)


def failed(attempt: Attempt, error: BaseException) -> End:
    """Type, message and traceback digest of an error: enough to tell failures apart, too little to leak a secret."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    return End(
        attempt,
        "failed",
        {
            "type": type(error).__qualname__,
            "message": printable(str(error)),
            "traceback_digest": hashlib.sha256(frames.encode(errors="replace")).hexdigest()[:16],
        },
    )


def printable(text: str) -> str:
    """Text that jsonb can hold, bounded: foreign messages may carry NULs, lone surrogates or a whole page."""
    safe = text.replace("\x00", "\\0").encode(errors="backslashreplace").decode()
    return safe if len(safe) <= MESSAGE_CHARACTERS_MAX else safe[: MESSAGE_CHARACTERS_MAX - 1] + "…"
