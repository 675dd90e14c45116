"""Random schedules of work, faults, reorganisations and people over several engines on one chain (PRF-3).

`make soak` runs many more. A failing schedule is printed; TAYHO_REPLAY runs it again:

    TAYHO_REPLAY="[('start', 'one'), …]" .venv/bin/pytest -s tests/simulation/chain -k printed
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial

import pytest

from tests.simulation.chain.conftest import NewServers
from tests.simulation.chain.driver import driver
from tests.simulation.chain.operations import SCHEDULES, Schedule, parse
from tests.simulation.chain.resting import come_to_rest
from tests.simulation.playing import REPLAY, played, soak

pytestmark = pytest.mark.services

# A multiple of the workers that `make soak` has: else one of them runs the last part alone.
PARTS = 6
SCHEDULES_ORDINARY = 100


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("part", range(PARTS))
def test_random_schedules_take_every_effect_once(new_servers: NewServers, part: int) -> None:
    """Goal: I1 to I6, I8 and I9 under any interleaving. Method: schedules drawn from a seed; every moment is checked in
    PostgreSQL and on the chain while they run, and every job, lineage, lane and effect once they are at rest."""
    soak(part, PARTS, SCHEDULES, SCHEDULES_ORDINARY, partial(run, new_servers))


# The smallest inputs of what was found, and of what chance seldom finds.
KNOWN: dict[str, Schedule] = {
    "somebody else's transaction comes last": [
        ("start", "one"),
        ("resume_mining",),
        ("enqueue", 2),
        ("wait", 150),
        ("foreign", 0, "pending"),
    ],
    "what had ended is taken back, and nobody mines it again": [
        ("start", "one"),
        ("start", "two"),
        ("enqueue", 4),
        ("resume_mining",),
        ("wait", 2_000),
        ("hold_mining",),
        ("reorganise", 7, "none"),
        ("crash", 0),
    ],
    "a node acknowledges and forgets, and another denies every receipt": [
        ("start", "one"),
        ("resume_mining",),
        ("lose_sends", "forget", 5),
        ("lie", 1, "no_receipts"),
        ("enqueue", 5),
        ("wait", 300),
    ],
    "the account is empty while the market is above the ceiling": [
        ("start", "one"),
        ("drain_balance", 0, 0),
        ("drain_balance", 1, 0),
        ("base_fee", 150),
        ("enqueue", 3),
        ("resume_mining",),
        ("wait", 300),
    ],
}


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", KNOWN)
def test_known_schedules_take_every_effect_once(new_servers: NewServers, name: str) -> None:
    """Goal: what was found once stays found. Method: its smallest schedule."""
    run(new_servers, KNOWN[name])


def test_the_printed_schedule(new_servers: NewServers) -> None:
    """Goal: a failure can be looked at again. Method: the schedule of TAYHO_REPLAY, or a short one."""
    text = os.environ.get(REPLAY, "[('start', 'one'), ('resume_mining',), ('enqueue', 3), ('drop_all',)]")
    done = run(new_servers, parse(text))
    assert done["schedules"] == 1


def run(new_servers: NewServers, schedule: Schedule) -> Counter[str]:
    """Run one schedule; how often each operation ran. A failure tells the schedule."""
    with new_servers() as servers:

        async def main() -> Counter[str]:
            async with driver(servers) as one:
                await one.run(schedule)
                await come_to_rest(one)
                return one.done

        return played(main, schedule)
