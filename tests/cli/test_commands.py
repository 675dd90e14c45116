"""The small commands: schema and jobs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.crash.world import ENVIRONMENT, World
from tests.services.chain import CHAIN_ID

pytestmark = pytest.mark.services


def _tayho(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tayho", *arguments],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_migrating_twice_applies_once_and_then_everything_agrees(empty_database_url: str) -> None:
    """Goal: OPS-1 from the command line. Method: migrate, migrate again, check, snapshot."""
    first = json.loads(_tayho("db", "migrate", "--json", DATABASE_URL=empty_database_url).stdout)
    again = json.loads(_tayho("db", "migrate", "--json", DATABASE_URL=empty_database_url).stdout)
    assert len(first["applied"]) >= 3
    assert again == {"applied": []}
    assert _tayho("db", "check", DATABASE_URL=empty_database_url).returncode == 0
    snapshot = _tayho("db", "snapshot", DATABASE_URL=empty_database_url).stdout
    assert "coordination.jobs" in snapshot


def test_schema_commands_without_a_database_say_so(empty_database_url: str) -> None:
    """Goal: one clear line. Method: no variable, and a malformed one that holds a password."""
    for environment in ({}, {"DATABASE_URL": "mysql://root:hunter2@localhost/x"}):
        ended = _tayho("db", "migrate", **environment)
        assert ended.returncode == 2
        assert "DATABASE_URL" in ended.stderr
        assert "hunter2" not in ended.stderr


async def test_jobs_are_listed_and_inspected_without_their_bytes(crashing: World, database_url: str) -> None:
    """Goal: an operator sees a job whole, and never a signed byte. Method: run a job; list and inspect it as JSON."""
    (job_id,) = await crashing.enqueue("key", 1)
    replica = await crashing.start()
    await crashing.await_all_ended([job_id])
    replica.terminate()
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": crashing.redis_url,
        "CHAIN_ID": str(CHAIN_ID),
        "ENVIRONMENT": ENVIRONMENT,
        "RPC_URL": "http://127.0.0.1:9",
    }
    listed = _tayho("jobs", "list", "--json", "--state", "completed", **environment)
    assert [json.loads(line)["job_id"] for line in listed.stdout.splitlines()] == [str(job_id)], listed.stderr
    inspected = _tayho("jobs", "inspect", str(job_id), "--json", **environment)
    whole = json.loads(inspected.stdout)
    assert whole["job"]["state"] == "completed"
    (lineage,) = whole["lineages"]
    assert lineage["state"] == "mined"
    assert lineage["members"][0]["broadcasts"] >= 1
    async with crashing.database.connection() as connection:
        ciphertext = await connection.fetchval("SELECT ciphertext FROM transactions.members")
    assert ciphertext.hex() not in inspected.stdout
    missing = _tayho("jobs", "inspect", "00000000-0000-7000-8000-000000000000", **environment)
    assert missing.returncode == 1
