"""The bridge: results and errors cross unchanged, cancellation crosses in one direction only."""

import asyncio
import contextvars
from contextlib import suppress

import pytest
import trio
import trio.testing

from nursery.asyncio_bridge import BridgeClosed, ForeignCancelled, open_bridge, run_asyncio
from tests.nursery.cancelling import cancelled_at_each_await


async def test_result_arguments_and_running_loop_reach_the_coroutine() -> None:
    """Goal: the function runs as in asyncio. Method: it asks for its loop and task, and returns its arguments."""

    async def asked(first: int, *, second: int) -> tuple[int, int, bool]:
        await asyncio.sleep(0)
        return first, second, asyncio.get_running_loop().is_running() and asyncio.current_task() is not None

    async with open_bridge():
        assert await run_asyncio(asked, 1, second=2) == (1, 2, True)


async def test_function_that_builds_its_awaitable_on_the_running_loop() -> None:
    """Goal: the call itself happens inside asyncio. Method: a plain function that makes a future of that loop."""

    def future_of_three() -> "asyncio.Future[int]":
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.set_result, 3)
        return future

    async with open_bridge():
        assert await run_asyncio(future_of_three) == 3


async def test_context_variables_cross() -> None:
    """Goal: log context set in Trio is seen in asyncio. Method: read one there."""
    variable = contextvars.ContextVar[str]("variable")
    variable.set("from trio")

    async def read() -> str:
        await asyncio.sleep(0)
        return variable.get()

    async with open_bridge():
        assert await run_asyncio(read) == "from trio"


async def test_error_keeps_type_and_cause() -> None:
    """Goal: errors cross as they are. Method: raise one with a cause."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("absent") from OSError("below")

    async with open_bridge():
        with pytest.raises(LookupError, match="absent") as caught:
            await run_asyncio(fail)
    assert isinstance(caught.value.__cause__, OSError)


async def test_group_of_one_is_unwrapped_and_keeps_cause_and_context() -> None:
    """Goal: an asyncio.TaskGroup's lone error arrives bare. Method: two nested groups around an error with a cause."""
    cause = OSError("below")

    async def fail() -> None:
        await asyncio.sleep(0)
        try:
            raise cause
        except OSError:
            raise LookupError("absent") from cause

    async def grouped() -> None:
        async with asyncio.TaskGroup() as outer:

            async def inner() -> None:
                async with asyncio.TaskGroup() as group:
                    group.create_task(fail())
                    group.create_task(asyncio.sleep(0))

            outer.create_task(inner())

    async with open_bridge():
        with pytest.raises(LookupError) as caught:
            await run_asyncio(grouped)
    assert caught.value.__cause__ is cause
    assert caught.value.__context__ is cause


async def test_group_of_several_stays_a_group() -> None:
    """Goal: no error is dropped. Method: a group of two."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ExceptionGroup("two", [LookupError("a"), OSError("b")])

    async with open_bridge():
        with pytest.RaisesGroup(LookupError, OSError):
            await run_asyncio(fail)


async def test_trio_cancellation_cancels_and_waits_for_the_asyncio_cleanup() -> None:
    """Goal: the scope is not left before asyncio's own cleanup has ended. Method: a cleanup of several loop turns."""
    entered = trio.Event()
    steps: list[str] = []

    async def held() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            steps.append("cancelled")
            for _ in range(5):
                await asyncio.sleep(0)
            steps.append("cleaned")
            raise

    async with open_bridge(), trio.open_nursery() as tasks:
        tasks.start_soon(run_asyncio, held)
        await entered.wait()
        tasks.cancel_scope.cancel()
    assert tasks.cancel_scope.cancelled_caught
    assert steps == ["cancelled", "cleaned"]


async def test_task_that_finishes_in_spite_of_the_cancellation_gives_its_result() -> None:
    """Goal: a result that exists is not thrown away (a COMMIT may be answered). Method: swallow the cancellation."""

    async def stubborn() -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "committed"

    answers: list[str] = []

    async def ask() -> None:
        answers.append(await run_asyncio(stubborn))

    async with open_bridge(), trio.open_nursery() as tasks:
        tasks.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert answers == ["committed"]


async def test_error_of_the_cleanup_is_raised() -> None:
    """Goal: a rollback that fails is heard of. Method: raise while handling the cancellation."""

    async def fails_to_clean() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ConnectionError("gone")

    async with open_bridge():
        with trio.move_on_after(0.01), pytest.raises(ConnectionError, match="gone"):
            await run_asyncio(fails_to_clean)


async def test_foreign_cancellation_is_an_ordinary_exception() -> None:
    """Goal: asyncio's own cancellation kills one caller, not the nursery. Method: a task cancels itself; the sibling
    of the caller must live on."""

    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    sibling_done = trio.Event()

    async def sibling() -> None:
        await trio.testing.wait_all_tasks_blocked()
        sibling_done.set()

    async with open_bridge(), trio.open_nursery() as tasks:
        tasks.start_soon(sibling)
        with pytest.raises(ForeignCancelled, match="cancels_itself") as caught:
            await run_asyncio(cancels_itself)
        await sibling_done.wait()
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert isinstance(caught.value, Exception)


