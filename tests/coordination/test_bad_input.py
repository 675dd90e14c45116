"""Bad input is refused where the caller still has it, and odd input that is legal does no harm (DLV-10)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import pytest

import tayho
from nursery.drain import Drain
from storage.records import delivery_id
from tayho.coordination.types import NewJob
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, Plane
from tests.coordination.workers_at_work import worker_at_work
from tests.waiting import until

GOOD: dict[str, object] = {"kind": "kind", "role": ROLE, "idempotency_key": "key", "request": {}}
# Names of BullMQ's own keys in Redis, and what means something in its keys, in Lua, JavaScript or a shell.
RESERVED = [
    *("meta", "wait", "active", "delayed", "prioritized", "completed", "failed", "stalled", "marker", "events", "id"),
    *("pc", "repeat", "0", "-1", "a:b", "{tayho}", "*", "__proto__", "constructor", "$1", "%s", "'; --", "é😀\u202e"),
]


def _refusals() -> dict[str, dict[str, object]]:
    texts = {
        "empty": "",
        "long": "k" * 300,
        "NUL": "a\x00b",
        "lone surrogate": "a\ud800",
        "line end": "a\nb",
        "DEL": "a\x7f",
        "C1": "a\x85",
        "bytes": b"key",
        "None": None,
        "number": 7,
    }
    found: dict[str, dict[str, object]] = {
        f"{field}: {name}": {field: text}
        for field in ("kind", "idempotency_key", "limit_key")
        for name, text in texts.items()
        if (field, name) != ("limit_key", "None")
    }
    found |= {f"role: {name}": {"role": text} for name, text in texts.items()}
    found |= {f"tag: {name}": {"tags": ("good", text)} for name, text in texts.items()}
    found |= {f"priority: {value!r}": {"priority": value} for value in (0, -1, 2**21, True, False, 1.0, "1", None)}
    found |= {
        "tags: a text": {"tags": "abc"},
        "tags: a set": {"tags": {"a"}},
        "tags: too many": {"tags": ("a",) * 17},
        "run_at: no zone": {"run_at": datetime(2030, 1, 1)},  # noqa: DTZ001 - that is what is wrong with it
        "run_at: a text": {"run_at": "2030-01-01"},
        "run_at: a number of seconds": {"run_at": 1_900_000_000},
        "run_at: a delay": {"run_at": timedelta(seconds=-1)},
        "run_at: 2100": {"run_at": datetime(2100, 1, 1, tzinfo=UTC)},
        "run_at: 9999": {"run_at": datetime.max.replace(tzinfo=UTC)},
        "run_at: 2100 in UTC alone": {"run_at": datetime(2099, 12, 31, 23, tzinfo=timezone(timedelta(hours=-1)))},
        "run_at: before the calendar": {"run_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))},
    }
    return found


REFUSALS = _refusals()


@pytest.mark.parametrize("changed", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_field_out_of_its_range_is_refused_when_the_job_is_made(changed: dict[str, object]) -> None:
    """Goal: nothing bad comes near a transaction. Method: each field beyond its range; the error names the field in its
    first word, says what is wrong, and prints on any terminal."""
    with pytest.raises(tayho.ArgumentRefused) as refused:
        NewJob(**{**GOOD, **changed})  # pyright: ignore[reportArgumentType]
    assert refused.value.field.split()[-1] in ("tag", *changed)
    assert str(refused.value).startswith(refused.value.field)
    assert str(refused.value).isprintable()
    str(refused.value).encode()


@pytest.mark.parametrize("request_", [None, [], [("a", 1)], "text", 7, b"{}"], ids=repr)
def test_a_request_is_an_object(request_: object) -> None:
    """Goal: no list of pairs passes for an object by chance. Method: what is no mapping."""
    with pytest.raises(tayho.DocumentRefused, match="the request is a "):
        NewJob(**{**GOOD, "request": request_})  # pyright: ignore[reportArgumentType]


async def test_mappings_that_are_no_dict_are_objects_too(plane: Plane) -> None:
    """Goal: a frozen request is as good as a dict. Method: mapping proxies, nested; the job is the dict's job."""
    frozen = NewJob("kind", ROLE, "key", MappingProxyType({"a": MappingProxyType({"b": 1})}))
    first = await plane.coordination.enqueue(frozen)
    assert (await plane.coordination.enqueue(NewJob("kind", ROLE, "key", {"a": {"b": 1}}))).job_id == first.job_id


@pytest.mark.parametrize(
    "run_at",
    [
        datetime.min.replace(tzinfo=UTC),
        datetime(1, 1, 2, tzinfo=timezone(timedelta(hours=14))),
        datetime(1969, 1, 1, tzinfo=UTC),
    ],
    ids=str,
)
async def test_a_time_that_is_past_means_now(plane: Plane, run_at: datetime) -> None:
    """Goal: a negative delay is no error and no privilege. Method: the oldest times there are; the job is due now."""
    enqueued = await plane.coordination.enqueue(NewJob("kind", ROLE, "key", {}, run_at=run_at))
    record = await plane.coordination.inspect(enqueued.job_id)
    assert record is not None
    assert abs(record.run_at - record.created_at) < timedelta(seconds=1)


async def test_names_that_bullmq_reserves_are_harmless(plane: Plane, database_url: str) -> None:
    """Goal: an id that is a key of the queue would lose the job without a word, so no producer's text is an id. Method:
    every reserved name as kind, key, limit key and tag; each job ends, and the queue's records are named by job and
    generation alone."""
    seen: dict[str, str] = {}

    async def handle(job: Job, attempt: Attempt) -> Outcome:
        seen[job.kind] = job.idempotency_key
        return Completed(job.kind)

    jobs = [NewJob(name, ROLE, name, {name: name}, limit_key=name, tags=(name,)) for name in RESERVED]
    enqueued = await plane.coordination.enqueue_many(jobs)
    drain = Drain(seconds=5)

    async def all_ended() -> bool:
        return await plane.coordination.count_by_state() == {"completed": len(RESERVED)}

    async with worker_at_work(plane, database_url, dict.fromkeys(RESERVED, handle), drain, publishes=True):
        await until(all_ended, seconds=20, what="every job to end")
    assert seen == {name: name for name in RESERVED}
    states = await plane.queue.states([delivery_id(one.job_id, 1) for one in enqueued])
    assert {state.value for state in states} == {"completed"}
    assert (await plane.queue.counts())["completed"] == len(RESERVED)


async def test_an_identifier_of_another_environment_is_another_job(plane: Plane) -> None:
    """Goal: one key is one effect within (chain, environment), and says nothing beyond. Method: one key in two
    environments and on two chains: four jobs."""
    job_ids = set[object]()
    async with plane.database.transaction() as tx:
        for chain_id in (CHAIN_ID, 1):
            for environment in (ENVIRONMENT, "live"):
                place = {"chain_id": chain_id, "environment": environment}
                answer = await tayho.enqueue(tx, "kind", "key", {}, role=ROLE, **place)  # pyright: ignore[reportArgumentType]
                assert answer.created
                job_ids.add(answer.job_id)
    assert len(job_ids) == 4
