"""Voters of a test: each answers from a chain of its own, lies, is late or silent as it is told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import trio
from attrs import define, evolve, field, fields_dict

from rpc import schemas
from rpc.errors import EndpointFault, Malformed, RpcError, Transport
from rpc.methods import Call
from rpc.quantities import Unreadable
from rpc.values import Header, Log
from tests.rpc import examples

T = TypeVar("T")


@define
class Voter:
    """`answer` gives the JSON of an answer, or the error that is raised for it."""

    shown: str
    answer: Callable[[Call[Any]], object]
    seconds: float = 0
    asked: list[str] = field(factory=list)
    batches: int = 0

    async def ask(self, call: Call[T]) -> T:
        (answer,) = await self.ask_many([call])
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        self.batches += 1
        self.asked += [call.method for call in calls]
        await trio.sleep(self.seconds)
        return [self._read(call) for call in calls]

    def _read(self, call: Call[T]) -> T | RpcError:
        answer = self.answer(call)
        if isinstance(answer, RpcError):
            return answer
        try:
            return call.parse(answer)
        except Unreadable as error:
            return EndpointFault(self.shown, Malformed(str(error)), call.method)


def saying(answer: object) -> Callable[[Call[Any]], object]:
    return lambda _: answer


def away(voter: str = "voter") -> EndpointFault:
    return EndpointFault(voter, Transport("connection refused"))


Blocks = Sequence[Mapping[str, Any]]


def blocks(names: Sequence[str]) -> list[dict[str, Any]]:
    """A chain from genesis: one block a name; two chains that begin with the same names begin with the same blocks."""
    chain: list[dict[str, Any]] = []
    parent = b"\0" * 32
    for height, name in enumerate(names):
        own = hashlib.sha256(parent + name.encode()).digest()
        chain.append(examples.block(number=hex(height), hash=f"0x{own.hex()}", parentHash=f"0x{parent.hex()}"))
        parent = own
    return chain


def serving(chain: Callable[[], Blocks]) -> Callable[[Call[Any]], object]:
    """A node that has these blocks at the time it is asked."""

    def answer(call: Call[Any]) -> object:
        assert call.method == "eth_getBlockByNumber"
        has, height = chain(), call.params[0]
        if height == "latest":
            return has[-1] if has else away()
        place = int(cast("str", height), 16)
        return has[place] if place < len(has) else None

    return answer


def header_of(block: Mapping[str, Any]) -> Header:
    return schemas.header(dict(block))


def forgeries_of(value: Any) -> dict[str, Any]:
    """The value with one field forged, under the field's name, for each of its fields that is voted on."""
    return {name: evolve(value, **{name: _other(getattr(value, name))}) for name in fields_voted(type(value))}


def fields_voted(kind: type) -> list[str]:
    """The fields that make two values of a kind equal or not."""
    return [name for name, attribute in fields_dict(kind).items() if attribute.eq]


def _other(value: object) -> object:
    """The nearest value that is another."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case bytes():
            return value[:-1] + bytes([value[-1] ^ 1]) if value else b"\0"
        case (Log(), *_):
            return value[:-1]
        case tuple():
            return (*value, *value[:1]) or (schemas.log(examples.log()),)
        case _:
            return b"\1" * 32
