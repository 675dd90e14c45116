"""Random schedules of work, faults, races and people over several replicas (PRF-3): every promise holds.

`make soak` runs many more. A failing schedule is printed; TAYHO_REPLAY runs it again:

    TAYHO_REPLAY="[('start',), …]" .venv/bin/pytest -s tests/simulation/delivery -k printed
"""

from __future__ import annotations

import logging
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator

import hypothesis
import pytest
import structlog
import trio
from hypothesis import HealthCheck, Phase

from tests.simulation.delivery.driver import Servers, driver
from tests.simulation.delivery.operations import SCHEDULES, Schedule, parse

pytestmark = pytest.mark.services

SOAK = "TAYHO_SOAK_SCHEDULES"
SEED = "TAYHO_SOAK_SEED"
REPLAY = "TAYHO_REPLAY"
PARTS = 5
SCHEDULES_ORDINARY = 100
BASE_SEED = 20_261_201


@pytest.fixture
def quiet() -> Iterator[None]:
    """A hundred schedules of faults log more than anybody reads; a replayed one logs all."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("part", range(PARTS))
def test_random_schedules_come_to_rest_as_the_model_says(servers: Servers, part: int) -> None:
    """Goal: I6, I7, I8 and DLV-4 under any interleaving. Method: schedules drawn from a seed; every moment is checked
    in PostgreSQL while they run, and every job, effect and queue once they are at rest."""
    count = int(os.environ.get(SOAK, SCHEDULES_ORDINARY)) // PARTS
    base = int(os.environ.get(SEED, BASE_SEED))
    done: Counter[str] = Counter()
    began_at = time.monotonic()
    try:
        _property(lambda schedule: done.update(run(servers, schedule)), count, base + part)()
    finally:
        seconds = time.monotonic() - began_at
        operations = done.total() - done["schedules"]
        told = f"seed {base + part}: {done['schedules']} schedules, {operations} operations in {seconds:.0f} s"
        _tell(f"{told}: {dict(done)}")


# The smallest inputs of what was found, and of what chance seldom finds.
KNOWN: dict[str, Schedule] = {
    "every record is delayed for an hour": [
        ("enqueue_many", [(0, "complete", "", 1, 0), (1, "fail:1", "tenant-a", 1_000, 0)]),
        ("publish_at_once", 2),
        ("delay_for_an_hour",),
    ],
    "retries are handed out before their wait": [
        ("start",),
        ("wait", 200),
        ("enqueue_many", [(number, "raise", "", 1_000, 0) for number in range(6)]),
        *[("promote",)] * 60,
    ],
    "a replica hears nothing any more, and is told to end": [
        ("start",),
        ("enqueue", (0, "slow", "", 1_000, 0)),
        ("wait", 300),
        ("freeze", 0, "both"),
        ("drain", 0),
        ("wait", 300),
    ],
    "an attempt that was taken over ends": [
        ("start",),
        ("enqueue", (0, "slow", "", 1_000, 0)),
        ("wait", 300),
        ("begin_again", 0),
        ("release",),
        ("end_again", 0, "completed"),
    ],
    "a job is cancelled before it is due, and replayed": [
        ("start",),
        ("enqueue", (0, "complete", "", 1_000, 400)),
        ("cancel", 0),
        ("replay", 0),
        ("publish_again",),
    ],
}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", KNOWN)
def test_known_schedules_come_to_rest_as_the_model_says(servers: Servers, name: str) -> None:
    """Goal: what was found once stays found. Method: its smallest schedule."""
    run(servers, KNOWN[name])


def test_the_printed_schedule(servers: Servers) -> None:
    """Goal: a failure can be looked at again. Method: the schedule of TAYHO_REPLAY, or a short one."""
    text = os.environ.get(REPLAY, "[('start',), ('enqueue', (0, 'complete', '', 1, 0)), ('flushall',)]")
    done = run(servers, parse(text))
    assert done["schedules"] == 1


def run(servers: Servers, schedule: Schedule) -> Counter[str]:
    """Run one schedule; how often each operation ran. A failure tells the schedule."""

    async def main() -> Counter[str]:
        async with driver(servers) as one:
            await one.run(schedule)
            return one.done

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


def _property(check: Callable[[Schedule], None], count: int, seed: int) -> Callable[[], None]:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink) if SOAK not in os.environ else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @hypothesis.given(SCHEDULES)
    def holds(schedule: Schedule) -> None:
        check(schedule)

    return holds
