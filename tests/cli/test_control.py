"""The commands of an incident, as processes: explain, dead, replay, cancel, queues, limits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import TypeAlias
from uuid import UUID

import pytest
import trio

from nursery.drain import Drain
from storage.database import Database
from storage.records import Delivery, delivery_id
from tayho.coordination.attempts import begin
from tayho.coordination.module import JobReader, enqueue_jobs
from tayho.coordination.types import NewJob
from tayho.coordination.workers import WorkerRow
from tayho.kernel.ids import new_id

pytestmark = pytest.mark.services

CHAIN_ID, ENVIRONMENT, ROLE = 31337, "incident", "automation"
Ended: TypeAlias = subprocess.CompletedProcess[str]
Tayho: TypeAlias = Callable[..., Ended]


def _run(environment: dict[str, str], *arguments: str, stdin: str | None = None) -> Ended:
    return subprocess.run(
        [sys.executable, "-m", "tayho", *arguments],
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "200", "USER": "ada", **environment},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def tayho(database_url: str, redis_url: str) -> Tayho:
    """The command, in the environment of this test's database and Redis."""
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "CHAIN_ID": str(CHAIN_ID),
        "ENVIRONMENT": ENVIRONMENT,
        "RPC_URL": "http://127.0.0.1:9",
    }
    return partial(_run, environment)


async def _enqueue(database: Database, count: int, **changes: object) -> list[UUID]:
    jobs = [NewJob("kind", ROLE, f"key-{number:02}", {}, **changes) for number in range(count)]  # type: ignore[arg-type]
    return [one.job_id for one in await enqueue_jobs(database, CHAIN_ID, ENVIRONMENT, jobs)]


async def _begin(database: Database, job_id: UUID) -> None:
    """An attempt of a worker that says nothing more."""
    row = WorkerRow(database, new_id(), Drain(seconds=1))
    await row.register("silent", CHAIN_ID, ENVIRONMENT, [ROLE], "0")
    delivery = Delivery(delivery_id(job_id, 1), new_id().hex, "kind", {}, 0, 3, 0, None, None, {})
    (begun,) = await begin(
        database,
        database,
        [delivery],
        worker_id=row.worker_id,
        attempts_max=3,
        chain_id=CHAIN_ID,
        environment=ENVIRONMENT,
        kinds=["kind"],
    )
    assert begun.verdict == "begun"


async def _state(database: Database, job_id: UUID) -> str:
    record = await JobReader(database, CHAIN_ID, ENVIRONMENT).inspect(job_id)
    assert record is not None
    return record.state


async def _actor(database: Database) -> str:
    async with database.connection() as connection:
        return await connection.fetchval(
            "SELECT actor FROM coordination.operator_actions ORDER BY action_id DESC LIMIT 1"
        )


async def test_a_job_is_explained_for_people_and_for_programs(database: Database, tayho: Tayho) -> None:
    """Goal: one look says what to do. Method: a job without a worker, in words and as JSON; an id that is none."""
    (job_id,) = await _enqueue(database, 1)
    said = tayho("jobs", "explain", str(job_id))
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("queued: No process of the role automation is alive here.")
    assert "tayho run automation" in said.stdout
    document = json.loads(tayho("jobs", "explain", str(job_id), "--json").stdout)
    assert [cause["code"] for cause in document["causes"]] == ["no_worker", "unpublished"]
    unknown = tayho("jobs", "explain", str(new_id()))
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "there is no job" in unknown.stderr


async def test_an_incident_from_cancel_to_replay(database: Database, tayho: Tayho) -> None:
    """Goal: the life of a mistake. Method: cancel two jobs by id, see them among the dead, explain one, replay it, be
    refused the second time; the deeds carry the login name, or the one that is given."""
    first, second, third = await _enqueue(database, 3)
    cancelled = tayho("jobs", "cancel", str(first), str(second), "--reason", "a mistake", "--json")
    assert cancelled.returncode == 0, cancelled.stderr
    assert json.loads(cancelled.stdout) == {"cancelled": 2, "ended_first": {}, "unanswered": [], "refused": {}}
    assert await _actor(database) == "ada"
    dead = [json.loads(line) for line in tayho("jobs", "dead", "--json").stdout.splitlines()]
    # Made in one moment, they may stand in either order.
    assert {line["job_id"] for line in dead} == {str(second), str(first)}
    assert dead[0]["last_error"]["message"] == "cancelled by ada: a mistake"
    assert tayho("jobs", "dead", "--error", "Boom", "--json").stdout == ""
    assert str(first) in tayho("jobs", "dead").stdout
    assert "jobs replay" in tayho("jobs", "explain", str(first)).stdout
    replayed = tayho("jobs", "replay", str(first), str(third), "--actor", "bob", "--json")
    assert replayed.returncode == 1, "one of the two is not dead"
    document = json.loads(replayed.stdout)
    assert (document["replayed"], list(document["refused"])) == (1, [str(third)])
    assert "is queued, and only a dead job" in replayed.stderr
    assert await _actor(database) == "bob"
    assert [await _state(database, job_id) for job_id in (first, second, third)] == ["queued", "dead", "queued"]


