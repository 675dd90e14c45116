"""What a team writes to add its own kind of job: the public plug-in interface.

A kind is registered under the entry-point group `tayho.kinds`; its name is the job's `kind` and its role is the queue
that the job is delivered to. A kind that has `discover` finds its own work, and one that has `schedules` fires by
itself. `docs/writing-a-job-kind.md` walks through one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, cast, runtime_checkable

from attrs import frozen

from rpc.reads import Reads
from rpc.values import Receipt
from storage.connection import Connection
from tayho.kernel.address import Address
from tayho.kernel.discovery import Discovered, Finding, Work
from tayho.kernel.jobs import Completed, Job, NotActionable, RequestRefused
from tayho.kernel.json_document import Json
from tayho.kernel.markets import ProtocolSettings
from tayho.kernel.schedule import Schedule

__all__ = [
    "Actionable",
    "Call",
    "Completed",
    "Discovered",
    "DiscoveringKind",
    "Finding",
    "Job",
    "Kind",
    "NotActionable",
    "OffChainKind",
    "OnChainKind",
    "Reads",
    "ReadsResults",
    "RequestRefused",
    "ResultMissing",
    "Revalidation",
    "Schedule",
    "SettlesOthers",
    "Surroundings",
    "Work",
    "needs_result",
    "prepare",
    "revert_reason_of",
    "schedules_of",
]


@frozen
class Call:
    """The effect that a job asks of the chain: what will be signed, but for nonce, gas and fees."""

    to: Address
    data: bytes
    value_wei: int = 0
    # At least so much gas is signed for, whatever a node estimates, and no buffer on top; 0 leaves it to the estimate.
    gas_limit_min: int = 0


@frozen
class Actionable:
    """The chain's present state still asks for this job's effect."""


Revalidation: TypeAlias = Actionable | NotActionable


@runtime_checkable
class OnChainKind(Protocol):
    """A kind whose jobs end in one transaction.

    It may have more: the methods of ReadsResults, of SettlesOthers, and a `revert_reason`.
    """

    name: str
    role: str

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        """Decide from current chain state whether the effect is still wanted. Called at every attempt, before signing.

        May run on several workers at once and again after a crash: read only, keep nothing.
        """
        ...

    async def call(self, job: Job) -> Call:
        """The call, from the job alone. It is asked once: after the allocation the lineage's own call is what counts.

        Raises RequestRefused where no call can ever come of the request.
        """
        ...


class ResultMissing(Exception):
    """The receipt's logs do not say what they must: the job is held for a person, and nothing is guessed."""


@runtime_checkable
class ReadsResults(Protocol):
    """An OnChainKind that knows what its contract logs."""

    def result_of(self, job: Job, receipt: Receipt) -> Json:
        """What the effect was, kept as `result` of the job's own result. Pure; the receipt is final and succeeded.

        Raises ResultMissing. Whatever else it raises counts as that: it may be asked again by a later release.
        """
        ...


@runtime_checkable
class SettlesOthers(Protocol):
    """A ReadsResults whose transaction carries other jobs too, which end with it."""

    async def settle(self, tx: Connection, job: Job, receipt: Receipt) -> None:
        """End the others in `tx`, which ends the job. Only database work; raises as `result_of`, and StorageError."""
        ...

    async def unsettle(self, tx: Connection, job: Job) -> None:
        """Take back in `tx` what `settle` wrote: a reorganisation took the block away, and the job lives again."""
        ...


@runtime_checkable
class OffChainKind(Protocol):
    """A kind whose jobs sign nothing: scans, projections, audits."""

    name: str
    role: str

    async def run(self, job: Job, reads: Reads) -> Completed | NotActionable:
        """Do the work. It may run again after a crash, on another worker: it must be safe to repeat."""
        ...


Kind: TypeAlias = OnChainKind | OffChainKind


@runtime_checkable
class DiscoveringKind(Protocol):
    """What a kind of either sort has besides where it finds its own work."""

    name: str
    role: str

    async def discover(self, reads: Reads) -> Discovered:
        """One page of the work that the chain asks for now. Called every SCAN_SECONDS on every replica.

        `reads` answers by a majority, all about one agreed head: no single endpoint that lies or lags makes a job.
        Calls of one kind never overlap; what a kind remembers between them is lost at a restart. It may raise whatever
        it likes, and is cut off after `tayho.discovery`'s deadline: it is then asked again at the next look.
        """
        ...


@frozen
class Surroundings:
    """What a kind may know of the process that it runs in."""

    chain_id: int
    environment: str
    protocol: ProtocolSettings


def prepare(kind: Kind, surroundings: Surroundings) -> None:
    """Tell the kind where it runs, by its optional method `prepare(surroundings)`: once, before anything runs."""
    told = cast("Callable[[Surroundings], None] | None", getattr(kind, "prepare", None))
    if told is not None:
        told(surroundings)


def revert_reason_of(kind: Kind, data: bytes) -> str | None:
    """The kind's own name for what its contract reverted with; None where it has none.

    A kind tells it by an optional method `revert_reason(data: bytes) -> str | None`, from the errors of the ABIs that
    it knows. It is for people: whatever it raises on bytes that any contract may have made counts as None.
    """
    told = cast("Callable[[bytes], str | None] | None", getattr(kind, "revert_reason", None))
    if told is None or not data:
        return None
    try:
        return told(data)
    except Exception:  # noqa: BLE001 - somebody else's code on a stranger's bytes, for a text
        return None


def needs_result(kind: Kind) -> bool:
    """Whether jobs of the kind end only with what it reads in the receipt."""
    return isinstance(kind, (ReadsResults, SettlesOthers))


def schedules_of(kind: Kind) -> Sequence[Schedule]:
    """What the kind declares in its optional attribute `schedules`: recurring jobs, see docs/scheduling.md."""
    return cast("Sequence[Schedule]", getattr(kind, "schedules", ()))
