"""Opening Redis: what is refused, what is reported, and what is never shown."""

from pathlib import Path

import pytest
import trustme

from nursery.asyncio_bridge import open_bridge
from storage.errors import QueueUnavailable
from storage.redis_client import open_redis, problems_of
from storage.redis_url import RedisUrlInvalid, parse_redis_url
from tests.storage.redis_process import free_port, running_redis

PASSWORD = "s3cret-of-redis"
READY = {"redis_version": "7.0.15", "maxmemory_policy": "noeviction", "role": "master", "cluster_enabled": "0"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost", "localhost:6379 database 0"),
        (f"redis://user:{PASSWORD}@redis.example:7000/3", "redis.example:7000 database 3"),
        (f"rediss://:{PASSWORD}@[::1]:7000", "::1:7000 database 0"),
        ("rediss://redis.example?ssl_ca_certs=/etc/ca.pem&db=2", "redis.example:6379 database 2"),
        (f"unix://:{PASSWORD}@/run/redis.sock?db=4", "/run/redis.sock database 4"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    """Goal: secrets never in a message or repr. Method: every form, with a password where there can be one."""
    target = parse_redis_url(url)
    assert target.shown == shown
    assert PASSWORD not in repr(target)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        f"http://:{PASSWORD}@localhost",
        f"redis://:{PASSWORD}@",
        f"redis://:{PASSWORD}@localhost:port",
        f"redis://:{PASSWORD}@localhost:99999",
        f"redis://:{PASSWORD}@localhost/queue",
        f"redis://:{PASSWORD}@localhost/1/2",
        f"redis://:{PASSWORD}@localhost?db=one",
        f"redis://:{PASSWORD}@localhost?socket_timeout=5",
        f"redis://:{PASSWORD}@localhost?decode_responses=",
        f"redis://:{PASSWORD}@localhost?protocol=3",
        f"redis://:{PASSWORD}@localhost?retry_on_timeout=yes",
        "unix://",
        f"redis://user:{PASSWORD}@[localhost",
    ],
)
def test_a_url_that_redis_py_would_misread_is_refused(url: str) -> None:
    """Goal: no silent default, no override of what correctness rests on. Method: each misreading of redis-py."""
    with pytest.raises(RedisUrlInvalid) as refused:
        parse_redis_url(url)
    assert PASSWORD not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, None),
        ({"redis_version": "8.2.1"}, None),
        ({"redis_version": "6.2.14"}, "version 6.2.14: 7.0 or later"),
        ({"redis_version": "7"}, "version 7: 7.0 or later"),
        ({"redis_version": ""}, "version unknown"),
        ({"maxmemory_policy": "allkeys-lru"}, "maxmemory-policy is allkeys-lru"),
        ({"role": "slave"}, "replica"),
        ({"cluster_enabled": "1"}, "cluster node"),
    ],
)
def test_what_info_tells_is_judged(change: dict[str, str], told: str | None) -> None:
    """Goal: one clear sentence per problem. Method: a ready server's INFO with one line changed."""
    problems = problems_of({**READY, **change}, "here")
    assert problems == [] if told is None else len(problems) == 1 and told in problems[0]


def test_a_silent_server_is_not_taken_for_ready() -> None:
    """Goal: what is not proven is not assumed. Method: an INFO without any line."""
    assert len(problems_of({}, "here")) == 2


@pytest.mark.services
async def test_a_ready_server_reports_its_version_and_no_problem() -> None:
    """Goal: readiness passes on a right server. Method: a real one, over TCP and over its unix socket."""
    async with running_redis() as redis, open_bridge():
        for url in (redis.url, f"unix://{redis.socket}?db=3"):
            async with open_redis(url) as server:
                assert server.version is None
                assert await server.check() == []
                assert (server.version or "").split(".")[0].isdigit()


@pytest.mark.services
async def test_an_evicting_server_and_a_replica_are_reported() -> None:
    """Goal: issue 2, must show 8. Method: a real server with a wrong policy, then made a replica."""
    async with (
        running_redis("--maxmemory-policy", "allkeys-lru") as redis,
        open_bridge(),
        open_redis(redis.url) as server,
    ):
        [problem] = await server.check()
        assert "set it to noeviction" in problem
        await server.ask_one(["REPLICAOF", "127.0.0.1", "1"])
        assert len(await server.check()) == 2


@pytest.mark.services
async def test_an_absent_server_is_one_problem() -> None:
    """Goal: no traceback and no hang. Method: a port where nothing listens."""
    port = free_port()
    async with open_bridge(), open_redis(f"redis://:{PASSWORD}@127.0.0.1:{port}") as server:
        [problem] = await server.check()
        assert problem.startswith(f"Redis at 127.0.0.1:{port} database 0 cannot be reached")
        with pytest.raises(QueueUnavailable):
            await server.ask([["PING"]])


@pytest.mark.services
async def test_a_wrong_password_is_told_without_the_password() -> None:
    """Goal: a usable message without a secret. Method: a server with another password; then with none given."""
    async with running_redis("--requirepass", "right") as redis, open_bridge():
        for url in (f"redis://:{PASSWORD}@127.0.0.1:{redis.port}", redis.url):
            async with open_redis(url) as server:
                [problem] = await server.check()
                assert PASSWORD not in problem
                assert "WRONGPASS" in problem or "assword" in problem or "uthentication" in problem
        async with open_redis(f"redis://:right@127.0.0.1:{redis.port}") as server:
            assert await server.check() == []


@pytest.mark.services
async def test_tls_is_verified(tmp_path: Path) -> None:
    """Goal: rediss means a proven server. Method: a real TLS server under a test authority, known and unknown."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    port = free_port()
    options = ["--tls-port", str(port), "--tls-auth-clients", "no"]
    for name, file in (("cert", "cert"), ("key", "key"), ("ca-cert", "ca")):
        options += [f"--tls-{name}-file", str(tmp_path / f"{file}.pem")]
    async with running_redis(*options) as _, open_bridge():
        async with open_redis(f"rediss://127.0.0.1:{port}?ssl_ca_certs={tmp_path / 'ca.pem'}") as server:
            assert await server.check() == []
        async with open_redis(f"rediss://127.0.0.1:{port}") as server:
            [problem] = await server.check()
            assert "cannot be reached" in problem