async def test_many_jobs_are_shown_before_they_are_changed(database: Database, tayho: Tayho) -> None:
    """Goal: no bulk operation by accident. Method: without --yes only the preview comes, and exit 1; with it the jobs
    that match are changed; neither a filter nor ids, or both, is a usage error."""
    job_ids = await _enqueue(database, 7, tags=("bad",))
    (other,) = [
        one.job_id for one in await enqueue_jobs(database, CHAIN_ID, ENVIRONMENT, [NewJob("other", ROLE, "other", {})])
    ]
    shown = tayho("jobs", "cancel", "--tag", "bad", "--reason", "x")
    assert shown.returncode == 1
    assert "To cancel: 7 jobs (7 kind)" in shown.stdout
    assert "add --yes" in shown.stderr
    preview = json.loads(tayho("jobs", "cancel", "--tag", "bad", "--reason", "x", "--json").stdout)
    assert (preview["preview"]["jobs"], len(preview["preview"]["sample"]), preview["done"]) == (7, 5, None)
    assert {await _state(database, job_id) for job_id in job_ids} == {"queued"}
    done = tayho("jobs", "cancel", "--tag", "bad", "--reason", "x", "--yes", "--json")
    assert (done.returncode, json.loads(done.stdout)["cancelled"]) == (0, 7)
    assert {await _state(database, job_id) for job_id in job_ids} == {"dead"}
    assert await _state(database, other) == "queued"
    again = tayho("jobs", "replay", "--error", "Cancelled", "--yes")
    assert (again.returncode, again.stdout) == (0, "7 jobs are queued again\n")
    assert tayho("jobs", "replay", "--all", "--yes", "--json").stdout == '{"replayed": 0, "refused": {}}\n'
    for arguments in ((), (str(job_ids[0]), "--kind", "kind"), (str(job_ids[0]), "--all")):
        assert tayho("jobs", "replay", *arguments).returncode == 2, arguments
    assert tayho("jobs", "cancel", "--all").returncode == 2, "a cancellation needs its reason"
    assert tayho("jobs", "replay", "--created-from", "yesterday").returncode == 2


async def test_a_cancellation_that_nobody_answers_is_told(database: Database, tayho: Tayho) -> None:
    """Goal: recorded is not stopped. Method: a job whose worker is silent; exit 4 after the wait, and its id."""
    (job_id,) = await _enqueue(database, 1)
    await _begin(database, job_id)
    ended = tayho("jobs", "cancel", str(job_id), "--reason", "x", "--wait", "1", "--json")
    assert ended.returncode == 4, ended.stderr
    assert json.loads(ended.stdout)["unanswered"] == [str(job_id)]
    assert "to be cancelled" in tayho("jobs", "explain", str(job_id)).stdout
    said = tayho("jobs", "cancel", str(job_id), "--reason", "x", "--wait", "0")
    assert (said.returncode, "the request stands" in said.stdout) == (4, True)


async def test_a_cancellation_waits_for_the_answer(database: Database, tayho: Tayho) -> None:
    """Goal: exit 0 says that the handler has stopped. Method: the answer is written while the command waits: by another
    delivery of the job, which finds the request."""
    (job_id,) = await _enqueue(database, 1)
    await _begin(database, job_id)
    ended: list[Ended] = []

    async def cancel() -> None:
        run = partial(tayho, "jobs", "cancel", str(job_id), "--reason", "x", "--json")
        ended.append(await trio.to_thread.run_sync(run))

    async with trio.open_nursery() as tasks:
        tasks.start_soon(cancel)
        while True:
            async with database.connection() as connection:
                if await connection.fetchval("SELECT cancel_requested_at FROM coordination.jobs"):
                    break
        delivery = Delivery(delivery_id(job_id, 1), new_id().hex, "kind", {}, 0, 3, 0, None, None, {})
        row = WorkerRow(database, new_id(), Drain(seconds=1))
        await row.register("second", CHAIN_ID, ENVIRONMENT, [ROLE], "0")
        named = {"attempts_max": 3, "chain_id": CHAIN_ID, "environment": ENVIRONMENT, "kinds": ["kind"]}
        await begin(database, database, [delivery], worker_id=row.worker_id, **named)  # type: ignore[arg-type]
    assert (ended[0].returncode, json.loads(ended[0].stdout)["cancelled"]) == (0, 1)


async def test_queues_are_paused_listed_and_resumed(database: Database, tayho: Tayho) -> None:
    """Goal: the big switch. Method: pause a role and a kind, twice; list; explain a job; resume; no such role."""
    (job_id,) = await _enqueue(database, 1)
    assert tayho("queues", "pause", ROLE, "--reason", "the node lies").stdout == "automation is paused\n"
    twice = tayho("queues", "pause", ROLE, "--reason", "again", "--json")
    assert (twice.returncode, json.loads(twice.stdout)["changed"]) == (0, False)
    assert tayho("queues", "pause", ROLE, "--kind", "kind", "--reason", "a bug").returncode == 0
    listed = json.loads(tayho("queues", "list", "--json").stdout)
    assert [(one["kind"], one["reason"], one["actor"]) for one in listed["pauses"]] == [
        ("", "the node lies", "ada"),
        ("kind", "a bug", "ada"),
    ]
    assert [(one["role"], one["jobs"], one["unpublished"]) for one in listed["backlogs"]] == [(ROLE, 1, 1)]
    assert "the node lies" in tayho("queues", "list").stdout
    assert "paused by ada: the node lies" in tayho("jobs", "explain", str(job_id)).stdout
    assert tayho("queues", "resume", ROLE).stdout == "automation is resumed\n"
    assert tayho("queues", "resume", ROLE).stdout == "automation was not paused\n"
    assert tayho("queues", "pause", "automaton", "--reason", "x").returncode == 2
    assert tayho("queues", "pause", ROLE).returncode == 2, "a pause needs its reason"


