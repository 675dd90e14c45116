"""The small commands: schema, jobs, schedules."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest
import trio

from nursery.asyncio_bridge import open_bridge
from nursery.drain import Drain
from storage.database import Database
from storage.delivery import DeliveryQueue
from tayho.coordination.module import Coordination
from tayho.coordination.types import Declared, WorkerSettings
from tayho.kernel.schedule import Schedule
from tests.crash.world import ENVIRONMENT, World
from tests.identities.conftest import as_owner, url_of
from tests.services.chain import CHAIN_ID, LocalChain
from tests.waiting import until

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
    assert again == {"applied": [], "logins": []}
    assert _tayho("db", "check", DATABASE_URL=empty_database_url).returncode == 0
    snapshot = _tayho("db", "snapshot", DATABASE_URL=empty_database_url).stdout
    assert "coordination.jobs" in snapshot


def test_a_fresh_database_is_qualified(empty_database_url: str) -> None:
    """Goal: OPS-2 from the command line. Method: migrate with two logins, prove both, break one thing."""
    names = {identity: f"{identity}_{uuid4().hex[:8]}" for identity in ("runtime", "auditor")}
    urls = {f"{one.upper()}_DATABASE_URL": url_of(empty_database_url, name) for one, name in names.items()}
    migrated = json.loads(_tayho("db", "migrate", "--json", DATABASE_URL=empty_database_url, **urls).stdout)
    assert migrated["logins"] == list(names.values())
    proven = _tayho("db", "qualify", **urls)
    assert proven.returncode == 0, proven.stdout
    assert "FAILED" not in proven.stdout
    trio.run(_bridged, empty_database_url, f"ALTER ROLE {names['auditor']} CREATEDB")
    broken = _tayho("db", "qualify", "--json", **urls)
    assert broken.returncode == 1
    failed = [proof["claim"] for proof in json.loads(broken.stdout)["proofs"] if not proof["holds"]]
    assert failed == ["is not CREATEDB"]
    for name in names.values():
        trio.run(_bridged, empty_database_url, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")
    assert _tayho("db", "qualify").returncode == 2


async def _bridged(url: str, *statements: str) -> None:
    async with open_bridge():
        await as_owner(url, *statements)


def test_schema_commands_without_a_database_say_so(empty_database_url: str) -> None:
    """Goal: one clear line. Method: no variable, and a malformed one that holds a password."""
    for environment in ({}, {"DATABASE_URL": "mysql://root:hunter2@localhost/x"}):
        ended = _tayho("db", "migrate", **environment)
        assert ended.returncode == 2
        assert "DATABASE_URL" in ended.stderr
        assert "hunter2" not in ended.stderr


@pytest.mark.parametrize("option", ["--json", "--seconds=1"])
def test_endpoints_are_shown_as_they_do_now(chain: LocalChain, option: str) -> None:
    """Goal: RPC-10 from the command line, without keys. Method: a node, the same under a key, nobody."""
    reads = f"{chain.url},{chain.url}/v2/0123456789abcdef,http://127.0.0.1:1"
    environment = {"CHAIN_ID": str(CHAIN_ID), "ENVIRONMENT": "local", "RPC_READ_URLS": reads, "COLUMNS": "200"}
    ended = _tayho("rpc", "status", "--seconds", "1", option, RPC_URL=chain.url, **environment)
    assert ended.returncode == 0, ended.stderr
    assert "0123456789abcdef" not in ended.stdout
    if option != "--json":
        assert "could not connect" in ended.stdout
        return
    first, _, down = [json.loads(line) for line in ended.stdout.splitlines()]
    assert first["head"] is not None
    assert first["methods"]["eth_blockNumber"]["latency_seconds"] > 0
    assert first["circuits"] == {"light": "closed", "state": "closed", "heavy": "closed"}
    assert first["score"] > down["score"]
    assert down["circuits"]["light"] == "open"
    assert "could not connect" in down["circuit_causes"]["light"]


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


async def test_schedules_are_listed_with_their_last_and_next_slot(database: Database, database_url: str) -> None:
    """Goal: an operator sees what fires when. Method: two schedules declared by a process; list them as JSON and as a
    table."""
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": "redis://127.0.0.1:9/0",
        "CHAIN_ID": str(CHAIN_ID),
        "ENVIRONMENT": ENVIRONMENT,
        "RPC_URL": "http://127.0.0.1:9",
        "COLUMNS": "200",
    }
    nightly = Schedule(name="nightly", cron="30 2 * * *", time_zone="Europe/Berlin")
    declared = [
        Declared(one, "planted.scan", "automation") for one in (nightly, Schedule(name="scan", every_seconds=60))
    ]
    coordination = Coordination(database, _no_queue, CHAIN_ID, ENVIRONMENT, WorkerSettings((), 1, 2, 2, 1, 250))
    drain = Drain(seconds=1)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(coordination.schedule, declared, drain)

        async def both() -> bool:
            return len(await coordination.list_schedules()) == 2

        await until(both, what="the schedules to be declared")
        drain.request("enough")
    listed = _tayho("schedules", "list", "--json", **environment)
    first, second = [json.loads(line) for line in listed.stdout.splitlines()]
    assert (first["name"], second["name"]) == ("nightly", "scan"), listed.stderr
    assert first["declaration"]["time_zone"] == "Europe/Berlin"
    assert first["last_slot_at"] is None
    assert datetime.fromisoformat(first["next_slot_at"]).astimezone(ZoneInfo("Europe/Berlin")).minute == 30
    shown = _tayho("schedules", "list", **environment).stdout
    for word in ("nightly", "30 2 * * *", "Europe/Berlin", "every 60 s", "a running process"):
        assert word in shown, shown


def _no_queue(_role: str) -> DeliveryQueue:
    raise AssertionError("a scheduler delivers nothing")


async def test_findings_are_listed_the_newest_first(database: Database, database_url: str) -> None:
    """Goal: an operator sees why no work is found. Method: two findings of two hours; as JSON and as a table, where a
    text that looks like markup stands as it is."""
    async with database.connection() as connection:
        await connection.execute(
            "INSERT INTO discovery.findings"
            " (chain_id, environment, kind, subject, name, detail, found_by, found_at, hour_at)"
            " SELECT 31337, 'local', 'funding.post', 'M/funding', name, '[red]no answer', 'a', hour_at, hour_at"
            " FROM (VALUES ('stale', timestamptz '2026-01-01 00:00Z'), ('silent', '2026-01-01 01:00Z'))"
            " AS f (name, hour_at)"
        )
    environment = {"DATABASE_URL": database_url, "REDIS_URL": "redis://nowhere", "RPC_URL": "http://nowhere"}
    environment |= {"CHAIN_ID": "31337", "ENVIRONMENT": "local"}
    listed = [json.loads(line) for line in _tayho("findings", "--json", **environment).stdout.splitlines()]
    assert [(one["name"], one["found_at"]) for one in listed] == [
        ("silent", "2026-01-01T01:00:00+00:00"),
        ("stale", "2026-01-01T00:00:00+00:00"),
    ]
    shown = _tayho("findings", "--limit", "1", **environment).stdout
    assert "[red]" in shown
    assert "stale" not in shown
