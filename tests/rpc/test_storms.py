"""Circuits under storms, counted at the servers (RPC-4): what opens them, what does not, and the one probe."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import trio

from rpc import methods
from rpc.errors import RpcError
from rpc.methods import CallRequest
from rpc.pool import ReadPool
from rpc.reads import Call
from tests.rpc import faulty_server as raw
from tests.rpc.front import behaviours
from tests.rpc.front.front import Front, answer_with, fronts, nodes
from tests.rpc.front.ground import ACCOUNT, CHAIN_ID, CONTRACT, Ground, ground
from tests.waiting import until

pytestmark = pytest.mark.services

COOLDOWN_SECONDS = 0.3
ASKED = "eth_getTransactionCount"
STORM = 40
_RETRY_AFTER_SECONDS = 2


@pytest.fixture(scope="module")
def base() -> Iterator[Ground]:
    with ground() as running:
        yield running


@pytest.fixture
async def three(base: Ground) -> AsyncIterator[list[Front]]:
    async with nodes(base) as both, fronts(both, 3) as endpoints:
        yield endpoints


def pool_over(
    endpoints: list[Front], deadline_seconds: float = 3, head_poll_seconds: float | None = None
) -> AbstractAsyncContextManager[ReadPool]:
    return ReadPool.open(
        [endpoint.url for endpoint in endpoints],
        chain_id=CHAIN_ID,
        cooldown_milliseconds=round(COOLDOWN_SECONDS * 1000),
        deadline_seconds=deadline_seconds,
        head_poll_seconds=head_poll_seconds,
    )


def nonce(height: int) -> Call[int]:
    return methods.transaction_count(ACCOUNT, height)


def state_of(pool: ReadPool, place: int = 0) -> str:
    return pool.status()[place].circuits["state"]


async def ask_in_vain(pool: ReadPool, call: Call[object]) -> None:
    """Ask, whatever comes of it."""
    with suppress(RpcError):
        await pool.ask(call)


STORMS: dict[str, tuple[object, Callable[[int], Call[object]]]] = {
    "reverts": (
        {"code": 3, "message": "execution reverted", "data": "0x"},
        lambda at: methods.call(CallRequest(ACCOUNT, CONTRACT), at),
    ),
    "bare reverts": (
        {"code": -32000, "message": "execution reverted"},
        lambda at: methods.call(CallRequest(ACCOUNT, CONTRACT), at),
    ),
    "invalid params": ({"code": -32602, "message": "invalid argument 0"}, nonce),
    "unknown method": ({"code": -32601, "message": "the method does not exist"}, nonce),
    "too large": ({"code": -32000, "message": "query returned more than 10000 results"}, nonce),
    "header not found": ({"code": -32000, "message": "header not found"}, nonce),
}


@pytest.mark.parametrize("storm", STORMS)
async def test_a_storm_of_refusals_opens_nothing(three: list[Front], storm: str) -> None:
    """Goal: what is the caller's or the chain's own doing is no fault. Method: many at once, at every endpoint."""
    error, question = STORMS[storm]
    for endpoint in three:
        behaviours.refusing(error, {question(1).method})(endpoint)
    async with pool_over(three) as pool:
        async with trio.open_nursery() as callers:
            for at in range(STORM):
                callers.start_soon(ask_in_vain, pool, question(at))
        assert [set(member.circuits.values()) for member in pool.status()] == [{"closed"}] * 3
        assert [member.faults for member in pool.status()] == [0] * 3
        told = sum(endpoint.asked(question(1).method) for endpoint in three)
        assert STORM <= told <= 3 * STORM


async def test_a_storm_of_nulls_opens_nothing(three: list[Front]) -> None:
    """Goal: a receipt that is not there yet is an answer. Method: many unknown transactions, asked at once."""
    async with pool_over(three) as pool:
        async with trio.open_nursery() as callers:
            for at in range(STORM):
                callers.start_soon(ask_in_vain, pool, methods.transaction_receipt(at.to_bytes(32, "big")))
        assert [set(member.circuits.values()) for member in pool.status()] == [{"closed"}] * 3
        assert [member.faults for member in pool.status()] == [0] * 3


def in_two_seconds() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=_RETRY_AFTER_SECONDS), usegmt=True)


def limited(headers: Callable[[], dict[str, str]]) -> raw.Behaviour:
    async def behave(request: raw.Request) -> None:
        await request.respond(b"slow down", status=429, headers=headers())

    return behave


FAULTS: dict[str, raw.Behaviour] = {
    "hang": raw.hang,
    "500": raw.answer_body(b"", status=500),
    "503": raw.answer_body(b"", status=503),
    "503 for 2 s": raw.answer_body(b"", status=503, headers={"retry-after": "2"}),
    "429": limited(dict),
    "429 for 2 s": limited(lambda: {"retry-after": "2"}),
    "429 until a date": limited(lambda: {"retry-after": in_two_seconds()}),
    "429 for 0 s": limited(lambda: {"retry-after": "0"}),
    "closed": raw.close_at_once,
    "HTML": raw.answer_body(b"<html>"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_opens_the_circuit_and_one_probe_closes_it(three: list[Front], fault: str) -> None:
    """Goal: a failing endpoint is left alone, and one question decides when it is back, however many callers wait.

    Method: it fails until its circuit is open; then it hangs on to the first question that comes, while others are
    asked; then it answers that one.
    """
    first = three[0]
    behaviours.always(FAULTS[fault])(first)
    async with pool_over(three, deadline_seconds=1.5) as pool:
        # Asked itself, as votes do: a pool prefers others after its first fault.
        with trio.fail_after(20):
            while state_of(pool) == "closed":
                with suppress(RpcError):
                    await pool.members[0].ask(nonce(1))
        opened = trio.current_time()
        before = first.asked(ASKED)
        await pool.ask(nonce(1))
        assert state_of(pool) != "open" or first.asked(ASKED) == before
        probe = HeldProbe(first)
        await until(lambda: state_of(pool) == "half-open", what="the end of the cooldown")
        waited = trio.current_time() - opened
        if fault in ("429 for 2 s", "503 for 2 s"):
            assert waited >= _RETRY_AFTER_SECONDS - 0.2
        before = first.asked(ASKED)
        async with trio.open_nursery() as callers:
            for height in range(20):
                callers.start_soon(pool.ask, nonce(height))
        await until(lambda: first.asked(ASKED) > before, what="the probe")
        assert first.asked(ASKED) == before + 1
        assert state_of(pool) == "half-open"
        probe.release.set()
        await until(lambda: state_of(pool) == "closed", what="the probe's answer")
        assert first.asked(ASKED) == before + 1


class HeldProbe:
    """From now on the endpoint is honest, once it is told to answer."""

    def __init__(self, front: Front) -> None:
        self.release = trio.Event()
        self._front = front
        front.disarm()
        front.arm(self._behave, {ASKED})

    async def _behave(self, request: raw.Request) -> None:
        await self.release.wait()
        await answer_with(request, await self._front.honest(request))


async def test_an_absurd_retry_after_is_not_obeyed_for_ever(three: list[Front]) -> None:
    """Goal: nobody takes an endpoint away for a year. Method: a header of 20 digits; the pause is bounded."""
    behaviours.always(raw.answer_body(b"", status=429, headers={"retry-after": "9" * 20}))(three[0])
    async with pool_over(three) as pool:
        await pool.ask(nonce(1))
        assert state_of(pool) == "open"
        assert await pool.ask(nonce(2)) == await pool.ask(nonce(3))
        with pytest.raises(RpcError, match=r"\b(600|59\d)\b"):
            await pool.members[0].ask(nonce(4))


async def test_the_last_live_endpoint_is_never_left_alone(three: list[Front]) -> None:
    """Goal: a bad endpoint is more than none. Method: all fail, one stays in use; then that one answers."""
    for endpoint in three:
        behaviours.always(raw.answer_body(b"", status=500))(endpoint)
    async with pool_over(three) as pool:
        for height in range(20):
            await ask_in_vain(pool, nonce(height))
        states = [state_of(pool, place) for place in range(3)]
        assert states.count("closed") >= 1
        three[states.index("closed")].disarm()
        await pool.ask(nonce(21))


async def test_an_endpoint_that_was_down_at_start_is_admitted_when_it_comes(three: list[Front]) -> None:
    """Goal: nothing is decided for ever at start.

    Method: nobody listens at one, and its circuits open; later somebody does; then the others go, and it serves alone.
    """
    first, *others = three
    first.door.shut()
    async with pool_over(three, head_poll_seconds=0.1) as pool:
        await until(lambda: "open" in pool.status()[0].circuits.values(), what="the circuit of who is not there")
        for height in range(20):
            await pool.ask(nonce(height))
        assert first.server.connections_total == 0
        first.door.open()
        await until(lambda: pool.status()[0].is_live and pool.status()[0].head is not None, what="its admission")
        for other in others:
            other.door.shut()
        assert await pool.ask(nonce(30)) == 1
        assert first.asked(ASKED) == 1
