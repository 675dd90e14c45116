"""Identical questions at the same time share one request, and nothing outlives it."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rpc import methods
from rpc.coalescing import SharedQuestions
from rpc.errors import EndpointFault, Transport
from rpc.hedging import HedgeRules
from rpc.method_traits import is_pinned
from rpc.reads import Call
from tests.rpc import examples
from tests.rpc import faulty_server as faulty
from tests.rpc.faulty_server import Request
from tests.rpc.pools import counts, pool_of, servers
from tests.waiting import until

ADDRESS, HASH = b"\x01" * 20, b"\x11" * 32
PINNED = methods.balance(ADDRESS, 16)
# However busy the machine is, no answer is late enough for a hedge.
UNHURRIED = HedgeRules(seconds_min=60, seconds_max=60, seconds_cold=60)


class Source:
    """Answers when it is let to."""

    def __init__(self, value: object = 1, error: Exception | None = None) -> None:
        self.asked = self.cancelled = 0
        self.open = trio.Event()
        self.value, self.error = value, error

    async def fetch(self, call: Call[object]) -> object:
        self.asked += 1
        try:
            await self.open.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return self.value


async def gathered(shared: SharedQuestions, source: Source, callers: int, call: Call[object]) -> list[object]:
    """What that many callers at once are told."""
    told: list[object] = []

    async def ask() -> None:
        try:
            told.append(await shared.ask(call, source.fetch))
        except EndpointFault as error:
            told.append(error)

    async with trio.open_nursery() as tasks:
        for _ in range(callers):
            tasks.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        source.open.set()
    return told


async def test_a_hundred_who_ask_the_same_send_one_request() -> None:
    """Goal: one request for all. Method: a hundred callers of one pinned question through a pool; the server counts."""
    async with servers() as asked, pool_of(asked, hedges=UNHURRIED) as pool:
        async with trio.open_nursery() as tasks:
            for _ in range(100):
                tasks.start_soon(pool.ask, PINNED)
        assert counts(asked, "eth_getBalance") == [1, 0, 0]
        await pool.ask(PINNED)
        assert counts(asked, "eth_getBalance") == [2, 0, 0], "nothing is kept"


@pytest.mark.parametrize(
    ("call", "pinned"),
    [
        (methods.balance(ADDRESS, 16), True),
        (methods.balance(ADDRESS, HASH), True),
        (methods.balance(ADDRESS, "latest"), False),
        (methods.transaction_count(ADDRESS, "pending"), False),
        (methods.block_by_hash(HASH), True),
        (methods.block_by_number(16), True),
        (methods.block_by_number("finalized"), False),
        (methods.logs((1, 2)), True),
        (methods.logs(HASH), True),
        (methods.block_number(), False),
        (methods.transaction_receipt(HASH), False),
        (methods.send_raw_transaction(b"\x01"), False),
        (Call("eth_getLogs", ({"fromBlock": "0x1", "toBlock": "latest"},), str), False),
        (Call("eth_getBalance", (), str), False),
    ],
)
def test_only_what_names_its_block_is_shared(call: Call[object], pinned: bool) -> None:
    """Goal: who asks about the present is told of what is true after he asked. Method: each kind of question."""
    assert is_pinned(call) is pinned


async def test_a_leader_that_is_cancelled_does_not_take_its_followers_along() -> None:
    """Goal: the first caller's fate is his own. Method: cancel him; the others have the one answer."""
    source, told = Source(7), list[object]()
    async with trio.open_nursery() as background:
        shared = SharedQuestions(background)
        leader = trio.CancelScope()

        async def lead() -> None:
            with leader:
                await shared.ask(PINNED, source.fetch)

        async def follow() -> None:
            told.append(await shared.ask(PINNED, source.fetch))

        async with trio.open_nursery() as tasks:
            tasks.start_soon(lead)
            await trio.testing.wait_all_tasks_blocked()
            tasks.start_soon(follow)
            tasks.start_soon(follow)
            await trio.testing.wait_all_tasks_blocked()
            leader.cancel()
            await trio.testing.wait_all_tasks_blocked()
            source.open.set()
    assert (told, source.asked, source.cancelled) == ([7, 7], 1, 0)
    assert shared.under_way == 0


