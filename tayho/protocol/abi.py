"""Calls, results, events and reverts of a contract, to and from bytes (Solidity contract ABI specification).

Values are plain: int, bool, bytes, str, tuples of them, and `Address` for an address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tayho.protocol import codec
from tayho.protocol.types import SELECTOR_BYTES, Artifact, Member, Parameter, RevertReason


class UnknownMember(LookupError):
    """The contract has no function, event or error of that name, or more than one."""


class ArgumentsRefused(ValueError):
    """The arguments do not fit the function. Nothing was encoded."""


class LogRefused(ValueError):
    """The log is not the event that was asked for."""


class ResultRefused(ValueError):
    """The data that came back is no result of the function, as when the account has no such contract."""


def selector(artifact: Artifact, function: str) -> bytes:
    """The four bytes that choose the function. Raises UnknownMember."""
    return _find(artifact, artifact.functions, function).selector


def event_topic(artifact: Artifact, event: str) -> bytes:
    """The first topic of the event's logs: thirty-two bytes. Raises UnknownMember."""
    return _find(artifact, artifact.events, event).topic


def encode_call(artifact: Artifact, function: str, arguments: Sequence[object] = ()) -> bytes:
    """The data of a call. Raises UnknownMember, ArgumentsRefused."""
    member = _find(artifact, artifact.functions, function)
    return member.selector + _encode_arguments(member, arguments)


def encode_deployment(artifact: Artifact, arguments: Sequence[object] = ()) -> bytes:
    """The data of a transaction that creates the contract. Raises ArgumentsRefused."""
    return artifact.bytecode + _encode_arguments(artifact.constructor, arguments)


def decode_call(artifact: Artifact, function: str, data: bytes) -> tuple[object, ...]:
    """The arguments of a call of the function. Raises UnknownMember, ArgumentsRefused for another function's data."""
    member = _find(artifact, artifact.functions, function)
    if data[:SELECTOR_BYTES] != member.selector:
        raise ArgumentsRefused(f"data beginning 0x{data[:SELECTOR_BYTES].hex()} is no call of {member.signature}")
    try:
        return codec.decode(_types(member.inputs), data[SELECTOR_BYTES:])
    except codec.DataRefused as error:
        raise ArgumentsRefused(f"the data of {member.signature}: {error}") from error


def decode_result(artifact: Artifact, function: str, data: bytes) -> tuple[object, ...]:
    """What the function returned, one value per output. Raises UnknownMember, ResultRefused."""
    member = _find(artifact, artifact.functions, function)
    try:
        return codec.decode(_types(member.outputs), data)
    except codec.DataRefused as error:
        raise ResultRefused(f"{artifact.contract}.{member.signature} returned something else: {error}") from error


def decode_event(artifact: Artifact, event: str, topics: Sequence[bytes], data: bytes) -> dict[str, object]:
    """The event's arguments by name, in the order of their declaration.

    An indexed array, tuple, string or bytes comes back as its Keccak hash: the log holds nothing else of it.
    Raises UnknownMember, LogRefused for any log that is not this event.
    """
    member = _find(artifact, artifact.events, event)
    indexed = [parameter for parameter in member.inputs if parameter.indexed]
    plain = [parameter for parameter in member.inputs if not parameter.indexed]
    if not topics or topics[0] != member.topic:
        raise LogRefused(f"the log's first topic is not that of {member.signature}")
    if len(topics) != 1 + len(indexed):
        raise LogRefused(f"{member.signature} has {len(indexed)} indexed arguments; the log has {len(topics) - 1}")
    try:
        values = [_topic_value(parameter, topic) for parameter, topic in zip(indexed, topics[1:], strict=True)]
        values += codec.decode(_types(plain), data)
    except codec.DataRefused as error:
        raise LogRefused(f"a log of {member.signature}: {error}") from error
    by_name = {parameter.name: value for parameter, value in zip(indexed + plain, values, strict=True)}
    return {parameter.name: by_name[parameter.name] for parameter in member.inputs}


def decode_error(artifact: Artifact, data: bytes) -> RevertReason | None:
    """Which of the contract's own errors a call reverted with, or None when the data is none of them.

    What the compiler raises by itself, `Error(string)` and `Panic(uint256)`, is told by `rpc.reverts`. A called
    contract may forward any bytes as its own revert, so unreadable data is an ordinary case, and a readable reason
    is a hint for people: nothing is decided on it.
    """
    member = next((known for known in artifact.errors.values() if known.selector == data[:SELECTOR_BYTES]), None)
    if member is None:
        return None
    try:
        values = codec.decode(_types(member.inputs), data[SELECTOR_BYTES:])
    except codec.DataRefused:
        return None
    return RevertReason(member.name, dict(zip((parameter.name for parameter in member.inputs), values, strict=True)))


def _find(artifact: Artifact, members: Mapping[str, Member], name: str) -> Member:
    try:
        return members[name]
    except KeyError as error:
        known = ", ".join(sorted({member.signature for member in members.values()})) or "none"
        raise UnknownMember(f"{artifact.contract} has no single {name!r}; it has {known}") from error


def _types(parameters: Sequence[Parameter]) -> list[str]:
    return [parameter.type_name for parameter in parameters]


def _encode_arguments(member: Member, arguments: Sequence[object]) -> bytes:
    try:
        return codec.encode(_types(member.inputs), arguments)
    except codec.ValueRefused as error:
        raise ArgumentsRefused(f"{member.signature}: {error}") from error


def _topic_value(parameter: Parameter, topic: bytes) -> object:
    if not codec.is_held_in_topic(parameter.type_name):
        return topic
    (value,) = codec.decode([parameter.type_name], topic)
    return value
