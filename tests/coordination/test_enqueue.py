"""One key, one job: whoever races, whatever the isolation (DLV-1, DLV-2, I7)."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from storage.errors import Refused, StorageError
from tayho.coordination.types import Enqueued, IdempotencyConflict, NewJob
from tayho.kernel.json_document import DOCUMENT_BYTES_MAX, DocumentRefused, check, parse
from tests.coordination.conftest import ROLE, Plane, new_job

CALLERS = 100


async def test_a_hundred_concurrent_callers_of_one_key_make_one_job(plane: Plane) -> None:
    """Goal: I7. Method: a hundred tasks enqueue the same request at once over a pool of four connections; all get the
    same job, one of them made it, and nobody saw an error."""
    answers: list[Enqueued] = []

    async def call() -> None:
        answers.append(await plane.coordination.enqueue(new_job()))

    async with trio.open_nursery() as callers:
        for _ in range(CALLERS):
            callers.start_soon(call)
    assert len({answer.job_id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    assert len(await plane.coordination.list_recent()) == 1
    assert (await plane.coordination.backlog()).rows == 1


async def test_a_hundred_callers_inside_their_own_transactions_see_no_aborted_one(plane: Plane) -> None:
    """Goal: a caller's transaction stays usable after a lost race. Method: as above, each in an open transaction of its
    own that writes once more after the enqueue and commits."""
    done = 0

    async def call(number: int) -> None:
        nonlocal done
        async with plane.database.transaction() as tx:
            await plane.coordination.enqueue(new_job(), tx=tx)
            await plane.coordination.enqueue(new_job(f"own-{number}"), tx=tx)
        done += 1

    async with trio.open_nursery() as callers:
        for number in range(CALLERS):
            callers.start_soon(call, number)
    assert done == CALLERS
    assert len(await plane.coordination.list_recent(lines_max=1_000)) == CALLERS + 1


async def test_batches_with_the_same_keys_in_opposite_orders_all_succeed(plane: Plane) -> None:
    """Goal: no caller meets a deadlock. Method: forty tasks enqueue the same fifty keys, half of them backwards."""
    keys = [f"key-{number}" for number in range(50)]
    sizes: list[int] = []

    async def call(order: list[str]) -> None:
        answers = await plane.coordination.enqueue_many([new_job(key) for key in order])
        sizes.append(len({answer.job_id for answer in answers}))

    async with trio.open_nursery() as callers:
        for number in range(40):
            callers.start_soon(call, keys if number % 2 else keys[::-1])
    assert sizes == [50] * 40
    assert len(await plane.coordination.list_recent(lines_max=1_000)) == 50


async def test_the_same_key_with_another_request_is_refused_and_names_both(plane: Plane) -> None:
    """Goal: a reused key never passes for the first request. Method: enqueue twice with requests that differ, and with
    kinds that differ; the error carries both digests, the first job is unchanged, nothing was added."""
    job_id = await plane.enqueue("key", n=1)
    for other in (new_job("key", n=2), NewJob("another kind", ROLE, "key", {"n": 1})):
        with pytest.raises(IdempotencyConflict) as refused:
            await plane.coordination.enqueue(other)
        assert refused.value.job_id == job_id
        assert refused.value.recorded_digest.hex() in str(refused.value)
        assert refused.value.asked_digest.hex() in str(refused.value)
    assert len(await plane.coordination.list_recent()) == 1


async def test_a_conflict_inside_a_batch_records_nothing_of_it(plane: Plane) -> None:
    """Goal: all or none. Method: a batch whose second key is taken by another request."""
    await plane.enqueue("taken", n=1)
    with pytest.raises(IdempotencyConflict):
        await plane.coordination.enqueue_many([new_job("fresh"), new_job("taken", n=2)])
    assert {line.idempotency_key for line in await plane.coordination.list_recent()} == {"taken"}


async def test_one_key_twice_in_one_batch_is_one_job(plane: Plane) -> None:
    """Goal: the honest answer for a repetition. Method: one batch that says the same thing twice."""
    first, second = await plane.coordination.enqueue_many([new_job(), new_job()])
    assert (first.job_id, first.created, second.created) == (second.job_id, True, False)


async def test_equal_requests_in_another_order_of_keys_are_the_same_request(plane: Plane) -> None:
    """Goal: the digest is of the meaning. Method: enqueue {a, b} and {b, a}."""
    first = await plane.coordination.enqueue(new_job("key", a=1, b=[1, {"c": None}]))
    second = await plane.coordination.enqueue(new_job("key", b=[1, {"c": None}], a=1))
    assert (second.job_id, second.created) == (first.job_id, False)


async def test_before_the_callers_commit_neither_job_nor_outbox_row_exists(plane: Plane) -> None:
    """Goal: DLV-1. Method: enqueue in a transaction that is rolled back; look from outside before and after."""

    class Undone(Exception):
        pass

    with pytest.raises(Undone):
        async with plane.database.transaction() as tx:
            await plane.coordination.enqueue(new_job(), tx=tx)
            assert await plane.coordination.list_recent() == []
            assert (await plane.coordination.backlog()).rows == 0
            raise Undone
    assert await plane.coordination.list_recent() == []
    assert (await plane.coordination.backlog()).rows == 0


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_under_a_stricter_isolation_a_lost_race_is_a_serialization_failure(plane: Plane, isolation: str) -> None:
    """Goal: a caller that chose a snapshot hears that it must run again, and no second job appears. Method: the key is
    committed by another after the caller's snapshot was taken."""
    with pytest.raises(StorageError) as lost:
        async with plane.database.transaction(isolation=isolation) as tx:  # pyright: ignore[reportArgumentType]
            await tx.fetchval("SELECT count(*) FROM coordination.jobs")
            await plane.coordination.enqueue(new_job())
            await plane.coordination.enqueue(new_job(), tx=tx)
    assert not isinstance(lost.value, Refused)
    assert len(await plane.coordination.list_recent()) == 1


