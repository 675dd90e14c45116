"""Opening Redis: what is refused, what is reported, and what is never shown."""

from pathlib import Path

import pytest
from redis.asyncio.connection import SSLConnection

from nursery.asyncio_bridge import open_bridge
from storage.errors import QueueUnavailable
from storage.redis_client import RedisServer, open_redis
from storage.redis_readiness import problems_of
from storage.redis_url import ClusterTarget, RedisUrlInvalid, SentinelTarget, is_cluster_url, parse_redis_url
from tests.storage.redis_process import free_port, running_redis, tls_options
from tests.storage.redis_sentinel import SERVICE, running_sentinel_of
from tests.waiting import until

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
        (
            f"redis+sentinel://user:{PASSWORD}@one,two:7000,[::1]/tayho/3?sentinel_password={PASSWORD}",
            "master tayho of sentinels one:26379, two:7000, [::1]:26379 database 3",
        ),
        ("rediss+sentinel://one/my.service", "master my.service of sentinels one:26379 database 0"),
        (f"redis+cluster://:{PASSWORD}@one,two:7000,one:6379", "cluster of one:6379, two:7000"),
        ("rediss+cluster://one/?ssl_ca_certs=/etc/ca.pem", "cluster of one:6379"),
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
        f"redis://user:12#{PASSWORD}@localhost",
        f"redis://user:12?ssl_keyfile={PASSWORD}@localhost",
        f"redis+sentinel://:{PASSWORD}@localhost",
        f"redis+sentinel://:{PASSWORD}@localhost/",
        f"redis+sentinel://:{PASSWORD}@localhost/tayho/one",
        f"redis+sentinel://:{PASSWORD}@localhost/tayho/1/2",
        f"redis+sentinel://:{PASSWORD}@/tayho",
        f"redis+sentinel://:{PASSWORD}@one,,two/tayho",
        f"redis+sentinel://:{PASSWORD}@one,two:0/tayho",
        f"redis+sentinel://:{PASSWORD}@one:65536/tayho",
        f"redis+sentinel://:{PASSWORD}@one;two/tayho",
        f"redis+sentinel://:{PASSWORD}@one/tayho?db=1",
        f"redis+sentinel://:{PASSWORD}@one/tayho?sentinel_username=a",
        f"redis+sentinel://:{PASSWORD}@one/tayho?socket_timeout=5",
        f"redis+sentinel://user:12/{PASSWORD}@one/tayho",
        f"redis+sentinel://user:12/tayho?{PASSWORD}@one/tayho",
        f"redis+sentinel://user:12,13/tayho?ssl_keyfile={PASSWORD}@one/tayho",
        f"redis+sentinel://user:12/tayho#{PASSWORD}@one/tayho",
        f"redis+cluster://:{PASSWORD}@",
        f"redis+cluster://:{PASSWORD}@one,two/0",
        f"redis+cluster://:{PASSWORD}@one?db=0",
        f"redis+cluster://:{PASSWORD}@one?sentinel_password={PASSWORD}",
        f"redis+cluster://:{PASSWORD}@one:port",
        f"redis+socket://:{PASSWORD}@one",
        f"unix+sentinel://:{PASSWORD}@one/tayho",
    ],
)
def test_a_url_that_redis_py_would_misread_is_refused(url: str) -> None:
    """Goal: no silent default, no override of what correctness rests on. Method: each misreading of redis-py."""
    with pytest.raises(RedisUrlInvalid) as refused:
        parse_redis_url(url)
    assert PASSWORD not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_url_of_several_servers_is_taken_apart() -> None:
    """Goal: each server gets the credentials that are meant for it. Method: every part given, and none of them."""
    url = "rediss+sentinel://u%2C:p%40@one,two:7000/tayho/3?sentinel_username=s&sentinel_password=t%26&ssl_ca_certs=/ca"
    target = parse_redis_url(url)
    assert isinstance(target, SentinelTarget)
    assert (target.sentinels, target.service) == ((("one", 26379), ("two", 7000)), "tayho")
    tls = {"ssl_ca_certs": "/ca", "connection_class": SSLConnection}
    assert target.settings == {"username": "u,", "password": "p@", "db": 3, **tls}
    assert target.sentinel_settings == {"username": "s", "password": "t&", **tls}
    bare = parse_redis_url("redis+sentinel://one/tayho")
    assert isinstance(bare, SentinelTarget)
    assert (bare.settings, bare.sentinel_settings) == ({}, {})
    cluster = parse_redis_url("redis+cluster://:p@one,[::1]:7000")
    assert isinstance(cluster, ClusterTarget)
    assert (cluster.nodes, cluster.settings) == ((("one", 6379), ("::1", 7000)), {"password": "p"})
    assert [is_cluster_url(each) for each in (url, "redis+cluster://one", "redis://one")] == [False, True, False]


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
        ({"cluster_enabled": "1"}, "write REDIS_URL as redis+cluster://"),
        ({"redis_mode": "sentinel", "maxmemory_policy": "not given"}, "write REDIS_URL as redis+sentinel://"),
    ],
)
def test_what_info_tells_is_judged(change: dict[str, str], told: str | None) -> None:
    """Goal: one clear sentence per problem. Method: a ready server's INFO with one line changed."""
    problems = problems_of({**READY, **change}, "here")
    assert problems == [] if told is None else len(problems) == 1 and told in problems[0]


