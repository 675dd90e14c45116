"""Random schedules of work, faults, races and people over several replicas (PRF-3): every promise holds.

`make soak` runs many more. A failing schedule is printed; TAYHO_REPLAY runs it again:

    TAYHO_REPLAY="[('start',), …]" .venv/bin/pytest -s tests/simulation/delivery -k printed
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial

import pytest

from tests.simulation.delivery.driver import Servers, driver
from tests.simulation.delivery.operations import SCHEDULES, Schedule, parse
from tests.simulation.playing import REPLAY, played, soak

pytestmark = pytest.mark.services

# A multiple of the workers that `make soak` has: else some of them run the last parts alone.
PARTS = 6
SCHEDULES_ORDINARY = 100


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("part", range(PARTS))
def test_random_schedules_come_to_rest_as_the_model_says(servers: Servers, part: int) -> None:
    """Goal: I6, I7, I8 and DLV-4 under any interleaving. Method: schedules drawn from a seed; every moment is checked
    in PostgreSQL while they run, and every job, effect and queue once they are at rest."""
    soak(part, PARTS, SCHEDULES, SCHEDULES_ORDINARY, partial(run, servers))


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

    return played(main, schedule)