async def test_limits_are_set_listed_and_removed(database: Database, tayho: Tayho) -> None:
    """Goal: hold one tenant. Method: set, list, remove, remove again; numbers without sense."""
    await _enqueue(database, 2, limit_key="tenant-7")
    assert tayho("limits", "set", "tenant-7", "--concurrent", "2", "--rate", "5", "--per-seconds", "60").returncode == 0
    (line,) = [json.loads(one) for one in tayho("limits", "list", "--json").stdout.splitlines()]
    assert line == {
        "limit_key": "tenant-7",
        "concurrent_max": 2,
        "rate_max": 5,
        "rate_seconds": 60,
        "starts_left": 5,
        "in_flight": 0,
        "waiting": 2,
    }
    assert "5 in 60 s" in tayho("limits", "list").stdout
    assert tayho("limits", "remove", "tenant-7").returncode == 0
    gone = tayho("limits", "remove", "tenant-7")
    assert (gone.returncode, "has no limit" in gone.stderr) == (1, True)
    for arguments in ((), ("--rate", "5"), ("--concurrent", "0")):
        refused = tayho("limits", "set", "tenant-7", *arguments)
        assert refused.returncode == 2, arguments
        assert "Traceback" not in refused.stderr


async def test_an_instance_is_listed_drained_and_undrained(database: Database, tayho: Tayho) -> None:
    """Goal: one replica from outside, by somebody with a name (OPS-6, OPS-9). Method: a process that beats is listed,
    drained without a name (refused), drained in vain within a second (exit 4), undrained, undrained again; an unknown
    one is refused; what was done is recorded with who did it."""
    row = WorkerRow(database, new_id(), Drain(seconds=1))
    await row.register("web-1", CHAIN_ID, ENVIRONMENT, [ROLE], "0")
    (listed,) = [json.loads(one) for one in tayho("jobs", "instances", "--json").stdout.splitlines()]
    assert (listed["instance_id"], listed["worker_id"], listed["draining"]) == ("web-1", str(row.worker_id), False)
    nobody = tayho("jobs", "drain", "web-1")
    assert (nobody.returncode, "OPERATOR_ID" in nobody.stderr) == (2, True)
    assert await _count(database, "coordination.operator_actions") == 0
    waited = tayho("jobs", "drain", "web-1", "--wait", "1", "--actor", "bob", "--json")
    assert (waited.returncode, json.loads(waited.stdout)["is_through"]) == (4, False)
    assert await _actor(database) == "bob"
    assert (await row.heartbeat([], is_idle=True)).is_drained
    again = tayho("jobs", "drain", "web-1", "--wait", "1", "--actor", "bob")
    assert (again.returncode, "nothing in hand" in again.stdout) == (0, True)
    environment = {**tayho.args[0], "OPERATOR_ID": "ada"}  # type: ignore[attr-defined]
    undrained = _run(environment, "jobs", "undrain", str(row.worker_id), "--json")
    assert (undrained.returncode, json.loads(undrained.stdout)["undrained"]["changed"]) == (0, True)
    assert await _actor(database) == "ada"
    assert "was not drained" in _run(environment, "jobs", "undrain", "web-1").stdout
    unknown = _run(environment, "jobs", "undrain", "web-2")
    assert (unknown.returncode, "tayho jobs instances" in unknown.stderr) == (1, True)
    assert await _count(database, "coordination.operator_actions") == 2


async def _count(database: Database, table: str) -> int:
    async with database.connection() as connection:
        return await connection.fetchval(f"SELECT count(*) FROM {table}")


def test_without_a_database_the_commands_say_so(tayho: Tayho, redis_url: str) -> None:
    """Goal: one line and exit 3, no password. Method: an address where nobody listens."""
    environment = {
        "DATABASE_URL": "postgresql://user:hunter2@127.0.0.1:9/tayho",
        "REDIS_URL": redis_url,
        "CHAIN_ID": str(CHAIN_ID),
        "ENVIRONMENT": ENVIRONMENT,
        "RPC_URL": "http://127.0.0.1:9",
    }
    for command in (
        ("jobs", "explain", str(new_id())),
        ("jobs", "replay", str(new_id())),
        ("queues", "list"),
        ("limits", "list"),
    ):
        ended = _run(environment, *command)
        assert ended.returncode == 3, ended.stderr
        assert "Traceback" not in ended.stderr
        assert "hunter2" not in ended.stderr
