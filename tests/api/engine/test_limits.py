"""Limits of the engine: shared by all replicas, before any database, under names that tell nothing (INT-8)."""

from __future__ import annotations

import hashlib
import random
from collections import Counter

import pytest
import trio

from storage.connection import Connection
from storage.redis_client import RedisServer, open_redis
from tayho.kernel.ids import new_id
from tests.api.engine.replicas import IDENTITY_KEY, body_of, is_problem, replica
from tests.intents.conftest import DOMAIN, Line, intent, signed
from tests.services.redis import redis_server as run_redis

pytestmark = pytest.mark.services

LOOPBACK = ("127.0.0.0/8",)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that is put to PostgreSQL."""
    put: list[str] = []
    run = Connection._run

    async def counted(self: Connection, ask: object, sql: str, args: tuple[object, ...]) -> object:
        put.append(sql)
        return await run(self, ask, sql, args)

    monkeypatch.setattr(Connection, "_run", counted)
    return put


async def test_two_replicas_share_a_budget_exactly(line: Line, redis: RedisServer) -> None:
    """Goal: more replicas give no client more. Method: clients with random numbers of requests, sent to two replicas in
    random order and all at once: each client gets its budget and no more, whatever else it claims to be."""
    drawn = random.Random(7)
    most = 5
    allowed: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    wanted = {f"203.0.113.{number}": drawn.randrange(1, 3 * most) for number in range(12)}
    async with (
        replica(line.intents, DOMAIN, redis, statuses=most, trusted=LOOPBACK) as one,
        replica(line.intents, DOMAIN, redis, statuses=most, trusted=LOOPBACK) as other,
        trio.open_nursery() as clients,
    ):

        async def ask(client: str) -> None:
            claims = f"198.51.100.{drawn.randrange(255)}, {client}"
            answer = await drawn.choice((one, other)).status(str(new_id()), **{"X-Forwarded-For": claims})
            if answer.status_code == 429:
                assert is_problem(answer, 429, "statuses-limited")
                assert int(answer.headers["retry-after"]) == int(answer.headers["ratelimit-reset"]) > 0
                refused[client] += 1
            else:
                assert is_problem(answer, 404, "intent-unknown")
                allowed[client] += 1
            assert answer.headers["ratelimit-limit"] == str(most)

        for client, number in wanted.items():
            for _ in range(number):
                clients.start_soon(ask, client)
    assert allowed == {client: min(number, most) for client, number in wanted.items()}
    assert refused == Counter({client: number - most for client, number in wanted.items() if number > most})


async def test_who_is_over_his_budget_reaches_no_database(
    line: Line, redis: RedisServer, statements: list[str]
) -> None:
    """Goal: a flood stops at Redis (INT-8). Method: budgets of one; the second question, stream and submission put no
    statement to PostgreSQL and no question to the chain; the budgets of statuses and submissions are two."""
    body = body_of(signed(intent(), line.key))
    async with replica(line.intents, DOMAIN, redis, statuses=1, submissions=1) as engine:
        accepted = await engine.submit(body)
        assert (accepted.status_code, accepted.headers["ratelimit-remaining"]) == (202, "0")
        assert (await engine.status(accepted.json()["id"])).status_code == 200
        asked = line.asked
        statements.clear()
        for _ in range(5):
            assert is_problem(await engine.status(accepted.json()["id"]), 429, "statuses-limited")
            events = await engine.client.get(f"{accepted.headers['location']}/events")
            assert is_problem(events, 429, "statuses-limited")
            assert is_problem(await engine.submit(body), 429, "submissions-limited")
            assert is_problem(await engine.submit(b" " * 100_000), 429, "submissions-limited")
    assert statements == []
    assert line.asked == asked


async def test_without_redis_nothing_is_taken_and_nothing_told(line: Line, statements: list[str]) -> None:
    """Goal: never unlimited (INT-8). Method: stop Redis under a running engine: 503 for all, and no statement."""
    with run_redis() as server:
        async with open_redis(server.url, command_seconds=1) as redis, replica(line.intents, DOMAIN, redis) as engine:
            accepted = await engine.submit(body_of(signed(intent(), line.key)))
            assert accepted.status_code == 202
            server.process.kill()
            server.process.wait()
            statements.clear()
            answers = [
                await engine.submit(body_of(signed(intent(salt=1), line.key))),
                await engine.status(accepted.json()["id"]),
                await engine.client.get(f"{accepted.headers['location']}/events"),
            ]
            for answer in answers:
                assert is_problem(answer, 503, "limits-unavailable")
                assert answer.headers["retry-after"] == "1"
    assert statements == []


async def test_nobody_is_known_from_a_dump_of_redis(line: Line, redis: RedisServer, redis_url: str) -> None:
    """Goal: who reads Redis learns no client's address. Method: clients of both families, then everything that Redis
    holds: neither an address nor any plain hash of one, and under another key other names."""
    clients = {"203.0.113.9": "203.0.113.9", "2001:db8:1:2::77": "2001:db8:1:2::/64"}
    async with replica(line.intents, DOMAIN, redis, trusted=LOOPBACK) as engine:
        for client in clients:
            answer = await engine.status(str(new_id()), **{"X-Forwarded-For": client})
            assert is_problem(answer, 404, "intent-unknown")
    keys = await redis.ask_one(["KEYS", "*"])
    held = [str(keys), *[str(await redis.ask_one(["HGETALL", key])) for key in keys]]
    assert len(keys) == len(clients)
    dump = "".join(held).lower()
    for identity in {*clients, *clients.values()}:
        assert identity not in dump
        for algorithm in ("md5", "sha1", "sha256", "sha512", "blake2b", "sha3_256"):
            hashed = hashlib.new(algorithm, identity.encode()).hexdigest()
            assert hashed[:16] not in dump, algorithm
    assert IDENTITY_KEY[2:10] not in dump
