"""The job kinds of the reference counter: the smallest complete example of `tayho.kinds`.

A request is `{"contract": "0x…"}`, with `"job": "0x…"` (thirty-two bytes) to record another id than the job's own. By
default one job has one event id, so duplicates are counted from the chain's logs alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast
from uuid import UUID

import trio
from attrs import frozen

from rpc import methods
from rpc.reads import Reads
from tayho.kernel.address import Address, AddressRefused
from tayho.kernel.jobs import Job, NotActionable, RequestRefused
from tayho.kernel.json_document import Json
from tayho.kinds import Actionable, Call, Revalidation
from tayho.protocol import abi, artifacts
from tayho.protocol.types import Artifact, Recorded

EVENT_ID_BYTES = 32
_EVENT_ID_TEXT = re.compile(f"0x[0-9a-fA-F]{{{2 * EVENT_ID_BYTES}}}")
# eth_call wants a sender; the counter's views do not look at it.
_ANY_SENDER = bytes(20)


class CounterRequestRefused(RequestRefused):
    """The job's request is not one of a counter kind. No later attempt can mend it."""


class CounterRecord:
    """`counter.record`: one more record, whatever was recorded before.

    It has no guard of its own on purpose. That a job is recorded once is the coordinator's promise, and this kind is
    how the promise is measured.
    """

    name: str = "counter.record"
    role: str = "automation"

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        """Always wanted, where there is a counter to call.

        A call to an account without code succeeds and does nothing: such a job would complete without its effect.
        Raises CounterRequestRefused, ResultRefused when no counter answers at the address, RpcError.
        """
        await _view(reads, _read_request(job).contract, "count")
        return Actionable()

    async def call(self, job: Job) -> Call:
        """Raises CounterRequestRefused."""
        return await _call(job, "record")


class CounterRecordOnce:
    """`counter.record_once`: a record of an event id that has none yet; the contract refuses another."""

    name: str = "counter.record_once"
    role: str = "automation"

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        """Wanted until the event id is recorded, by whomever.

        Raises CounterRequestRefused, ResultRefused when no counter answers at the address, RpcError.
        """
        request = _read_request(job)
        (is_recorded,) = await _view(reads, request.contract, "recorded", [request.event_id])
        if is_recorded:
            return NotActionable(f"0x{request.event_id.hex()} is already recorded at {request.contract}")
        return Actionable()

    async def call(self, job: Job) -> Call:
        """Raises CounterRequestRefused."""
        return await _call(job, "recordOnce")

    def revert_reason(self, data: bytes) -> str | None:
        """The counter's own error, by its name."""
        reason = abi.decode_error(_artifact(), data)
        return None if reason is None else str(reason)


def event_id(job_id: UUID) -> bytes:
    """A job's own event id: the sixteen bytes of its UUID, padded with zeros on the left."""
    return job_id.bytes.rjust(EVENT_ID_BYTES, b"\x00")


def read_recorded(topics: Sequence[bytes], data: bytes) -> Recorded:
    """The event that a log of the counter tells of. Whose log it is, the caller checks. Raises LogRefused."""
    values = abi.decode_event(_artifact(), "Recorded", topics, data)
    return Recorded(
        event_id=cast("bytes", values["jobId"]),
        sender=cast("Address", values["sender"]),
        count=cast("int", values["count"]),
    )


@frozen
class _Request:
    contract: Address
    event_id: bytes


def _artifact() -> Artifact:
    return artifacts.load("Counter")


def _read_request(job: Job) -> _Request:
    unknown = job.request.keys() - {"contract", "job"}
    if unknown:
        raise CounterRequestRefused(
            f"a {job.kind} request has no {', '.join(sorted(unknown))}; it has contract and job"
        )
    named = job.request.get("job")
    return _Request(
        contract=_read_contract(job.request),
        event_id=event_id(job.job_id) if named is None else _read_event_id(named),
    )


def _read_contract(request: Mapping[str, Json]) -> Address:
    text = request.get("contract")
    if not isinstance(text, str):
        raise CounterRequestRefused("contract is the counter's address, as 0x and 40 hex digits")
    try:
        return Address.parse(text)
    except AddressRefused as error:
        raise CounterRequestRefused(f"contract: {error}") from error


def _read_event_id(named: Json) -> bytes:
    # A pattern, because bytes.fromhex also takes spaces between the digits.
    if not isinstance(named, str) or _EVENT_ID_TEXT.fullmatch(named) is None:
        raise CounterRequestRefused(f"job is an event id, as 0x and {2 * EVENT_ID_BYTES} hex digits; found {named!r}")
    return bytes.fromhex(named.removeprefix("0x"))


async def _call(job: Job, function: str) -> Call:
    # Trio's rule for every async function; a kind that reads nothing is async for the sake of those that do.
    await trio.lowlevel.checkpoint()
    request = _read_request(job)
    return Call(to=request.contract, data=abi.encode_call(_artifact(), function, [request.event_id]))


async def _view(reads: Reads, contract: Address, function: str, arguments: Sequence[object] = ()) -> tuple[object, ...]:
    data = abi.encode_call(_artifact(), function, arguments)
    answer = await reads.ask(methods.call(methods.CallRequest(_ANY_SENDER, contract.value, data), "latest"))
    return abi.decode_result(_artifact(), function, answer)