@pytest.mark.parametrize(
    "request_",
    [
        {"text": "a\x00b"},
        {"text": "\ud800"},
        {"\x00": 1},
        {"number": float("inf")},
        {"number": float("nan")},
        {"number": 2**300},
        {"blob": "x" * (DOCUMENT_BYTES_MAX + 1)},
        {"bytes": b"x"},
        {1: "key is no text"},
    ],
    ids=["NUL", "lone surrogate", "NUL in a key", "infinity", "NaN", "300 bits", "65 KiB", "bytes", "integer key"],
)
async def test_what_postgresql_cannot_hold_is_refused_at_the_door(plane: Plane, request_: dict[str, object]) -> None:
    """Goal: DLV-10, a clear error and nothing recorded. Method: each kind of document that jsonb would refuse or
    bend."""
    with pytest.raises(DocumentRefused):
        await plane.coordination.enqueue(NewJob("kind", ROLE, "key", request_))  # pyright: ignore[reportArgumentType]
    assert await plane.coordination.list_recent() == []


def test_text_with_duplicate_keys_or_1e400_is_refused() -> None:
    """Goal: what one parser drops and another keeps never becomes a request. Method: the raw texts."""
    for text in ('{"a": 1, "a": 2}', '{"a": 1e400}', '{"a": NaN}', "[" * 100_000, "{", b"\xff"):
        with pytest.raises(DocumentRefused):
            parse(text)


_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**255), 2**255) | st.text() | st.floats(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


@given(_DOCUMENTS)
def test_a_document_is_held_whole_or_refused(document: object) -> None:
    """Goal: no document is bent on the way in. Method: whatever `check` accepts parses back to an equal value."""
    try:
        encoded = check(document)
    except DocumentRefused:
        return
    assert parse(encoded) == document


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": ""},
        {"kind": "k" * 129},
        {"idempotency_key": ""},
        {"idempotency_key": "k" * 256},
        {"role": "Not A Role"},
        {"priority": 0},
        {"priority": 2**21},
    ],
)
def test_a_new_job_out_of_range_is_refused_when_it_is_made(fields: dict[str, object]) -> None:
    """Goal: bad input never reaches the database. Method: each field beyond its range."""
    good: dict[str, object] = {"kind": "kind", "role": ROLE, "idempotency_key": "key", "request": {}}
    with pytest.raises(ValueError):  # noqa: PT011 - attrs' own words differ by field
        NewJob(**{**good, **fields})  # pyright: ignore[reportArgumentType]
