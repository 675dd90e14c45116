"""Producers in Python: in their own transaction, under asyncio, with their environment's defaults (DLV-1, DLV-2)."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

import tayho
from nursery.asyncio_bridge import run_asyncio
from tayho import embedding
from tayho.coordination.types import PRIORITY_MAX
from tests.coordination import producing_program
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, Plane
from tests.waiting import until

CALLERS = 100
PLACE = {"chain_id": CHAIN_ID, "environment": ENVIRONMENT}
HEAVY = {"trio", "trio_asyncio", "asyncio", "asyncpg", "redis", "bullmq", "httpx2", "litestar", "structlog"}
PROGRAM = Path(producing_program.__file__)


async def _program(url: str, isolation: str) -> dict[str, object]:
    ran = await trio.run_process(
        [sys.executable, "-m", "tests.coordination.producing_program", url, isolation, str(CALLERS)],
        capture_stdout=True,
        cwd=PROGRAM.parents[2],
    )
    return json.loads(ran.stdout)


def test_import_tayho_loads_nothing_that_runs_or_connects() -> None:
    """Goal: a producer pays for what it uses. Method: import it in a fresh interpreter and look at what was loaded."""
    script = "import sys, tayho; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "tayho.embedding" in ran.stdout.split()
    assert HEAVY.isdisjoint(ran.stdout.split())


@pytest.mark.services
async def test_a_hundred_asyncio_callers_of_one_key_make_one_job(database_url: str) -> None:
    """Goal: I7 from a plain asyncio program: no caller sees an aborted transaction. Method: a hundred connections
    enqueue one key at once in READ COMMITTED, each beside a row of its own; every order is there, one job, no error,
    and nothing of Trio was loaded."""
    told = await _program(database_url, "read_committed")
    assert told == {
        "answers": [CALLERS], "created": 1, "errors": {}, "orders": CALLERS, "jobs": 1, "loaded": [],
    }  # fmt: skip


@pytest.mark.services
async def test_under_serializable_a_caller_may_have_to_run_again_and_hears_nothing_else(database_url: str) -> None:
    """Goal: who chose a snapshot runs its transaction again, and that is all. Method: the same hundred in SERIALIZABLE,
    each running again after a serialization failure: any other error would have ended the program."""
    told = await _program(database_url, "serializable")
    assert (told["answers"], told["created"], told["orders"], told["jobs"]) == ([CALLERS], 1, CALLERS, 1)
    assert set(told["errors"]) <= {"SerializationError"}  # pyright: ignore[reportArgumentType]


async def test_what_is_refused_records_nothing_and_leaves_the_transaction_usable(plane: Plane) -> None:
    """Goal: a refusal at the door costs the caller nothing. Method: each kind of refusal inside one transaction, which
    then goes on and commits; what was good is there, and nothing else."""
    async with plane.database.transaction() as tx:
        await tayho.enqueue(tx, "kind", "taken", {"n": 1}, role=ROLE, **PLACE)
        with pytest.raises(tayho.IdempotencyConflict):
            await tayho.enqueue(tx, "kind", "taken", {"n": 2}, role=ROLE, **PLACE)
        with pytest.raises(tayho.DocumentRefused):
            await tayho.enqueue(tx, "kind", "nul", {"n": "\x00"}, role=ROLE, **PLACE)
        with pytest.raises(tayho.ArgumentRefused, match=r"^priority True is out of range"):
            await tayho.enqueue(tx, "kind", "bool", {}, role=ROLE, priority=True, **PLACE)
        with pytest.raises(tayho.UnknownKind):
            await tayho.enqueue(tx, "kind", "unknown", {}, **PLACE)
        await tayho.enqueue(tx, "kind", "after", {}, role=ROLE, **PLACE)
    assert {line.idempotency_key for line in await plane.coordination.list_recent()} == {"taken", "after"}


async def test_a_batch_that_meets_a_conflict_leaves_the_transaction_as_it_was(plane: Plane) -> None:
    """Goal: all or none, also where the caller goes on and commits. Method: a batch whose last key is taken, caught by
    the caller; then a batch that is good."""
    await plane.enqueue("taken", n=1)
    async with plane.database.transaction() as tx:
        with pytest.raises(tayho.IdempotencyConflict):
            await tayho.enqueue_many(
                tx, [tayho.NewJob("kind", ROLE, key, {"n": 2}) for key in ("a", "b", "taken")], **PLACE
            )
        with pytest.raises(tayho.IdempotencyConflict):
            await plane.coordination.enqueue_many(
                [tayho.NewJob("kind", ROLE, key, {"n": 2}) for key in ("c", "taken")], tx=tx
            )
        answers = await tayho.enqueue_many(
            tx, [tayho.NewJob("kind", ROLE, key, {}) for key in ("d", "e", "d")], **PLACE
        )
        assert [answer.created for answer in answers] == [True, True, False]
        assert await tayho.enqueue_many(tx, [], **PLACE) == []
    assert {line.idempotency_key for line in await plane.coordination.list_recent()} == {"taken", "d", "e"}


async def test_outside_a_transaction_nothing_is_recorded(plane: Plane) -> None:
    """Goal: no producer believes in a transaction that it has not opened. Method: our connection and a bare asyncpg
    one, both without a transaction."""
    async with plane.database.connection() as connection:
        for bare in (connection, connection.raw):
            with pytest.raises(tayho.NoTransaction):
                await run_asyncio(lambda tx=bare: tayho.enqueue(tx, "kind", "key", {}, role=ROLE, **PLACE))
    assert await plane.coordination.list_recent() == []


async def test_role_chain_and_environment_come_from_where_the_workers_have_them(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a producer repeats nothing that is known. Method: enqueue a registered kind under the two variables; then
    without them, with bad ones, and with a kind that nobody registers: each refusal says what to give."""
    monkeypatch.setenv("CHAIN_ID", str(CHAIN_ID))
    monkeypatch.setenv("ENVIRONMENT", ENVIRONMENT)
    async with plane.database.transaction() as tx:
        answer = await tayho.enqueue(tx, "counter.record", "key", {})
        with pytest.raises(
            tayho.UnknownKind, match=r"'counter\.rekord'.*registered: .*counter\.record_once"
        ) as unknown:
            await tayho.enqueue(tx, "counter.rekord", "other", {})
        assert "counter.record" in unknown.value.known
        monkeypatch.setenv("ENVIRONMENT", "Live!")
        with pytest.raises(tayho.ArgumentRefused, match=r"environment \(ENVIRONMENT\) is 'Live!': expected"):
            await tayho.enqueue(tx, "counter.record", "other", {})
        monkeypatch.delenv("CHAIN_ID")
        with pytest.raises(tayho.ArgumentRefused, match="chain_id was not given, and CHAIN_ID is not set"):
            await tayho.enqueue(tx, "counter.record", "other", {}, environment=ENVIRONMENT)
        for chain_id, environment in ((0, ENVIRONMENT), (True, ENVIRONMENT), (2**64, ENVIRONMENT), (1, "a b"), (1, 7)):
            with pytest.raises(tayho.ArgumentRefused):
                await tayho.enqueue(tx, "counter.record", "other", {}, chain_id=chain_id, environment=environment)  # pyright: ignore[reportArgumentType]
    (line,) = await plane.coordination.list_recent()
    assert (line.job_id, line.role, tayho.role_of("counter.record")) == (answer.job_id, "automation", "automation")


