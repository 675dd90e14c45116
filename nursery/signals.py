"""SIGTERM and SIGINT begin the drain; SIGUSR1 shows what the process is doing. As PID 1 a signal needs more care."""

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

import trio

from nursery.drain import Drain
from nursery.task_tree import task_tree


async def watch_signals(drain: Drain, *, on_repeat: Callable[[str], None] | None = None) -> None:
    """Turn this process's signals into calls, until cancelled. Run it in the main thread.

    The first SIGTERM or SIGINT requests the drain with the signal's name as reason. A further one is only told to
    `on_repeat`: an impatient orchestrator or a second Ctrl-C must not cut off work whose effects are half done; the
    drain's own deadline ends it. SIGUSR1 writes the task tree to stderr.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGUSR1) as signals:
        async for number in signals:
            name = signal.Signals(number).name
            if number == signal.SIGUSR1:
                _dump_task_tree()
            elif not drain.requested:
                drain.request(name)
            elif on_repeat is not None:
                on_repeat(name)


def act_as_init(*, starts_children: bool) -> None:
    """Make a process that is PID 1 of a container end and reap as any other would; do nothing where it is not PID 1.

    The kernel spares PID 1 from every signal that it has no handler for: a SIGTERM before the drain is watched would be
    lost, and the container killed at the end of its grace period. The handler here does what the kernel else does.
    Orphans of whatever was executed in the container become children of PID 1. One that starts none of its own leaves
    them to the kernel, and no zombie stays.
    """
    if os.getpid() != 1:
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end_at_once)
    if not starts_children:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def _end_at_once(number: int, _frame: object) -> None:
    # Nothing is begun yet, and what a crash leaves is made good anyway. Not sys.exit: the loop may be anywhere.
    os._exit(128 + number)


def _dump_task_tree() -> None:
    # A full disk or a closed pipe behind stderr must not let a question end the process.
    with suppress(OSError):
        sys.stderr.write(task_tree())
        sys.stderr.flush()
