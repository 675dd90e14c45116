"""Events of an intent: every change until its end, for many watchers at the price of one look (INT-1)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import pytest
import trio

from storage.redis_client import RedisServer
from tayho.api.engine import process, streams
from tayho.coordination.types import Quarantine
from tests.api.engine.replicas import Replica, body_of, is_problem, replica
from tests.intents.conftest import DOMAIN, Line, intent, signed
from tests.waiting import until

pytestmark = pytest.mark.services


UNBATCHABLE = {"type": "Unbatchable", "code": "reverts", "message": "the protocol refuses it"}


async def submitted(engine: Replica, line: Line, salt: int = 0) -> str:
    answer = await engine.submit(body_of(signed(intent(salt=salt), line.key)))
    assert answer.status_code in {200, 202}
    return answer.json()["id"]


async def events_of(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The events of a stream: the id and the document of each."""
    fields: dict[str, str] = {}
    async for text in lines:
        name, _, value = text.partition(": ")
        if text:
            fields[name] = value
        elif "data" in fields:
            assert fields["event"] == "status"
            yield fields["id"], json.loads(fields["data"])
            fields = {}


async def end(line: Line, intent_id: str) -> None:
    async with line.plane.database.transaction() as tx:
        told = Quarantine(UUID(intent_id), UNBATCHABLE)
        assert await line.plane.coordination.quarantine_if_pending(tx, [told])


async def test_every_change_is_told_until_the_end(engine: Replica, line: Line) -> None:
    """Goal: a client that waits hears of each state once and is not asked to poll. Method: follow an intent to its end;
    come back with the last event seen: there is nothing more, also for a client that missed the end."""
    intent_id = await submitted(engine, line)
    path = f"/v1/intents/{intent_id}/events"
    seen: list[tuple[str, dict[str, Any]]] = []
    async with engine.client.stream("GET", path) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
        assert answer.headers["x-request-id"]
        async for event in events_of(answer.aiter_lines()):
            seen.append(event)
            if len(seen) == 1:
                await end(line, intent_id)
    assert [document["state"] for _, document in seen] == ["pending_batch", "quarantined"]
    assert seen[-1][1]["final"]
    assert seen[-1][1]["error"] == UNBATCHABLE
    again = await engine.client.get(path, headers={"Last-Event-ID": seen[-1][0]})
    assert (again.status_code, again.content) == (204, b"")
    missed = await engine.client.get(path, headers={"Last-Event-ID": seen[0][0]})
    assert missed.text.count("event: status") == 1
    assert '"state":"quarantined"' in missed.text


async def test_many_watchers_cost_one_look(engine: Replica, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: watchers cost PostgreSQL nothing each. Method: a dozen on three intents; each look asks for all three in
    one call; those that leave are forgotten, and then nobody is looked for."""
    looks: list[Sequence[UUID]] = []
    statuses = line.intents.statuses

    async def counted(job_ids: Sequence[UUID]) -> object:
        looks.append(tuple(job_ids))
        return await statuses(job_ids)

    engine_ids = [await submitted(engine, line, salt) for salt in range(3)]
    monkeypatch.setattr(engine.watchers, "_look", counted)
    ended: list[str] = []

    async def follow(intent_id: str) -> None:
        async with engine.client.stream("GET", f"/v1/intents/{intent_id}/events") as answer:
            async for _, document in events_of(answer.aiter_lines()):
                if document["final"]:
                    ended.append(intent_id)

    async with trio.open_nursery() as clients:
        for place in range(12):
            clients.start_soon(follow, engine_ids[place % 3])
        await until(lambda: engine.watchers.number == 12, what="every stream to be open")
        looks.clear()
        await until(lambda: len(looks) >= 2, what="two looks")
        assert {frozenset(look) for look in looks} == {frozenset(map(UUID, engine_ids))}
        for intent_id in engine_ids:
            await end(line, intent_id)
    assert sorted(ended) == sorted(engine_ids * 4)
    await until(lambda: engine.watchers.number == 0, what="every place to be free")


async def test_watchers_are_bounded_and_those_who_leave_are_forgotten(
    line: Line, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: one client cannot hold every place, and a place is free once its client is gone. Method: a bound of two."""
    monkeypatch.setattr(process, "WATCHERS_OF_ONE_CLIENT_MAX", 2)
    async with replica(line.intents, DOMAIN, redis) as engine:
        path = f"/v1/intents/{await submitted(engine, line)}/events"
        async with engine.client.stream("GET", path), engine.client.stream("GET", path):
            assert is_problem(await engine.client.get(path), 429, "streams-limited")
        await until(lambda: engine.watchers.number == 0, what="those who left to be forgotten")
        async with engine.client.stream("GET", path) as answer:
            assert answer.status_code == 200


async def test_a_quiet_stream_shows_life_and_ends_in_time(
    engine: Replica, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: proxies do not cut off what is quiet, and no stream is endless. Method: a short beat and a short life."""
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(streams, "STREAM_SECONDS_MAX", 0.5)
    answer = await engine.client.get(f"/v1/intents/{await submitted(engine, line)}/events")
    assert answer.text.startswith("retry: 1000\n\nevent: status\n")
    assert answer.text.count(": still waiting\n\n") >= 3
