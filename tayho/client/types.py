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
class IntentProgress:
    """How far an intent has come.

    `succeeded` is what its own log on chain said; None until its batch is final. `reason` says why it
    ended without one.
    """

    id: UUID
    digest: bytes
    state: str
    batch_id: UUID | None = None
    child_index: int | None = None
    transaction_hash: bytes | None = None
    succeeded: bool | None = None
    reason: str | None = None
    accepted_at: datetime | None = None
    # Since when it is in this state.
    changed_at: datetime | None = None

    @property
    def is_final(self) -> bool:
        """Whether nothing more will come, but for an operator's replay."""
        return self.state in JOB.terminal


@frozen
class Problem:
    """A problem document (RFC 9457) as it came. `request_id` finds the request in the engine's log."""

    status: int
    code: str
    title: str = ""
    detail: str = ""
    request_id: str | None = None
    document: Mapping[str, Json] = field(factory=dict[str, "Json"], repr=False)
