"""Drawing schedules from a seed, running them, and telling the one that failed with the word that runs it again."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import hypothesis
import trio
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as draw

# As a word of `tests.simulation.*.operations` makes it: a list of operations, each its name and its arguments.
Schedule: TypeAlias = "list[tuple[Any, ...]]"

SOAK = "TAYHO_SOAK_SCHEDULES"
SEED = "TAYHO_SOAK_SEED"
REPLAY = "TAYHO_REPLAY"
BASE_SEED = 20_261_201


def soak(
    part: int,
    parts: int,
    schedules: draw.SearchStrategy[Schedule],
    ordinary: int,
    run: Callable[[Schedule], Counter[str]],
) -> None:
    """Run this part of the schedules: `ordinary` in all parts together, or as many as TAYHO_SOAK_SCHEDULES says."""
    count = -(-int(os.environ.get(SOAK, ordinary)) // parts)
    seed = int(os.environ.get(SEED, BASE_SEED)) + part
    done: Counter[str] = Counter()
    began_at = time.monotonic()
    try:
        _property(schedules, lambda schedule: done.update(run(schedule)), count, seed)()
    finally:
        seconds = time.monotonic() - began_at
        operations = done.total() - done["schedules"]
        _tell(f"seed {seed}: {done['schedules']} schedules, {operations} operations in {seconds:.0f} s: {dict(done)}")


def played(main: Callable[[], Awaitable[Counter[str]]], schedule: Schedule) -> Counter[str]:
    """Run one schedule; how often each operation ran. A failure tells the schedule."""
    try:
        return trio.run(main) + Counter(schedules=1)
    except BaseException as error:
        # No word of a schedule has a double quote or a dollar in it.
        told = f'TAYHO_REPLAY="{schedule}"'
        _tell(f"{told}\n{''.join(traceback.format_exception(error))}")
        error.add_note(told)
        raise


def _tell(line: str) -> None:
    """To whoever runs it with `-s`, and into the report of a failure."""
    sys.stderr.write(f"\n{line}\n")
    sys.stderr.flush()


def _property(
    schedules: draw.SearchStrategy[Schedule], check: Callable[[Schedule], None], count: int, seed: int
) -> Callable[[], None]:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink) if SOAK not in os.environ else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @hypothesis.given(schedules)
    def holds(schedule: Schedule) -> None:
        check(schedule)

    return holds
