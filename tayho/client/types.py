"""What the engine answers, as values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from attrs import field, frozen

from tayho.kernel.json_document import Json
from tayho.kernel.transitions import JOB


@frozen
class Taken:
    """An intent that the engine has recorded. `created` is false where it had it already, as after a repetition."""

    id: UUID
    digest: bytes
    state: str
    created: bool


@frozen
class PlaceInBatch:
    """The batch that carries an intent. `succeeded` is what its own log on the chain said; None until that is final."""

    id: UUID
    index: int
    succeeded: bool | None = None


@frozen
class IntentProgress:
    """How far an intent has come, since `changed_at`.

    `result` is what is kept of its success, the transaction's hash among it; `error` of its last failure: JSON, as the
    engine has it.
    """

    id: UUID
    digest: bytes
    state: str
    accepted_at: datetime
    changed_at: datetime
    batch: PlaceInBatch | None = None
    result: object = None
    error: object = None

    @property
    def is_final(self) -> bool:
        """Whether nothing is left to do. A reorganisation, or an operator, may still take an end back."""
        return self.state in JOB.terminal

    @property
    def has_succeeded(self) -> bool:
        """Whether the chain has executed it, finally."""
        return self.batch is not None and self.batch.succeeded is True


@frozen
class Problem:
    """A problem document (RFC 9457) as it came. `request_id` finds the request in the engine's log."""

    status: int
    code: str
    title: str = ""
    detail: str = ""
    request_id: str | None = None
    document: Mapping[str, Json] = field(factory=dict[str, "Json"], repr=False)
