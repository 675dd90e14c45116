"""Supervision: all run under their names, one crash ends all with its reason."""

import pytest
import trio
import trio.testing

from nursery.supervise import TaskCrashed, supervise
from tests.nursery.cancelling import cancelled_at_each_await


async def test_returns_when_every_task_has_returned() -> None:
    """Goal: tasks run together and an early return is no crash. Method: two tasks that need each other, in turn."""
    asked, answered = trio.Event(), trio.Event()

    async def asks() -> None:
        asked.set()
        await answered.wait()

    async def answers() -> None:
        await asked.wait()
        answered.set()

    with trio.fail_after(5):
        await supervise({"asks": asks, "answers": answers})
        await supervise({})


async def test_trio_tasks_carry_the_names() -> None:
    """Goal: the task tree is readable. Method: each task reads its own name."""
    names: list[str] = []

    async def tell() -> None:
        await trio.lowlevel.checkpoint()
        names.append(trio.lowlevel.current_task().name)

    await supervise({"outbox": tell, "reconciler": tell})
    assert sorted(names) == ["outbox", "reconciler"]


async def test_crash_cancels_the_others_and_arrives_bare_with_name_and_cause() -> None:
    """Goal: one reason, with its name. Method: one task fails beside one that would run for ever."""
    stopped: list[str] = []
    cause = LookupError("absent")

    async def fails() -> None:
        await trio.lowlevel.checkpoint()
        raise cause

    async def runs() -> None:
        try:
            await trio.sleep_forever()
        finally:
            stopped.append("runs")

    with pytest.raises(TaskCrashed, match="'outbox'") as caught:
        await supervise({"runs": runs, "outbox": fails})
    assert caught.value.name == "outbox"
    assert caught.value.__cause__ is cause
    assert caught.value.others == ()
    assert stopped == ["runs"]


async def test_cause_is_taken_out_of_the_tasks_own_nurseries() -> None:
    """Goal: the reason is the error, not a group around it. Method: a task that fails inside two nurseries."""

    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise LookupError("absent")

    async def nested() -> None:
        async with trio.open_nursery() as outer, trio.open_nursery() as inner:
            outer.start_soon(trio.sleep_forever)
            inner.start_soon(fail)

    with pytest.raises(TaskCrashed) as caught:
        await supervise({"nested": nested})
    assert isinstance(caught.value.__cause__, LookupError)


async def test_crash_on_the_way_down_is_attached_to_the_first() -> None:
    """Goal: no second reason is lost, the first stays first. Method: the sibling fails while it is being stopped."""

    async def fails() -> None:
        await trio.testing.wait_all_tasks_blocked()
        raise LookupError("first")

    async def fails_when_stopped() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("second")

    with pytest.raises(TaskCrashed) as caught:
        await supervise({"second": fails_when_stopped, "first": fails})
    assert caught.value.name == "first"
    (other,) = caught.value.others
    assert (other.name, type(other.__cause__)) == ("second", OSError)
    assert any("second" in note for note in caught.value.__notes__)


async def test_outer_cancellation_passes_and_is_no_crash() -> None:
    """Goal: a stop is not a failure. Method: cancel from outside."""
    with trio.CancelScope() as scope:
        scope.cancel()
        await supervise({"runs": trio.sleep_forever})
    assert scope.cancelled_caught


async def test_crash_during_an_outer_cancellation_is_not_hidden() -> None:
    """Goal: the reason survives the stop. Method: a task that answers the cancellation with an error, once alone and
    once in one group with the cancellation itself."""

    async def fails_when_stopped() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise LookupError("absent")

    async def fails_beside_a_cancelled_child() -> None:
        async with trio.open_nursery() as children:
            children.start_soon(trio.sleep_forever)
            await fails_when_stopped()

    for task in (fails_when_stopped, fails_beside_a_cancelled_child):
        scope = trio.CancelScope()
        scope.cancel()
        with pytest.raises(TaskCrashed) as caught, scope:
            await supervise({"fails": task, "runs": trio.sleep_forever})
        assert isinstance(caught.value.__cause__, LookupError)


async def test_no_task_survives_a_cancellation_at_any_await() -> None:
    """Goal: nothing runs on after supervise has ended. Method: cancel at each await and count the living."""
    living: list[int] = []

    async def short() -> None:
        living.append(1)
        try:
            for _ in range(3):
                await trio.lowlevel.checkpoint()
        finally:
            living.pop()

    async def work() -> None:
        await supervise({"a": short, "b": short})

    async for _ in cancelled_at_each_await(work):
        assert living == []
