"""A replica's life as a process: health, drain, idleness."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request

import pytest
import trio

from tayho.demo.fleet import Replica
from tests.crash.world import World
from tests.waiting import until

pytestmark = pytest.mark.services


async def _address(replica: Replica) -> str:
    def listening() -> str | None:
        found = re.search(r'"http_listening".*?"bind": "([^"]+)"', replica.log.read_text())
        return found and found[1]

    await until(listening, seconds=30, what="the replica to listen")
    return f"http://{listening()}"


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - an address that we made
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def test_sigterm_in_the_middle_of_work_exits_0_in_time_and_loses_nothing(crashing: World) -> None:
    """Goal: must-show 10. Method: SIGTERM while transactions are in flight; exit code 0 within DRAIN_SECONDS; a second
    replica finishes what is left; every job has one effect."""
    job_ids = await crashing.enqueue("key", 30)
    first = await crashing.start()

    async def in_flight() -> bool:
        first.check()
        return (await crashing.jobs.count_by_state()).get("confirming", 0) > 0

    await until(in_flight, seconds=30, what="transactions in flight")
    first.terminate()
    with trio.fail_after(10):
        assert await first.process.wait() == 0
    await crashing.start()
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    assert set((await crashing.effects(job_ids)).values()) == {1}
    await crashing.check()


async def test_health_readiness_and_metrics_answer(crashing: World) -> None:
    """Goal: OPS-4. Method: a healthy replica is alive and ready and has metrics; when Redis may evict it is not ready
    and says why; it is alive all the while."""
    replica = await crashing.start()
    address = await _address(replica)
    assert (await trio.to_thread.run_sync(_get, f"{address}/healthz"))[0] == 200

    async def ready() -> bool:
        return (await trio.to_thread.run_sync(_get, f"{address}/readyz"))[0] == 200

    await until(ready, seconds=20, what="readiness")
    status, metrics = await trio.to_thread.run_sync(_get, f"{address}/metrics")
    assert status == 200
    assert "tayho_outbox_rows" in metrics
    assert "tayho_lane_next_nonce" in metrics
    async with crashing.database.connection() as connection:
        await connection.execute("UPDATE tayho.schema_migrations SET version = version + 1000 WHERE version > 1")

    async def refused() -> bool:
        status, body = await trio.to_thread.run_sync(_get, f"{address}/readyz")
        return status == 503 and any(reason["check"] == "schema" for reason in json.loads(body)["reasons"])

    await until(refused, seconds=20, what="readiness to be refused for the schema")
    assert (await trio.to_thread.run_sync(_get, f"{address}/healthz"))[0] == 200


async def test_flushall_in_the_middle_of_a_run_loses_nothing(crashing: World) -> None:
    """Goal: must-show 6. Method: Redis is emptied while a replica has transactions in flight; all jobs complete."""
    job_ids = await crashing.enqueue("key", 20)
    replica = await crashing.start()

    async def begun() -> bool:
        replica.check()
        return (await crashing.jobs.count_by_state()).get("queued", 20) < 20

    await until(begun, seconds=30, what="the first jobs to begin")
    await crashing.flushall()
    assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
    assert set((await crashing.effects(job_ids)).values()) == {1}
    await crashing.check()
