"""What the kinds of the reference protocol share: the contract they speak to, how requests and logs are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

import trio
from cattrs import BaseValidationError, Converter, transform_error

from rpc import methods
from rpc.errors import RpcError
from rpc.reads import Reads
from rpc.values import Header, Receipt
from tayho.kernel.address import Address
from tayho.kernel.jobs import Job, RequestRefused
from tayho.kernel.json_document import Json
from tayho.kernel.markets import ProtocolSettings
from tayho.kinds import Call, ResultMissing, Surroundings
from tayho.protocol import abi
from tayho.protocol.artifacts import load

PROTOCOL = load("Protocol")
# eth_call wants a sender; the protocol's views do not look at it.
_ANY_SENDER = bytes(20)
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2}){0,32}", re.ASCII)

R = TypeVar("R")


class RoleRequestRefused(RequestRefused):
    """The job's request is not one of its kind. No later attempt can mend it."""


class ProtocolKind:
    """The base of the protocol's kinds. Until `prepare` has told of a protocol they discover nothing."""

    name: str
    role: str

    def __init__(self) -> None:
        self.settings = ProtocolSettings()

    def prepare(self, surroundings: Surroundings) -> None:
        """Learn which protocol this deployment serves."""
        self.settings = surroundings.protocol

    def revert_reason(self, data: bytes) -> str | None:
        """The protocol's own error, by its name."""
        reason = abi.decode_error(PROTOCOL, data)
        return None if reason is None else str(reason)


async def head_of(reads: Reads) -> Header:
    """The block that the look is about. Raises RpcError."""
    header = await reads.ask(methods.block_by_number("latest"))
    # The reader of the answer refuses a node that has no latest block.
    return cast("Header", header)


async def views(
    reads: Reads, protocol: Address, asked: Sequence[tuple[str, tuple[object, ...]]]
) -> list[tuple[object, ...]]:
    """What functions of the protocol return at the head, in the order asked. Raises RpcError, ResultRefused."""
    answers = await reads.ask_many(
        [
            methods.call(
                methods.CallRequest(_ANY_SENDER, protocol.value, abi.encode_call(PROTOCOL, function, arguments)),
                "latest",
            )
            for function, arguments in asked
        ]
    )
    found: list[tuple[object, ...]] = []
    for (function, _), answer in zip(asked, answers, strict=True):
        if isinstance(answer, RpcError):
            raise answer
        found.append(abi.decode_result(PROTOCOL, function, answer))
    return found


async def view(reads: Reads, protocol: Address, function: str, *arguments: object) -> tuple[object, ...]:
    """What one function returns. Raises RpcError, ResultRefused."""
    (found,) = await views(reads, protocol, [(function, arguments)])
    return found


async def call_of(protocol: Address, function: str, *arguments: object) -> Call:
    """The call of a function. Raises RoleRequestRefused for arguments that do not fit it."""
    # Trio's rule for every async function; a kind that reads nothing is async for the sake of those that do.
    await trio.lowlevel.checkpoint()
    try:
        return Call(to=protocol, data=abi.encode_call(PROTOCOL, function, arguments))
    except abi.ArgumentsRefused as error:
        raise RoleRequestRefused(str(error)) from error


def event_of(receipt: Receipt, protocol: Address, event: str, **expected: object) -> Mapping[str, object]:
    """The one event of the protocol that says what happened. Raises ResultMissing where there is none, or several."""
    topic = abi.event_topic(PROTOCOL, event)
    found = [
        abi.decode_event(PROTOCOL, event, log.topics, log.data)
        for log in receipt.logs
        if log.address == protocol.value and log.topics and log.topics[0] == topic
    ]
    ours = [one for one in found if all(one[name] == value for name, value in expected.items())]
    if len(ours) != 1:
        raise ResultMissing(f"{len(ours)} logs of {event} at {protocol} for what was asked; expected one")
    return ours[0]


def document_of(request: object) -> Mapping[str, Json]:
    """A request as the JSON that its job keeps."""
    return cast("Mapping[str, Json]", _requests.unstructure(request))


def request_of(job: Job, kind: type[R]) -> R:
    """A job's request as the value that it was made from. Raises RoleRequestRefused, which quotes nothing of it."""
    try:
        return _requests.structure(dict(job.request), kind)
    except BaseValidationError as error:
        told = "; ".join(transform_error(error))
        raise RoleRequestRefused(f"the request is none of {job.kind}: {told}") from error


def _whole(value: object, _: type) -> int:
    if type(value) is not int:
        raise ValueError("expected a whole number")
    return value


def _bytes(value: object, _: type) -> bytes:
    if not isinstance(value, str) or _HEX.fullmatch(value) is None:
        raise ValueError("expected 0x and hex digits of 32 bytes at most")
    return bytes.fromhex(value[2:])


def _address(value: object, _: type) -> Address:
    if not isinstance(value, str):
        raise ValueError("expected an address as text")  # noqa: TRY004 - cattrs' own way to say it
    return Address.parse(value)


_requests = Converter(forbid_extra_keys=True)
_requests.register_structure_hook(int, _whole)
_requests.register_structure_hook(bytes, _bytes)
_requests.register_structure_hook(Address, _address)
_requests.register_unstructure_hook(bytes, lambda value: f"0x{value.hex()}")
_requests.register_unstructure_hook(Address, str)
