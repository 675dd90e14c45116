"""The client and a real engine understand each other: what it sends is read, what it hears is what was said."""

from __future__ import annotations

import pytest
import trio
from attrs import evolve

from storage.redis_client import RedisServer
from tayho.client import (
    DomainDiffers,
    EngineClient,
    EngineUnavailable,
    IntentDomain,
    IntentMalformed,
    IntentNotPermitted,
    IntentProgress,
    IntentUnknown,
    SignedIntent,
    sign_intent,
)
from tayho.client.actions import place_order
from tayho.client.refusals import SubmissionsLimited
from tayho.coordination.module import Quarantine
from tayho.intents.types import NotPermitted
from tests.api.engine.conftest import engine, line, plane, redis
from tests.api.engine.replicas import Replica, replica
from tests.client.intents import ACCOUNT, ID, MARKET, local_key
from tests.intents.conftest import DOMAIN, Line, intent

__all__ = ["engine", "line", "plane", "redis"]

pytestmark = pytest.mark.services


def signed(salt: int) -> SignedIntent:
    built = place_order(ACCOUNT, MARKET, size=1, deadline=intent().deadline, salt=salt)
    return sign_intent(built, DOMAIN, local_key())


async def test_an_intent_is_taken_once_and_followed_to_its_end(engine: Replica, line: Line) -> None:
    """Goal: the whole way of a client. Method: submit twice; wait on the stream of events while the intent ends, as one
    does that fits no batch; then ask again."""
    heard: list[IntentProgress] = []
    async with EngineClient.open(f"http://{engine.bind}", DOMAIN) as client:
        first, again = await client.submit(signed(1)), await client.submit(signed(1))
        assert (first.created, again.created, first.id) == (True, False, again.id)
        assert first.state == (await client.status(first.id)).state == "pending_batch"

        async def end() -> None:
            async with line.plane.database.transaction() as tx:
                await line.plane.coordination.quarantine_if_pending(tx, [Quarantine(first.id, {"reason": "reverts"})])

        def hear(progress: IntentProgress) -> None:
            heard.append(progress)
            if len(heard) == 1:
                ending.start_soon(end)

        async with trio.open_nursery() as ending:
            with trio.fail_after(10):
                last = await client.wait(first.id, on_change=hear)
        assert await client.status(first.id) == last == heard[-1]
    assert [progress.state for progress in heard] == ["pending_batch", "quarantined"]
    assert (last.is_final, last.has_succeeded, last.batch) == (True, False, None)


async def test_the_engines_refusals_come_as_their_classes(engine: Replica, line: Line) -> None:
    """Goal: what the engine says is what is raised. Method: an action that is none, another chain, a session that the
    protocol does not know, an id that nobody has."""
    async with EngineClient.open(f"http://{engine.bind}", DOMAIN) as client:
        with pytest.raises(IntentMalformed, match="action must be"):
            await client.submit(evolve(signed(2), intent=intent(action=64)))
        with pytest.raises(IntentUnknown):
            await client.status(ID)
        line.refusal = NotPermitted("SessionUnknown")
        with pytest.raises(IntentNotPermitted) as told:
            await client.submit(signed(3))
        assert told.value.reason == "SessionUnknown"
        assert told.value.problem.request_id
    async with EngineClient.open(f"http://{engine.bind}", IntentDomain(1, DOMAIN.protocol)) as stranger:
        with pytest.raises(DomainDiffers, match="chain 31337"):
            await stranger.submit(signed(4))


async def test_a_limit_is_told_with_when_to_come_back(line: Line, redis: RedisServer) -> None:
    """Goal: a client over its budget neither hammers nor waits in vain. Method: an engine that takes one a year."""
    async with replica(line.intents, DOMAIN, redis, submissions=1) as engine:
        async with EngineClient.open(f"http://{engine.bind}", DOMAIN, call_seconds=30) as client:
            await client.submit(signed(5))
            with trio.fail_after(5), pytest.raises(EngineUnavailable) as told:
                await client.submit(signed(6))
        assert isinstance(told.value.__cause__, SubmissionsLimited)
        assert (told.value.retry_after_seconds or 0) > 2
