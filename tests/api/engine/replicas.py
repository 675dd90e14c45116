"""Replicas of the engine, really served, and what a client says to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import httpx2
import trio
from attrs import frozen

from nursery.drain import Drain
from storage.counters import Budget
from storage.redis_client import RedisServer
from tayho.api.engine import codes
from tayho.api.engine.limits import Limits
from tayho.api.engine.process import Engine
from tayho.api.engine.watching import Watchers
from tayho.api.problems import Code
from tayho.api.serving import listening
from tayho.config import Bind
from tayho.custody.module import Pseudonyms, parse_pseudonyms
from tayho.intents.module import Intents
from tayho.intents.signing import domain_document, intent_document
from tayho.intents.types import IntentDomain, SignedIntent

IDENTITY_KEY = "0x" + "5a" * 32
PROBLEM = "application/problem+json"
ANSWER_SECONDS = 60
# So that no test counts on both sides of a window's end.
WINDOW_SECONDS = 366 * 24 * 3_600


@frozen
class Replica:
    """One engine, and a client of it."""

    bind: Bind
    client: httpx2.AsyncClient
    drain: Drain
    watchers: Watchers
    ended: Callable[[], Awaitable[None]]

    async def submit(self, body: dict[str, Any] | bytes, **headers: str) -> httpx2.Response:
        whole = {"Content-Type": "application/json", **headers}
        if isinstance(body, bytes):
            return await self.client.post("/v1/intents", content=body, headers=whole)
        return await self.client.post("/v1/intents", json=body, headers=whole)

    async def status(self, intent_id: str, **headers: str) -> httpx2.Response:
        return await self.client.get(f"/v1/intents/{intent_id}", headers=headers)


def body_of(signed: SignedIntent, domain: IntentDomain | None = None) -> dict[str, Any]:
    """A signed intent as a client sends it."""
    body: dict[str, Any] = {**intent_document(signed.intent), "signature": f"0x{signed.signature.hex()}"}
    if domain is not None:
        whole = domain_document(domain)
        body["domain"] = {name: whole[name] for name in ("chainId", "verifyingContract")}
    return body


def is_problem(answer: httpx2.Response, status: int, code: str) -> bool:
    """Whether it is this problem, whole, and carries the request's id."""
    document = answer.json()
    told = (answer.status_code, answer.headers["content-type"], document["status"], document["code"])
    assert told == (status, PROBLEM, status, code), answer.text
    assert document["type"] == f"urn:tayho:problem:{code}"
    assert document["title"]
    assert document["detail"]
    assert document["request_id"] == answer.headers["x-request-id"]
    return True


@asynccontextmanager
async def replica(
    intents: Intents,
    domain: IntentDomain,
    redis: RedisServer,
    *,
    submissions: int = 100_000,
    statuses: int = 100_000,
    trusted: Sequence[str] = (),
) -> AsyncGenerator[Replica]:
    """An engine on a free port of loopback, until the block ends."""
    drain = Drain(seconds=10)
    pseudonyms = parse_pseudonyms(IDENTITY_KEY)
    limits = [
        _limits(redis, name, most, code, pseudonyms, trusted)
        for name, most, code in (
            ("submissions", submissions, codes.MANY_SUBMISSIONS),
            ("statuses", statuses, codes.MANY_STATUSES),
        )
    ]
    async with listening(Bind("127.0.0.1", 0)) as sockets, trio.open_nursery() as tasks:
        engine = Engine(intents, domain, limits[0], limits[1], drain, sockets)
        tasks.start_soon(engine.serve)
        many = httpx2.Limits(max_connections=200)
        url = f"http://{sockets.bind}"
        async with httpx2.AsyncClient(base_url=url, timeout=ANSWER_SECONDS, limits=many, trust_env=False) as client:
            yield Replica(sockets.bind, client, drain, engine.watchers, engine.ended)
        tasks.cancel_scope.cancel()


def _limits(
    redis: RedisServer, name: str, most: int, code: Code, pseudonyms: Pseudonyms, trusted: Sequence[str]
) -> Limits:
    budget = Budget(redis, prefix="tayho:test-31337", name=name, most=most, window_seconds=WINDOW_SECONDS)
    return Limits(budget, code, pseudonyms, [ip_network(one) for one in trusted])
