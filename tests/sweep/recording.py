"""Records what passes in a play. `python -m tests.sweep.recording` writes it into `recorded.txt`, which is swept."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import trio

from tests.services.postgres import MIGRATED, postgres_server
from tests.services.redis import ask, redis_server
from tests.sweep.cases import DISTURBED, RECORDED, Case, Passed, line_of
from tests.sweep.play import play
from tests.sweep.stage import Stage, load_scripts, open_stage

# A statement that is only prepared has not been executed: a lost answer to it is a lost request for the statement.
_PREPARING: Final = "prepare "
_HEADER: Final = "# What passed in a recorded play. Written by `python -m tests.sweep.recording`; never edit it.\n"
_DISTURBANCE: Final = Case(Passed("redis", DISTURBED), 1, "answer")


async def passed_undisturbed(database_url: str, redis_url: str) -> frozenset[Passed]:
    """What passed when nothing was lost, and Redis had no script at first."""
    async with open_stage(database_url, redis_url) as stage:
        await load_scripts(stage.back.redis, frozenset())
        return await _passed(stage, lambda: None)


async def passed_disturbed(database_url: str, redis_url: str) -> frozenset[Passed]:
    """What passed when the answer to a fetch was lost."""
    async with open_stage(database_url, redis_url) as stage:
        await load_scripts(stage.back.redis, frozenset())
        return await _passed(stage, lambda: _DISTURBANCE.set_fault(stage))


def listed(undisturbed: frozenset[Passed], disturbed: frozenset[Passed]) -> list[str]:
    """The lines of `recorded.txt`. After a lost fetch Redis is looked into by other commands: only those are new."""
    new = [passed for passed in disturbed - undisturbed if passed.server == "redis"]
    later = [Passed("redis", f"{DISTURBED}, then {passed.name}") for passed in new]
    return sorted(map(line_of, [*undisturbed, *later]))


async def _passed(stage: Stage, fault: Callable[[], None]) -> frozenset[Passed]:
    await play(stage, fault=fault)
    return frozenset(
        [Passed("postgres", name) for name in _executed(stage.postgres.seen)]
        + [Passed("redis", name) for name in stage.redis.seen]
    )


def _executed(seen: Counter[str]) -> list[str]:
    return [name for name in seen if not name.startswith(_PREPARING)]


def _record() -> list[str]:
    found: list[frozenset[Passed]] = []
    with ExitStack() as servers:
        postgres = servers.enter_context(postgres_server())
        redis = servers.enter_context(redis_server())
        for record in (passed_undisturbed, passed_disturbed):
            ask(redis.url, "FLUSHALL")
            with postgres.database(MIGRATED) as database_url:
                found.append(trio.run(record, database_url, redis.url))
    return listed(*found)


if __name__ == "__main__":
    RECORDED.write_text(_HEADER + "".join(f"{line}\n" for line in _record()), encoding="utf-8")
