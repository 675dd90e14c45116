"""The task tree: who runs under whom, where each waits, and no values."""

import trio
import trio.testing

from nursery.task_tree import task_tree


async def test_tree_shows_names_nesting_and_the_waiting_line() -> None:
    """Goal: readable by a person at night. Method: two levels of named tasks; compare the shape exactly."""

    async def parent(password: str) -> None:
        async with trio.open_nursery() as children:
            children.start_soon(trio.sleep_forever, name="outbox")
            children.start_soon(wait_with, password, name="reconciler")

    async def wait_with(password: str) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as tasks:
        tasks.start_soon(parent, "hunter2", name="roles")
        tasks.start_soon(trio.sleep_forever, name="signals")
        await trio.testing.wait_all_tasks_blocked()
        lines = task_tree(trio.lowlevel.current_task()).splitlines()
        whole = task_tree()
        tasks.cancel_scope.cancel()
    assert [line.split("  ")[0] for line in lines[1:] if "─ " in line and line.startswith(("├", "└"))] == [
        "├─ roles",
        "└─ signals",
    ]
    assert [line.split("─ ")[1].split("  ")[0] for line in lines[1:]] == ["roles", "outbox", "reconciler", "signals"]
    assert lines[2].startswith("│  ├─ outbox")
    assert lines[3].startswith("│  └─ reconciler")
    assert f"{__name__}.wait_with:" in lines[3]
    assert "hunter2" not in whole
    assert "reconciler" in whole


async def test_task_not_yet_begun_is_shown() -> None:
    """Goal: a task without a frame does not break the dump. Method: dump before the child's first step."""
    async with trio.open_nursery() as tasks:
        tasks.start_soon(trio.sleep_forever, name="fresh")
        assert "fresh" in task_tree(trio.lowlevel.current_task())
        tasks.cancel_scope.cancel()
