"""What may happen, as data: a schedule is a list of operations, and a printed schedule can be run again.

An operation is its name and its arguments; the driver has a method of the same name. Replicas, jobs and servers are
named by numbers that the driver takes modulo what there is, so that any part of a schedule is a schedule too.
"""

from __future__ import annotations

import ast
from typing import TypeAlias

from hypothesis import strategies as draw

Operation: TypeAlias = tuple[object, ...]
Schedule: TypeAlias = list[Operation]

KEYS = 8
REPLICAS_MAX = 3
ATTEMPTS_MAX = 4
LIMIT_KEYS = ("", "", "tenant-a", "tenant-b")
# How a handler behaves; the number is how often it does so before it completes.
BEHAVIOURS = (
    "complete",
    "complete",
    "slow",
    "slow",
    "fail:1",
    "fail:2",
    "raise",
    "postpone:2",
    "not_actionable",
    "refuse",
    "unstorable",
)
# The steps that an off-chain job passes.
STEPS = (
    "publish.after_claim",
    "publish.after_add",
    "publish.after_mark",
    "intake.after_fetch",
    "attempt.after_begin",
    "attempt.after_end",
    "attempt.after_ack",
    "delivery.after_decline",
    "worker.after_register",
    "worker.after_heartbeat",
    "worker.after_stop",
)
# Whose connections: of a replica, or of the client that enqueues.
SIDES = ("redis", "postgres")
# Bytes of the request whose answer is lost: any, a script, a commit, a statement.
LOSSES = {"redis": (b"", b"EVALSHA"), "postgres": (b"", b"COMMIT", b"B\x00\x00")}

_replica = draw.integers(0, REPLICAS_MAX - 1)
_client_or_replica = draw.integers(-1, REPLICAS_MAX - 1)
_key = draw.integers(0, KEYS - 1)
_job = draw.integers(0, KEYS - 1)
_one = draw.tuples(
    _key,
    draw.sampled_from(BEHAVIOURS),
    draw.sampled_from(LIMIT_KEYS),
    draw.sampled_from((1, 1_000, 2_000_000)),
    # Due after so many milliseconds.
    draw.sampled_from((0, 0, 0, 150, 400)),
)


def _operation(name: str, *arguments: draw.SearchStrategy[object]) -> draw.SearchStrategy[Operation]:
    return draw.tuples(draw.just(name), *arguments)


_loss = draw.sampled_from(SIDES).flatmap(
    lambda side: _operation(
        "lose_answer", _client_or_replica, draw.just(side), draw.sampled_from(LOSSES[side]), draw.booleans()
    )
)
_work = (
    _operation("enqueue", _one),
    _operation("enqueue", _one),
    _operation("enqueue_many", draw.lists(_one, min_size=1, max_size=4)),
    _operation("release"),
    _operation("wait", draw.sampled_from((5, 20, 60, 150, 300))),
    _operation("wait", draw.sampled_from((5, 20, 60, 150, 300))),
)
_replicas = (
    _operation("start"),
    _operation("crash", _replica),
    _operation("crash_at", _replica, draw.sampled_from(STEPS), draw.integers(1, 3)),
    _operation("drain", _replica),
    _operation("freeze", _replica, draw.sampled_from((*SIDES, "both"))),
    _operation("thaw", _replica),
)
_faults = (
    _loss,
    _loss,
    _operation("cut", _client_or_replica, draw.sampled_from(SIDES)),
    _operation("terminate_backends", _replica),
    _operation("flushall"),
    _operation("restart_redis"),
    _operation("evict", _job),
    _operation("displace", _job),
    _operation("end_record", draw.booleans()),
    _operation("steal_record"),
    _operation("script_flush"),
    _operation("publish_early", _job),
    _operation("delay_for_an_hour"),
    _operation("promote"),
    _operation("promote"),
    _operation("delay_for_an_hour"),
)
_races = (
    _operation("publish_at_once", draw.integers(2, 3)),
    _operation("publish_again"),
    _operation("end_again", _job, draw.sampled_from(("completed", "failed", "returned"))),
    _operation("begin_again", _job),
)
_control = (
    _operation("pause", draw.booleans()),
    _operation("resume", draw.booleans()),
    _operation("cancel", _job),
    _operation("replay", _job),
    _operation("limit", draw.sampled_from(("tenant-a", "tenant-b")), draw.integers(1, 3)),
)
_rare = _operation("restart_postgres")
_by_group = draw.one_of(
    draw.one_of(*_work), draw.one_of(*_work), draw.one_of(*_replicas), draw.one_of(*_faults), draw.one_of(*_races),
    draw.one_of(*_control),
)  # fmt: skip
OPERATIONS = draw.integers(0, 119).flatmap(lambda chance: _rare if chance == 97 else _by_group)

# A schedule without a job or a replica tells nothing: each begins with both.
SCHEDULES: draw.SearchStrategy[Schedule] = draw.builds(
    lambda replicas, limit, jobs, then: [*[("start",)] * replicas, *limit, ("enqueue_many", jobs), *then],
    draw.integers(1, REPLICAS_MAX),
    draw.lists(_operation("limit", draw.just("tenant-a"), draw.integers(1, 2)), max_size=1),
    draw.lists(_one, min_size=1, max_size=4),
    draw.lists(OPERATIONS, min_size=4, max_size=18),
)


def parse(text: str) -> Schedule:
    """A schedule as it was printed."""
    return ast.literal_eval(text)