def test_kinds_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: an enqueue in a request handler does not scan what is installed. Method: forget, look up twice, count."""
    loads: list[int] = []
    monkeypatch.setattr("tayho.plugins.load_kinds", lambda: loads.append(1) or [])
    embedding._registered_roles.cache_clear()
    try:
        for _ in range(2):
            with pytest.raises(tayho.UnknownKind, match="registered: none"):
                tayho.role_of("kind")
    finally:
        embedding._registered_roles.cache_clear()
    assert loads == [1]


async def test_publishers_hear_of_it_at_the_commit_and_only_if_asked(plane: Plane) -> None:
    """Goal: a commit wakes, a rollback and a repetition do not. Method: listen; enqueue in transactions that roll back,
    that ask for no wake, that repeat; the one notification is of the one that made a job and asked for it."""
    heard: list[str] = []

    async def notified_by(key: str, wake: bool, commits: bool) -> None:
        with trio.CancelScope():
            async with plane.database.transaction() as tx:
                await tayho.enqueue(tx, "kind", key, {}, role=ROLE, wake=wake, **PLACE)
                await tx.fetch("SELECT pg_notify('tayho_control', $1)", f"{key} {wake}")
                if not commits:
                    raise _Undone

    async with trio.open_nursery() as tasks:
        listening = ["tayho_outbox", "tayho_control"]
        tasks.start_soon(plane.database.listen, listening, lambda channel, payload: heard.append(payload or channel))

        async def is_listening() -> bool:
            async with plane.database.connection() as connection:
                await connection.fetch("SELECT pg_notify('tayho_control', 'ready')")
            return "ready" in heard

        await until(is_listening, what="the listener to hear")
        with pytest.raises(_Undone):
            await notified_by("undone", wake=True, commits=False)
        await notified_by("quiet", wake=False, commits=True)
        await notified_by("loud", wake=True, commits=True)
        await notified_by("loud", wake=True, commits=True)
        await until(lambda: heard.count("loud True") == 2, what="the last commit to be heard of")
        tasks.cancel_scope.cancel()
    assert [text for text in heard if text != "ready"] == ["quiet False", "tayho_outbox", "loud True", "loud True"]


class _Undone(Exception):
    pass


async def test_what_is_due_in_the_past_is_due_now(plane: Plane) -> None:
    """Goal: an old date buys no place before the others. Method: enqueue for long ago; the job's time is the time of
    its enqueueing on PostgreSQL's clock."""
    async with plane.database.transaction() as tx:
        await tayho.enqueue(
            tx, "kind", "key", {}, role=ROLE, run_at=datetime(1999, 12, 31, tzinfo=UTC), priority=PRIORITY_MAX, **PLACE
        )
        (row,) = await tx.fetch(
            "SELECT clock_timestamp() - run_at AS age, due_at = run_at AS is_due_then FROM coordination.jobs"
            " JOIN coordination.outbox USING (job_id)"
        )
    assert timedelta(0) <= row["age"] < timedelta(seconds=5)
    assert row["is_due_then"]