async def test_when_nobody_waits_the_question_is_cancelled() -> None:
    """Goal: no work for nobody, and who comes next begins anew. Method: cancel all three who wait; ask again."""
    source = Source()
    async with trio.open_nursery() as background:
        shared = SharedQuestions(background)
        async with trio.open_nursery() as callers:
            for _ in range(3):
                callers.start_soon(shared.ask, PINNED, source.fetch)
            await trio.testing.wait_all_tasks_blocked()
            callers.cancel_scope.cancel()
        assert shared.under_way == 0
        await until(lambda: source.cancelled == 1)
        assert await gathered(shared, source, 2, PINNED) == [1, 1]
        assert source.asked == 2


async def test_an_error_is_shared_as_a_copy_for_each() -> None:
    """Goal: all learn of the failure, and no traceback grows with the callers. Method: three callers of a failure."""
    error = EndpointFault("e", Transport("reset"), "eth_getBalance")
    async with trio.open_nursery() as background:
        told = await gathered(SharedQuestions(background), Source(error=error), 3, PINNED)
    assert len({id(one) for one in told}) == 3
    assert {str(one) for one in told} == {str(error)}
    assert error not in told


async def test_who_joins_is_not_told_an_early_null() -> None:
    """Goal: a question from before the block existed does not answer one from after. Method: null, to three callers."""
    call, source = methods.block_by_number(16), Source(None)
    async with trio.open_nursery() as background:
        assert await gathered(SharedQuestions(background), source, 3, call) == [None] * 3
    assert source.asked == 3


async def test_two_readers_of_one_answer_are_not_mixed_up() -> None:
    """Goal: a shared answer is a value of the caller's own type. Method: one question with two readers at once."""

    def other(answer: object) -> object:
        return ("other", answer)

    async with servers() as asked, pool_of(asked) as pool, trio.open_nursery() as tasks:
        told: list[object] = []

        async def ask(call: Call[object]) -> None:
            told.append(await pool.ask(call))

        tasks.start_soon(ask, PINNED)
        tasks.start_soon(ask, Call(PINNED.method, PINNED.params, other))
        await until(lambda: len(told) == 2)
        assert {16, ("other", "0x10")} == set(told)


async def test_a_bug_of_the_reader_reaches_its_callers_and_nobody_else() -> None:
    """Goal: a defect shows where it was asked for and does not end the pool. Method: a reader that raises TypeError."""

    def broken(answer: object) -> object:
        raise TypeError("a defect")

    async with servers() as asked, pool_of(asked) as pool:
        with pytest.raises(TypeError, match="a defect"):
            await pool.ask(Call(PINNED.method, PINNED.params, broken))
        assert await pool.ask(PINNED) == 16


async def test_different_blocks_are_different_questions() -> None:
    """Goal: nothing is shared that differs in one parameter. Method: two heights at once; each has its own header."""

    async def by_height(request: Request) -> None:
        await faulty.answer(lambda call: examples.block(number=call["params"][0]))(request)

    async with servers() as asked, pool_of(asked) as pool:
        asked[0].otherwise = by_height
        found: dict[int, int] = {}

        async def ask(height: int) -> None:
            header = await pool.ask(methods.block_by_number(height))
            assert header is not None
            found[height] = header.number

        async with trio.open_nursery() as tasks:
            for height in (1, 2, 3, 1, 2, 3):
                tasks.start_soon(ask, height)
        assert found == {1: 1, 2: 2, 3: 3}
        assert asked[0].asked("eth_getBlockByNumber") == 3
