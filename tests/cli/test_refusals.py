"""Bad input is refused with one clear line that names it, and nothing is half done (must-show 8)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from nursery.asyncio_bridge import open_bridge
from storage.connection import Connection
from storage.server import connect
from tayho.local.anvil import Chain, anvil
from tests.crash.world import environment_of
from tests.services.chain import LocalChain
from tests.services.launch import Launched
from tests.services.plug_in import plug_in
from tests.services.redis import ask

pytestmark = pytest.mark.services

CONFIGURATION, ENVIRONMENT = 2, 3


@pytest.fixture
def good(database_url: str, redis_url: str, chain: LocalChain) -> dict[str, str]:
    """Variables with which a replica would start."""
    return environment_of(database_url, redis_url, chain.url)


def _tayho(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tayho", *arguments],
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _refused(ended: subprocess.CompletedProcess[str], code: int, *names: str) -> list[str]:
    """The refusal's lines: each names what it is about, none is a traceback."""
    lines = [line for line in ended.stderr.splitlines() if line.startswith("tayho: ")]
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    for name in names:
        assert any(name in line for line in lines), (name, lines)
    return lines


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"CHAIN_ID": None}, ["CHAIN_ID"]),
        ({"CHAIN_ID": "one"}, ["CHAIN_ID"]),
        ({"QUEUE_CONCURRENCY": "0"}, ["QUEUE_CONCURRENCY"]),
        ({"REDIS_URL": None}, ["REDIS_URL"]),
        ({"DATABASE_URL": None}, ["DATABASE_URL"]),
        ({"SIGNER_KEYS": '["0x12"]'}, ["SIGNER_KEYS"]),
        ({"TX_MAX_FEE_PER_GAS_WEI": None}, ["TX_MAX_FEE_PER_GAS_WEI"]),
        ({"ENVIRONMENT": "live"}, ["RPC_READ_URLS"]),
        ({"CHAIN_ID": "x", "HTTP_BIND": "nowhere", "DRAIN_SECONDS": "-1"}, ["CHAIN_ID", "HTTP_BIND", "DRAIN_SECONDS"]),
    ],
    ids=[
        "missing",
        "malformed",
        "out of range",
        "one URL",
        "the other URL",
        "half a key",
        "no ceiling",
        "live with one voter",
        "three at once",
    ],
)
def test_a_bad_variable_is_named_with_exit_code_2(
    good: dict[str, str], change: dict[str, str | None], names: list[str]
) -> None:
    """Goal: configuration errors, all at once. Method: change a good environment; read exit code and stderr."""
    environment = {name: value for name, value in {**good, **change}.items() if value is not None}
    ended = _tayho("run", "automation", environment=environment)
    lines = _refused(ended, CONFIGURATION, *names)
    assert all(good["SIGNER_KEYS"][20:60] not in line for line in lines)


def test_an_unknown_role_is_refused(good: dict[str, str]) -> None:
    """Goal: a misspelt role is told with the known ones. Method: run one."""
    lines = _refused(_tayho("run", "automaton", environment=good), CONFIGURATION, "ROLE")
    assert "automation" in lines[0]


def test_another_chain_behind_the_url_is_refused_with_exit_code_3(good: dict[str, str]) -> None:
    """Goal: wrong chain id. Method: expect chain 5 of a node that serves 31337."""
    _refused(_tayho("run", "automation", environment={**good, "CHAIN_ID": "5"}), ENVIRONMENT, "31337", "5")


def test_an_endpoint_for_reads_of_another_chain_is_refused(
    good: dict[str, str], chain: LocalChain, tmp_path: Path
) -> None:
    """Goal: no process starts with a voter of another chain. Method: a second node, of chain 5, among the read URLs."""
    launched: list[str] = []

    async def start() -> None:
        async with anvil(tmp_path, Chain(chain_id=5)) as other:
            reads = f"{chain.url},{other.service.url}"
            ended = await trio.to_thread.run_sync(
                lambda: _tayho("run", "automation", environment={**good, "RPC_READ_URLS": reads})
            )
            launched.extend(_refused(ended, ENVIRONMENT, "serves chain id 5, expected 31337"))

    trio.run(start)
    assert len(launched) == 1


def test_endpoints_for_reads_that_are_all_down_are_refused(good: dict[str, str]) -> None:
    """Goal: without one endpoint to read from there is nothing to begin. Method: two URLs where nobody listens."""
    reads = "http://127.0.0.1:1,http://localhost:2"
    lines = _refused(_tayho("run", "automation", environment={**good, "RPC_READ_URLS": reads}), ENVIRONMENT)
    assert len(lines) == 2


def test_a_redis_that_evicts_is_refused(good: dict[str, str], redis_server: Launched) -> None:
    """Goal: noeviction is demanded. Method: allow eviction on the real server, start, set it back."""
    with _policy(redis_server, "allkeys-lru"):
        _refused(_tayho("run", "automation", environment=good), ENVIRONMENT, "noeviction")


