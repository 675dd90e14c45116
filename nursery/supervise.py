"""Named tasks under one supervisor: all run, and the crash of one ends them all with its name."""

from collections.abc import Awaitable, Callable, Mapping

import trio

from nursery.groups import unwrap, unwrapped


class TaskCrashed(Exception):
    """A supervised task raised, and all others were cancelled. `__cause__` is what it raised.

    `others` are the tasks that crashed in the same moment or on the way down, in that order.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"The task {name!r} crashed; every other task of its supervisor was stopped.")
        self.name = name
        self.others: tuple[TaskCrashed, ...] = ()


async def supervise(tasks: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
    """Run all tasks at once, each under its name, until all have returned.

    A cancellation from outside passes through and is no crash. When both happen the crash is raised: its reason
    would else be lost, and the cancelled scope ends either way.

    Raises:
        TaskCrashed: of the first task that raised.
    """
    crashes: list[TaskCrashed] = []
    try:
        with unwrapped():
            async with trio.open_nursery() as running:
                for name, task in tasks.items():
                    running.start_soon(_run, name, task, crashes, running.cancel_scope, name=name)
    finally:
        if crashes:
            raise _gathered(crashes)


async def _run(
    name: str, task: Callable[[], Awaitable[None]], crashes: list[TaskCrashed], siblings: trio.CancelScope
) -> None:
    try:
        await task()
    # Starred, because a task that was cancelled and failed meanwhile raises both at once: the failure is taken
    # here, the cancellation goes on.
    except* Exception as group:  # noqa: BLE001 - raised again by `supervise`
        crash = TaskCrashed(name)
        crash.__cause__ = unwrap(group)
        crashes.append(crash)
        siblings.cancel()
        await trio.lowlevel.checkpoint()


def _gathered(crashes: list[TaskCrashed]) -> TaskCrashed:
    first, *others = crashes
    first.others = tuple(others)
    for other in others:
        first.add_note(f"While it stopped, the task {other.name!r} crashed too: {other.__cause__!r}")
    return first