def test_a_node_of_a_cluster_is_ready_where_a_cluster_is_meant() -> None:
    """Goal: the same INFO, another judgement. Method: a node's INFO, looked at as a cluster's; whole, not, untold."""
    node = {**READY, "cluster_enabled": "1", "cluster_state": "ok"}
    assert problems_of(node, "here", is_cluster=True) == []
    [problem] = problems_of({**node, "cluster_state": "fail"}, "here", is_cluster=True)
    assert "cluster_state is fail" in problem
    assert len(problems_of({**READY, "cluster_enabled": "1"}, "here", is_cluster=True)) == 1


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
    port = free_port()
    async with running_redis(*tls_options(tmp_path, port)) as _, open_bridge():
        async with open_redis(f"rediss://127.0.0.1:{port}?ssl_ca_certs={tmp_path / 'ca.pem'}") as server:
            assert await server.check() == []
        async with open_redis(f"rediss://127.0.0.1:{port}") as server:
            [problem] = await server.check()
            assert "cannot be reached" in problem


@pytest.mark.services
async def test_tls_holds_for_every_form(tmp_path: Path) -> None:
    """Goal: rediss is TLS to all servers of a form. Method: a service and a cluster with TLS ports; known and not."""
    folders = [tmp_path / name for name in ("master", "node", "sentinel")]
    for folder in folders:
        folder.mkdir()
    ports = [free_port() for _ in folders]
    master_tls, node_tls, sentinel_tls = map(tls_options, folders, ports)
    cluster = ("--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", str(free_port()))
    authorities = tmp_path / "all.pem"
    authorities.write_text("".join((folder / "ca.pem").read_text() for folder in folders))
    # The sentinel trusts the master by the same file.
    (folders[2] / "ca.pem").write_text(authorities.read_text())
    async with (
        running_redis(*master_tls),
        running_redis(*node_tls, *cluster) as node,
        running_sentinel_of(ports[0], *sentinel_tls, "--tls-replication", "yes"),
        open_bridge(),
    ):
        await node.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        for form in (f"rediss+sentinel://127.0.0.1:{ports[2]}/{SERVICE}", f"rediss+cluster://127.0.0.1:{ports[1]}"):
            async with open_redis(f"{form}?ssl_ca_certs={authorities}") as server:
                await until(lambda server=server: _is_ready(server), what=f"{form} to be ready")
                assert await server.ask_one(("SET", "key", "1")) == "OK"
            async with open_redis(form) as server:
                [problem] = await server.check()
                assert "certificate verify failed" in problem


async def _is_ready(server: RedisServer) -> bool:
    return await server.check() == []