def test_unreachable_services_are_told_together(good: dict[str, str]) -> None:
    """Goal: one start shows every problem. Method: three addresses where nobody listens; no password in the output."""
    environment = {
        **good,
        "DATABASE_URL": "postgresql://user:hunter2@127.0.0.1:9/tayho",
        "REDIS_URL": "redis://:hunter2@127.0.0.1:9/0",
        "RPC_URL": "http://127.0.0.1:9/hunter2",
    }
    ended = _tayho("run", "automation", environment=environment)
    lines = _refused(ended, ENVIRONMENT, "PostgreSQL", "Redis", "127.0.0.1:9")
    assert len(lines) >= 3
    assert "hunter2" not in ended.stderr


def test_a_database_without_our_schema_is_refused_and_left_alone(good: dict[str, str], empty_database_url: str) -> None:
    """Goal: a process never migrates. Method: start on an empty database; then look that it is still empty."""
    ended = _tayho("run", "automation", environment={**good, "DATABASE_URL": empty_database_url})
    (line,) = _refused(ended, ENVIRONMENT, "migrate")
    assert "behind" in line or "version 0" in line or "0" in line
    check = _tayho("db", "migrate", "--json", environment={"DATABASE_URL": empty_database_url})
    assert "0001" in check.stdout, "the start must not have applied anything"


async def test_a_database_ahead_of_us_is_refused(good: dict[str, str], database_url: str) -> None:
    """Goal: an older release does not work on a newer schema. Method: record a migration that this release has not."""
    async with open_bridge(), connect(database_url, application_name="tests") as raw:
        await Connection(raw, in_transaction=False).execute(
            "INSERT INTO tayho.schema_migrations (version, name, checksum, applied_by)"
            " VALUES (9999, 'from_the_future', sha256('x'), 'test')"
        )
    ended = _tayho("run", "automation", environment=good)
    _refused(ended, ENVIRONMENT, "9999")


def test_schedules_that_cannot_run_are_refused_together(good: dict[str, str], tmp_path: Path) -> None:
    """Goal: a plug-in's bad declaration never starts half. Method: install two kinds whose schedules have four faults;
    each is named, with exit code 3, and nothing is recorded."""
    source = (
        "from tayho.kinds import Schedule\n"
        "class Scan:\n"
        "    name, role = 'planted.scan', 'automation'\n"
        "    schedules = (Schedule(name='a', cron='99 * * * *', time_zone='Mars/Base'),"
        " Schedule(name='b', every_seconds=0))\n"
        "    async def run(self, job, reads): ...\n"
        "class Probe(Scan):\n"
        "    name = 'planted.probe'\n"
        "    schedules = 'every day'\n"
    )
    environment = {**good, "PYTHONPATH": plug_in(tmp_path, source, "Scan", "Probe")}
    ended = _tayho("run", "automation", environment=environment)
    lines = _refused(ended, ENVIRONMENT, "minute", "Mars/Base", "every_seconds=0", "planted.probe")
    assert len(lines) == 4


def test_an_address_in_use_is_refused(good: dict[str, str], chain: LocalChain) -> None:
    """Goal: HTTP_BIND is told before anything is begun. Method: bind to the node's own port."""
    address = chain.url.removeprefix("http://")
    _refused(_tayho("run", "automation", environment={**good, "HTTP_BIND": address}), ENVIRONMENT, "HTTP_BIND")


def test_config_check_shows_everything_and_no_secret(good: dict[str, str]) -> None:
    """Goal: the effective configuration for a person. Method: run it; known values are there, secrets are not."""
    ended = _tayho("config", "check", "automation", "--json", environment=good)
    assert ended.returncode == 0, ended.stderr
    assert "TX_CONFIRMATIONS" in ended.stdout
    assert "5a" * 16 not in ended.stdout
    assert "ac0974bec39a17e3" not in ended.stdout


@contextmanager
def _policy(server: Launched, policy: str) -> Iterator[None]:
    assert ask(server.url, f"CONFIG SET maxmemory-policy {policy}") == "+OK"
    try:
        yield
    finally:
        assert ask(server.url, "CONFIG SET maxmemory-policy noeviction") == "+OK"


def test_a_live_process_does_not_run_as_the_owner(good: dict[str, str]) -> None:
    """Goal: no process that is broken into can change the schema or its history (OPS-2). Method: a role without keys,
    in ENVIRONMENT=live, with the login that migrated."""
    environment = {name: value for name, value in good.items() if not name.startswith(("SIGNER", "TX_"))}
    ended = _tayho("run", "notifier", environment={**environment, "ENVIRONMENT": "live"})
    _refused(ended, ENVIRONMENT, "owns the schema")
