"""The tasks of a running Trio loop as a tree a person can read: who runs under whom, and where each one waits."""

from collections.abc import Iterator

import trio
from trio.lowlevel import Task


def task_tree(root: Task | None = None) -> str:
    """One line for each task below `root` (by default of the whole run): its name and the line it waits in.

    Only names, modules and line numbers: no argument and no variable, because those may hold secrets.
    """
    top = root or trio.lowlevel.current_root_task()
    return "" if top is None else "\n".join(_lines(top, "", "")) + "\n"


def _lines(task: Task, branch: str, below: str) -> Iterator[str]:
    """`branch` leads to the task itself, `below` to what is under it."""
    yield f"{branch}{task.name}  {_place(task)}"
    children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    children.sort(key=lambda child: child.name)
    for number, child in enumerate(children, start=1):
        is_last = number == len(children)
        yield from _lines(child, below + ("└─ " if is_last else "├─ "), below + ("   " if is_last else "│  "))


def _place(task: Task) -> str:
    """The innermost line outside Trio: that a task sleeps in Trio is true of every one and tells nothing."""
    places = [
        (frame.f_globals.get("__name__", "?"), frame.f_code.co_name, line) for frame, line in task.iter_await_frames()
    ]
    ours = [place for place in places if not str(place[0]).startswith("trio.")]
    for module, function, line in (ours or places)[-1:]:
        return f"{module}.{function}:{line}"
    return "not started" if not places else ""
