"""SIGTERM and SIGINT begin the drain; SIGUSR1 shows what the process is doing."""

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


def _dump_task_tree() -> None:
    # A full disk or a closed pipe behind stderr must not let a question end the process.
    with suppress(OSError):
        sys.stderr.write(task_tree())
        sys.stderr.flush()
