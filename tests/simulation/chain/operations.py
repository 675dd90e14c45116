"""What may happen on and around a chain, as data: an operation is its name and its arguments.

Replicas, jobs, signers and endpoints are named by numbers that the driver takes modulo what there is, so that any part
of a schedule is a schedule too.
"""

from __future__ import annotations

import ast
from typing import Any, TypeAlias

from hypothesis import strategies as draw

from tayho.kernel.steps import STEPS
from tests.simulation.chain.clockwork import LOOKBACK_BLOCKS
from tests.simulation.chain.faults import LIES, WRITE_FAULTS

Schedule: TypeAlias = "list[tuple[Any, ...]]"

REPLICAS_MAX = 3
ENDPOINTS = 3
EVENTS = 3
# Of an engine that runs jobs; people's commands, schedules and retention die elsewhere.
_BESIDE = ("control.", "schedule.", "retention.", "enqueue.")
MORTAL_STEPS = sorted(step for step in STEPS if not step.startswith(_BESIDE))
# Below, at and above the ceiling of 100 gwei; the market at the start is at 1.
BASE_FEES_GWEI = (2, 10, 45, 99, 150)
HOW_MINED_AGAIN = ("none", "same", "turned", "late", "some")
# Below the deepest block that may change: what is deeper is a finality violation, and a test of its own.
REORGANISED_BLOCKS_MAX = LOOKBACK_BLOCKS - 1

_replica = draw.integers(0, REPLICAS_MAX - 1)
_small = draw.integers(0, 7)
_signer = draw.integers(0, 1)
_endpoint = draw.integers(0, ENDPOINTS - 1)


def _operation(name: str, *arguments: draw.SearchStrategy[Any]) -> draw.SearchStrategy[tuple[Any, ...]]:
    return draw.tuples(draw.just(name), *arguments)


_work = (
    _operation("enqueue", draw.integers(1, 5)),
    _operation("enqueue", draw.integers(1, 5)),
    _operation("enqueue_once", draw.integers(0, EVENTS - 1)),
    _operation("record_elsewhere", draw.integers(0, EVENTS - 1)),
    _operation("wait", draw.sampled_from((10, 50, 150, 300))),
    _operation("wait", draw.sampled_from((10, 50, 150, 300))),
)
_blocks = (
    _operation("mine", draw.integers(1, 4)),
    _operation("mine", draw.integers(1, 4)),
    _operation("hold_mining"),
    _operation("resume_mining"),
    _operation("base_fee", draw.sampled_from(BASE_FEES_GWEI)),
)
_chain = (
    _operation("drop", _small),
    _operation("drop_all"),
    _operation("reorganise", draw.integers(1, REORGANISED_BLOCKS_MAX), draw.sampled_from(HOW_MINED_AGAIN)),
    _operation("reorganise", draw.integers(1, REORGANISED_BLOCKS_MAX), draw.sampled_from(HOW_MINED_AGAIN)),
    _operation("roll_back", draw.integers(1, REORGANISED_BLOCKS_MAX)),
    _operation("foreign", _signer, draw.sampled_from(("latest", "pending"))),
    _operation("drain_balance", _signer, draw.sampled_from((0, 1, 10**15))),
    _operation("refill", _signer),
)
_nodes = (
    _operation("lose_sends", draw.sampled_from(sorted(WRITE_FAULTS)), draw.sampled_from((1, 1, 2, 5))),
    _operation("lose_sends", draw.sampled_from(sorted(WRITE_FAULTS)), draw.sampled_from((1, 1, 2, 5))),
    _operation("lie", _endpoint, draw.sampled_from(sorted(LIES))),
    _operation("shut", _endpoint),
    _operation("be_honest"),
)
_replicas = (
    _operation("start", draw.sampled_from(("one", "one", "two"))),
    _operation("crash", _replica),
    _operation("crash_at", _replica, draw.sampled_from(MORTAL_STEPS), draw.integers(1, 3)),
    _operation("crash_at", _replica, draw.sampled_from(MORTAL_STEPS), draw.integers(1, 3)),
    _operation("drain", _replica),
    _operation("cut", _replica, draw.sampled_from(("postgres", "redis"))),
    _operation("lose_commit", _replica, draw.booleans()),
    _operation("flushall"),
)
_people = (
    _operation("cancel", _small),
    _operation("bump", _small),
)


OPERATIONS = draw.one_of(
    draw.one_of(*_work), draw.one_of(*_work), draw.one_of(*_blocks), draw.one_of(*_chain), draw.one_of(*_chain),
    draw.one_of(*_nodes), draw.one_of(*_replicas), draw.one_of(*_people),
)  # fmt: skip

# A schedule without a job or a replica tells nothing: each begins with both.
SCHEDULES: draw.SearchStrategy[Schedule] = draw.builds(
    lambda replicas, mines, jobs, then: [*[("start", "one")] * replicas, *mines, ("enqueue", jobs), *then],
    draw.integers(1, 2),
    draw.sampled_from(([("resume_mining",)], [])),
    draw.integers(1, 6),
    draw.lists(OPERATIONS, min_size=3, max_size=14),
)


def parse(text: str) -> Schedule:
    """A schedule as it was printed."""
    return ast.literal_eval(text)
