"""Our worker and a Node BullMQ producer or worker share one job, and PostgreSQL stays right (must-show 5)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio

from storage.records import RecordState, delivery_id
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome
from tests.coordination.conftest import ROLE, Plane, plane
from tests.coordination.test_worker import at_work
from tests.waiting import until

__all__ = ["plane"]

pytestmark = pytest.mark.services

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("node_side.mjs")


async def _node(redis_url: str, verb: str, **arguments: object) -> Any:
    parts = urlsplit(redis_url)
    connection = {"host": parts.hostname, "port": parts.port, "password": parts.password}
    target = json.dumps({"connection": connection, "prefix": "{tayho}", "name": ROLE})
    package = str(ROOT / "tools" / "node" / "package.json")
    ended = await trio.run_process(
        ["node", str(SCRIPT), package, target, verb, json.dumps(arguments)],
        capture_stdout=True,
        stdin=subprocess.DEVNULL,
    )
    return json.loads(ended.stdout.decode().splitlines()[-1])


async def _complete(job: Job, attempt: Attempt) -> Outcome:
    await trio.lowlevel.checkpoint()
    return Completed({"n": job.request["n"]})


async def test_our_worker_completes_a_record_that_node_added(plane: Plane, redis_url: str) -> None:
    """Goal: a Node producer may deliver a job of ours. Method: the job is in PostgreSQL, our publisher has not seen it;
    Node adds its record; the worker runs it, and Node sees the record completed."""
    job_id = await plane.enqueue("key", n=7)
    async with plane.database.connection() as connection:
        await connection.execute("UPDATE coordination.outbox SET due_at = now() + interval '1 hour'")
    record = {"name": "kind", "data": {}, "opts": {"jobId": delivery_id(job_id, 1), "priority": 5, "attempts": 3}}
    async with at_work(plane, _complete):
        await _node(redis_url, "add", jobs=[record], bulk=False, await_results=False)

        async def completed() -> bool:
            return await plane.state(job_id) == "completed"

        await until(completed, seconds=15, what="the job to complete")

        async def acknowledged() -> bool:
            return await plane.queue.states([delivery_id(job_id, 1)]) == [RecordState.COMPLETED]

        await until(acknowledged, seconds=10, what="the record to be completed")
    seen = await _node(redis_url, "look", ids=[delivery_id(job_id, 1)])
    assert seen["states"] == ["completed"]


async def test_a_record_that_node_completed_gets_a_new_generation_and_the_job_still_runs(
    plane: Plane, redis_url: str
) -> None:
    """Goal: only PostgreSQL ends a job. Method: a Node worker takes our record and completes it; the delivery check
    publishes the next generation, which our worker runs."""
    job_id = await plane.enqueue("key", n=7)
    await plane.publisher().publish_due()
    done = await _node(redis_url, "work", count=1)
    assert done["done"][0]["id"] == delivery_id(job_id, 1)
    assert await plane.state(job_id) == "queued"
    await plane.make_due()
    async with at_work(plane, _complete):

        async def completed() -> bool:
            return await plane.state(job_id) == "completed"

        await until(completed, seconds=15, what="the job to complete")
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert record.generation == 2
