"""Questions of many callers at once go out together, each caller with his own answers (RPC-9)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import trio
import trio.testing
from attrs import define, field

from rpc import methods
from rpc.errors import EndpointFault, RpcError, Transport
from rpc.gathering import PARALLEL, GatheredReads
from rpc.reads import Call

AWAY = EndpointFault("node", Transport("connection refused"))
SENDER, CONTRACT = b"\x01" * 20, b"\x02" * 20


def balance(number: int) -> Call[int]:
    return methods.balance(number.to_bytes(20, "big"), 16)


@define
class Node:
    """Answers with the question itself, when it is let to; keeps what came together."""

    requests: list[list[Call[Any]]] = field(factory=list)
    alone: list[Call[Any]] = field(factory=list)
    failing: str = ""
    open: trio.Event = field(factory=trio.Event)

    async def ask(self, call: Call[Any]) -> Any:
        self.alone.append(call)
        await self.open.wait()
        if call.method == self.failing:
            raise AWAY
        return call

    async def ask_many(self, calls: Sequence[Call[Any]]) -> list[Any | RpcError]:
        self.requests.append(list(calls))
        await self.open.wait()
        return [AWAY if call.method == self.failing else call for call in calls]


@asynccontextmanager
async def gathering(node: Node) -> AsyncIterator[GatheredReads]:
    reads = GatheredReads(node)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(reads.run)
        yield reads
        tasks.cancel_scope.cancel()


async def at_once(reads: GatheredReads, asked: Sequence[Call[Any] | Sequence[Call[Any]]], node: Node) -> list[Any]:
    """What each caller was told, in the order of `asked`."""
    told: dict[int, Any] = {}

    async def ask(place: int, one: Call[Any] | Sequence[Call[Any]]) -> None:
        try:
            told[place] = await (reads.ask(one) if isinstance(one, Call) else reads.ask_many(one))
        except RpcError as error:
            told[place] = error

    async with trio.open_nursery() as callers:
        for place, one in enumerate(asked):
            callers.start_soon(ask, place, one)
        await trio.testing.wait_all_tasks_blocked()
        node.open.set()
    return [told[place] for place in range(len(asked))]


async def test_what_is_asked_while_others_wait_goes_out_together() -> None:
    """Goal: few requests, however many callers. Method: a hundred callers beside the first few; each is told his own,
    and one question that all of them have is asked once."""
    node = Node()
    head = methods.block_by_number("latest")
    async with gathering(node) as reads:
        asked = [[balance(number), head] for number in range(100)]
        told = await at_once(reads, asked, node)
    assert [list(own) for own in told] == asked
    assert len(node.requests) <= PARALLEL
    assert all(sum(call == head for call in request) == 1 for request in node.requests)
    assert sum(len(request) for request in node.requests) == 100 + len(node.requests)


async def test_who_comes_alone_is_asked_alone_and_hedged_as_ever() -> None:
    """Goal: an idle system's reads are as they were. Method: one caller, one question."""
    node = Node()
    async with gathering(node) as reads:
        assert await at_once(reads, [balance(1)], node) == [balance(1)]
    assert node.alone == [balance(1)]
    assert not node.requests


async def test_an_answer_to_an_earlier_request_is_nobodys_who_asked_later() -> None:
    """Goal: who asks about the present is told what was true after he asked. Method: a caller asks for the head while
    the same question is under way; it is asked again."""
    node = Node()
    head = methods.block_number()
    async with gathering(node) as reads, trio.open_nursery() as callers:
        for _ in range(2):
            callers.start_soon(reads.ask, head)
            await trio.testing.wait_all_tasks_blocked()
        node.open.set()
    assert node.alone == [head, head]


async def test_the_same_question_read_otherwise_is_asked_apart() -> None:
    """Goal: nobody is told another's type. Method: one question with two readings, asked at once."""
    node = Node()
    as_number = balance(1)
    as_text = cast("Call[Any]", Call(as_number.method, as_number.params, str))
    async with gathering(node) as reads:
        told = await at_once(reads, [[as_number, as_text]], node)
    assert [call.parse for call in told[0]] == [as_number.parse, as_text.parse]
    assert [len(request) for request in node.requests] == [2]


@pytest.mark.parametrize("together", [True, False])
async def test_an_error_is_told_to_those_who_asked_for_it(together: bool) -> None:
    """Goal: one bad answer concerns nobody else. Method: one kind of question fails, asked with others or alone."""
    node = Node(failing="eth_call")
    failing = methods.call(methods.CallRequest(SENDER, CONTRACT, b""), 16)
    asked: list[Call[Any] | Sequence[Call[Any]]] = [failing]
    if together:
        asked += [balance(1), [balance(2), failing]]
    async with gathering(node) as reads:
        told = await at_once(reads, asked, node)
    assert isinstance(told[0], EndpointFault)
    if together:
        assert told[1] == balance(1)
        assert told[2][0] == balance(2)
        assert isinstance(told[2][1], EndpointFault)


async def test_heavy_questions_go_their_own_way() -> None:
    """Goal: nobody waits for another's logs. Method: logs asked alone and among others."""
    node = Node()
    logs = methods.logs((1, 2))
    async with gathering(node) as reads:
        told = await at_once(reads, [logs, [logs, balance(1)], balance(2)], node)
    assert told == [logs, [logs, balance(1)], balance(2)]
    assert sorted(len(request) for request in node.requests) == [2]
    assert logs in node.alone
    assert balance(2) in node.alone