async def test_foreign_cancellation_inside_a_group_is_found() -> None:
    """Goal: no CancelledError crosses in disguise. Method: wrap one in a group of one."""

    async def disguised() -> None:
        await asyncio.sleep(0)
        raise BaseExceptionGroup("one", [asyncio.CancelledError()])

    async with open_bridge():
        with pytest.raises(ForeignCancelled):
            await run_asyncio(disguised)


async def test_trio_cancellation_wins_over_a_later_foreign_one() -> None:
    """Goal: our own cancellation is never reported as foreign. Method: while cleaning up after ours, the task raises
    a CancelledError of another origin."""

    async def both() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            raise asyncio.CancelledError("another")

    async with open_bridge():
        with trio.move_on_after(0.01) as scope:
            await run_asyncio(both)
    assert scope.cancelled_caught


async def test_cancelled_scope_does_not_begin_the_work() -> None:
    """Goal: nothing is sent after the caller was cancelled. Method: enter under a cancelled scope."""
    begun: list[bool] = []

    async def work() -> None:
        begun.append(True)
        await asyncio.sleep(0)

    async with open_bridge():
        with trio.CancelScope() as scope:
            scope.cancel()
            await run_asyncio(work)
    assert scope.cancelled_caught
    assert begun == []


async def test_outside_a_bridge_is_refused_with_the_way_out() -> None:
    """Goal: a clear refusal. Method: call with no bridge, and in a task that outlived its bridge."""

    async def work() -> None:
        await asyncio.sleep(0)
        raise AssertionError("must not run")

    with pytest.raises(BridgeClosed, match="open_bridge"):
        await run_asyncio(work)

    bridge_left = trio.Event()

    async def outlives() -> None:
        await bridge_left.wait()
        with pytest.raises(BridgeClosed):
            await run_asyncio(work)

    async with trio.open_nursery() as tasks:
        async with open_bridge():
            tasks.start_soon(outlives)
            await trio.testing.wait_all_tasks_blocked()
        bridge_left.set()


async def test_caller_that_outlives_the_bridge_is_not_left_waiting() -> None:
    """Goal: closing the bridge ends every call in it. Method: leave the bridge under a call that waits for ever."""
    failures: list[BaseException] = []

    async def waits_for_ever() -> None:
        try:
            await run_asyncio(asyncio.Event().wait)
        except ForeignCancelled as error:
            failures.append(error)

    with trio.fail_after(5):
        async with trio.open_nursery() as tasks, open_bridge():
            tasks.start_soon(waits_for_ever)
            await trio.testing.wait_all_tasks_blocked()
    assert len(failures) == 1


async def test_error_of_the_body_leaves_the_bridge_bare() -> None:
    """Goal: callers of open_bridge need no except*. Method: raise with a cause through it."""
    cause = OSError("below")

    async def body() -> None:
        async with open_bridge():
            await trio.lowlevel.checkpoint()
            raise LookupError("absent") from cause

    with pytest.raises(LookupError) as caught:
        await body()
    assert caught.value.__cause__ is cause


async def test_leaving_the_bridge_cancels_what_libraries_left_running() -> None:
    """Goal: no asyncio task survives. Method: leave one behind and look at its end."""
    ended: list[str] = []
    left_behind: set[asyncio.Task[None]] = set()

    async def background() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def leave_one() -> None:
        left_behind.add(asyncio.get_running_loop().create_task(background()))
        await asyncio.sleep(0)

    async with open_bridge():
        await run_asyncio(leave_one)
        assert ended == []
    assert ended == ["ended"]


async def test_what_is_held_is_given_back_when_cancelled_at_every_await() -> None:
    """Goal: an asyncio resource is released whichever await is cut. Method: cancel at each await in turn."""
    held: list[int] = []

    async def hold() -> None:
        lock = asyncio.Lock()
        async with lock:
            held.append(1)
            try:
                await asyncio.sleep(0)
                await asyncio.sleep(0.001)
            finally:
                await asyncio.sleep(0)
                held.pop()

    async def work() -> None:
        for _ in range(3):
            await run_asyncio(hold)

    async with open_bridge():
        runs = 0
        async for _ in cancelled_at_each_await(work):
            runs += 1
            assert held == []
    assert runs == 4


async def test_bridge_cancelled_at_every_await_of_its_owner() -> None:
    """Goal: opening and closing survive cancellation at any point. Method: cancel at each await of a whole life."""

    async def life() -> None:
        async with open_bridge():
            await run_asyncio(asyncio.sleep, 0)

    with trio.fail_after(10):
        async for _ in cancelled_at_each_await(life):
            with pytest.raises(BridgeClosed):
                await run_asyncio(asyncio.sleep, 0)
