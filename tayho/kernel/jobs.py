"""A job, its attempt, and how an attempt may end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from attrs import frozen

from tayho.kernel.json_document import Json


@frozen
class Job:
    """One durable unit of work, as it stood when the attempt began."""

    job_id: UUID
    chain_id: int
    environment: str
    role: str
    kind: str
    idempotency_key: str
    request: Mapping[str, Json]
    generation: int
    # True from the allocation of a nonce until its lineage has ended: such a job is never discarded (DLV-8).
    has_live_lineage: bool
    created_at: datetime


@frozen
class Attempt:
    """One execution of a job by one worker under one execution token. All three fence every change of state (DLV-6)."""

    job_id: UUID
    attempt_number: int
    token: str
    worker_id: UUID


@frozen
class Completed:
    """The work is done and needed no transaction."""

    result: Json = None


@frozen
class NotActionable:
    """The chain's present state asks for nothing: the job ends without an effect."""

    reason: str


@frozen
class Ended:
    """The attempt has been ended already, by the database transaction that recorded its effect."""


@frozen
class Quarantined:
    """The request can never be carried out, whatever the chain does: it is set aside for a person, at once."""

    reason: str


@frozen
class Postponed:
    """Nothing was tried (no open lane, drain): the job returns to the queue and no attempt is spent."""

    reason: str
    delay_seconds: int = 1


Outcome: TypeAlias = Completed | NotActionable | Quarantined | Ended | Postponed


class RequestRefused(Exception):
    """What a job asks for can never be carried out: its request is malformed, or breaks the signing policy.

    A kind raises it from `revalidate`, `call` or `run`; the job ends `quarantined` and no later attempt is made.
    """


class StaleAttempt(Exception):
    """The attempt is no longer the job's current one: another worker holds it, or it has ended. Nothing was changed."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(
            f"attempt {attempt.attempt_number} of job {attempt.job_id} is not current any more; its result is discarded"
        )
        self.attempt = attempt
