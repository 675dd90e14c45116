"""The sweep misses nothing: what it sweeps is what passes, and whatever the delivery plane may send is among it."""

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tests.services.postgres import MIGRATED, PostgresServer
from tests.services.redis import ask
from tests.sweep.cases import RECORDED, labels_of, line_of, recorded
from tests.sweep.reach import scripts_in_reach, statements_in_reach
from tests.sweep.recording import listed, passed_disturbed, passed_undisturbed

RECORD: Final = ".venv/bin/python -m tests.sweep.recording"
HOW_TO_ADD: Final = (
    "Let the play of tests/sweep reach it: a job in parts.py with its behaviour and its end, something that was before "
    f"in prologue.py, or a call in play.py. Then write {RECORDED.name} anew with `{RECORD}`. What no play can reach "
    "goes into NOT_SWEPT, with the reason."
)
# By the reference of the statement, or the name of the script: why no play can reach it.
NOT_SWEPT: Final[Mapping[str, str]] = {
    "addDelayedJob": "first-run times are PostgreSQL's: only what is due is published",
    "addStandardJob": "every record carries a priority",
    "getState": "asked of a Redis below 6.0.6 alone, which readiness refuses",
    **dict.fromkeys(
        ["coordination/revive.permit_revival", "coordination/revive.revive"],
        "no job of the play has a chain that takes its end back; the next tick of transactions asks for what is left, "
        "which tests/transactions/test_reorganisations.py has die in between",
    ),
    **dict.fromkeys(
        ["coordination/releases.release_lineages", "coordination/releases.let_go_of_lineage_if_current"],
        "no job of the play has a nonce that another used, or a signer without its role; the next tick, "
        "or the next attempt, asks again, which tests/crash/test_lane_steps.py has die in between",
    ),
    **dict.fromkeys(
        [
            *("coordination/batching.admit", "coordination/batching.batch_if_pending"),
            *("coordination/batching.quarantine_if_pending", "coordination/batching.settle_if_batched"),
            *("coordination/batching.release_children", "coordination/batching.standing_of_batch"),
        ],
        "no job of the play carries others; each is one statement of a transaction that is asked for again, which "
        "tests/crash/test_batch_steps.py has die after it",
    ),
    "coordination/jobs.jobs_by_id": "a reconciler's question, which changes nothing; the next tick asks again",
    "coordination/jobs.count_by_kind": "a demo's question, which changes nothing",
    "coordination/jobs.progress": "an engine's question, which changes nothing; the client asks again",
    "retryJob": "for a retry without a wait: the publisher gives every record a backoff",
}


@pytest.fixture
def second_database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """Another database at the newest schema: each play has its own."""
    with postgres_server.database(MIGRATED) as url:
        yield url


@pytest.mark.services
async def test_what_is_swept_is_what_passes(database_url: str, second_database_url: str, redis_url: str) -> None:
    """Goal: no case is made by hand, and none is of something that is gone. Method: record two plays, one of them
    disturbed, and compare with the list that the cases are made of."""
    undisturbed = await passed_undisturbed(database_url, redis_url)
    assert ask(redis_url, "FLUSHALL") == "+OK"
    disturbed = await passed_disturbed(second_database_url, redis_url)
    found, known = set(listed(undisturbed, disturbed)), {line_of(passed) for passed in recorded()}
    assert found == known, (
        f"not in {RECORDED.name}: {sorted(found - known)}; only in it: {sorted(known - found)}. "
        f"Write it anew with `{RECORD}`."
    )


@pytest.mark.parametrize("ref", statements_in_reach())
def test_every_statement_of_coordination_is_swept(ref: str) -> None:
    """Goal: a new statement comes with its lost answer. Method: whatever store.py binds is recorded, or excused."""
    assert ref in labels_of("postgres") or ref in NOT_SWEPT, f"a lost answer to {ref} is not swept. {HOW_TO_ADD}"


@pytest.mark.parametrize("script", scripts_in_reach())
def test_every_script_of_the_delivery_queue_is_swept(script: str) -> None:
    """Goal: a new operation of BullMQ comes with its lost answer. Method: follow the operations that storage has of the
    package through its source; whatever script they may ask for is recorded, or excused."""
    assert script in labels_of("redis") or script in NOT_SWEPT, f"a lost answer to {script} is not swept. {HOW_TO_ADD}"


def test_no_excuse_is_left_over() -> None:
    """Goal: an excuse speaks of something that is in reach, and not swept. Method: compare the three lists."""
    assert {*NOT_SWEPT} <= {*statements_in_reach(), *scripts_in_reach()}
    assert not {*NOT_SWEPT} & (labels_of("postgres") | labels_of("redis"))
