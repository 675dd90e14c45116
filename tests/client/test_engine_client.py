"""The client gets one answer out of whatever an engine, or what stands before it, does (INT-1, INT-2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from tayho.api.engine.codes import CODES, DEFECT
from tayho.client import (
    AnswerMalformed,
    DeadlinePassed,
    EngineClient,
    EngineRefused,
    EngineUnavailable,
    EngineUrlRefused,
    IntentDomain,
    IntentProgress,
    IntentUnknown,
    NotFinalInTime,
    PlaceInBatch,
)
from tayho.client.refusals import REFUSALS, EnginePassing, SubmissionsLimited
from tayho.client.retrying import PASSING, PAUSE_SECONDS_MAX, Pauses
from tayho.kernel.address import Address
from tests.client.intents import DOMAIN, ID, progress_document, signed_order, taken_document
from tests.client.scripted_engine import ScriptedEngine, answer, drop, events, hang, problem, scripted_engine
from tests.waiting import until

ONE = signed_order()
TAKEN = answer(202, taken_document(ONE))
BATCH = {"id": str(ID), "index": 3, "succeeded": True}
COMPLETED = progress_document("completed", batch=BATCH, result={"hash": "0x01", "logs": [1, None]})


@asynccontextmanager
async def pair(
    *, call_seconds: float = 10, attempt_seconds: float = 5
) -> AsyncGenerator[tuple[ScriptedEngine, EngineClient]]:
    async with (
        scripted_engine() as engine,
        EngineClient.open(engine.url, DOMAIN, call_seconds=call_seconds, attempt_seconds=attempt_seconds) as client,
    ):
        yield engine, client


async def test_a_lost_answer_is_asked_for_again() -> None:
    """Goal: whatever goes wrong on the way, the intent is taken once and the caller hears of it. Method: a dropped
    connection, one that hangs beyond the attempt, a proxy's page, an engine that is draining; then the answer. Each
    time the same body was sent."""
    async with pair(attempt_seconds=0.2) as (engine, client):
        engine.behave(drop, hang, answer(502, b"<html>"), problem(503, "unavailable"), TAKEN)
        taken = await client.submit(ONE)
    assert (taken.id, taken.state, taken.created) == (ID, "pending_batch", True)
    assert len(engine.requests) == 5
    assert all(request.document == engine.requests[0].document for request in engine.requests)


async def test_the_engine_is_left_alone_for_as_long_as_it_asks() -> None:
    """Goal: Retry-After is kept. Method: a limit that asks for a second; the next question comes no sooner."""
    async with pair() as (engine, client):
        engine.behave(problem(429, "rate-limited", retry_after="1"), TAKEN)
        began_at = trio.current_time()
        await client.submit(ONE)
    assert trio.current_time() - began_at >= 1


async def test_what_cannot_succeed_in_time_is_not_waited_for() -> None:
    """Goal: a caller learns at once that its time will not do, and when to come back. Method: a limit that asks for
    longer than the call may take."""
    async with pair(call_seconds=5) as (engine, client):
        engine.behave(problem(429, "submissions-limited", "too many", retry_after="60"))
        with (
            trio.fail_after(2),
            pytest.raises(EngineUnavailable, match=r"429 submissions-limited: too many.*in 60 s") as told,
        ):
            await client.submit(ONE)
    assert told.value.retry_after_seconds == 60
    assert isinstance(told.value.__cause__, SubmissionsLimited)


async def test_an_engine_that_never_answers_ends_with_the_calls_time() -> None:
    """Goal: no call outlives its time. Method: every connection hangs."""
    async with pair(call_seconds=0.5, attempt_seconds=0.1) as (engine, client):
        engine.behave(*[hang] * 20)
        with trio.fail_after(3), pytest.raises(EngineUnavailable, match=r"within 0\.5 s: nothing was heard"):
            await client.submit(ONE)


async def test_a_refusal_is_told_at_once_by_its_class() -> None:
    """Goal: who catches a class catches its code; what is new keeps its document. Method: a known code, and one that
    this client has never heard of: each is asked for once."""
    async with pair() as (engine, client):
        engine.behave(problem(422, "deadline-passed", "it is over", request_id="r-1"), problem(422, "brand-new", "no"))
        with pytest.raises(DeadlinePassed, match=r"422 deadline-passed: it is over \(request r-1\)") as told:
            await client.submit(ONE)
        with pytest.raises(EngineRefused, match="brand-new") as unknown:
            await client.submit(ONE)
    assert told.value.problem.request_id == "r-1"
    assert type(unknown.value) is EngineRefused
    assert unknown.value.problem.document["code"] == "brand-new"
    assert len(engine.requests) == 2


def test_every_code_of_the_engine_has_a_class_here() -> None:
    """Goal: a new code of the engine is a new class of the client. Method: the engine's own table; its statuses of what
    passes are those that are asked again."""
    codes = {code.name: code for code in (*CODES, DEFECT)}
    assert codes.keys() == REFUSALS.keys()
    passing = {name for name, code in codes.items() if code.status in PASSING}
    assert passing == {name for name, refusal in REFUSALS.items() if issubclass(refusal, EnginePassing)}


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"id": 1}', b'{"id": "no", "digest": "0x", "state": "x", "created": true}'],
    ids=["empty", "a list", "other fields", "no id"],
)
async def test_an_answer_of_something_else_is_no_answer(body: bytes) -> None:
    """Goal: nothing is taken for taken that is not. Method: a good status with other bodies."""
    async with pair() as (engine, client):
        engine.behave(answer(200, body))
        with pytest.raises(AnswerMalformed):
            await client.submit(ONE)


async def test_an_endless_answer_is_cut_off() -> None:
    """Goal: no engine fills the memory of a service. Method: the right answer, and 70 kB of blanks behind it."""
    async with pair(call_seconds=0.3) as (engine, client):
        engine.behave(*[answer(200, json.dumps(taken_document(ONE)).encode() + b" " * 70_000)] * 20)
        with pytest.raises(EngineUnavailable, match="more than 65536 bytes"):
            await client.submit(ONE)


async def test_an_answer_about_another_digest_is_refused() -> None:
    """Goal: a client that was opened for another contract notices. Method: the same intent, another domain."""
    async with scripted_engine() as engine, EngineClient.open(engine.url, IntentDomain(1, DOMAIN.protocol)) as client:
        engine.behave(TAKEN)
        with pytest.raises(AnswerMalformed, match="another protocol or chain"):
            await client.submit(ONE)


async def test_a_wait_goes_on_behind_the_last_event() -> None:
    """Goal: a stream that breaks off loses nothing and repeats nothing. Method: two streams, the first one cut off
    after an event; the second is asked for what is behind it. The caller hears each change once."""
    heard: list[str] = []
    async with pair() as (engine, client):
        engine.behave(
            events(("4", progress_document("pending_batch"))),
            answer(200, progress_document("pending_batch")),
            events(("5", progress_document("batched")), ("6", COMPLETED), then=hang),
        )
        progress = await client.wait(ID, on_change=lambda change: heard.append(change.state))
        await until(lambda: engine.connections_open <= 1, what="the stream to be closed")
    assert (progress.state, progress.batch, progress.has_succeeded) == ("completed", PlaceInBatch(ID, 3, True), True)
    assert progress.result == {"hash": "0x01", "logs": [1, None]}
    assert heard == ["pending_batch", "batched", "completed"]
    assert [request.headers.get("last-event-id") for request in engine.requests] == [None, None, "4"]


async def test_without_a_stream_the_status_is_asked() -> None:
    """Goal: a proxy that lets no stream through costs latency alone. Method: no such route; then statuses only."""
    async with pair() as (engine, client):
        engine.behave(answer(404, {}), answer(200, progress_document("batched")), answer(200, COMPLETED))
        assert (await client.wait(ID)).is_final
    assert [request.path.rpartition("/")[2] for request in engine.requests] == ["events", str(ID), str(ID)]


async def test_a_wait_without_an_end_says_how_far_it_came() -> None:
    """Goal: a wait is bounded, and its answer useful. Method: a stream that says one thing and then nothing."""
    async with pair() as (engine, client):
        engine.behave(events(("1", progress_document("batched")), then=hang))
        with pytest.raises(NotFinalInTime, match="it is batched") as told:
            await client.wait(ID, seconds=0.5)
    assert isinstance(told.value.progress, IntentProgress)


async def test_an_intent_that_is_not_there_ends_the_wait() -> None:
    """Goal: a wrong id is no endless wait. Method: both routes say that they do not know it."""
    async with pair() as (engine, client):
        engine.behave(problem(404, "intent-unknown"), problem(404, "intent-unknown"))
        with pytest.raises(IntentUnknown):
            await client.wait(ID)


async def test_a_cancelled_call_leaves_no_connection_busy() -> None:
    """Goal: cancel-safe. Method: cancel calls that hang, more often than there are connections; the next one works."""
    async with pair() as (engine, client):
        for _ in range(40):
            engine.behave(hang)
            with trio.move_on_after(0.01):
                await client.submit(ONE)
        engine.script.clear()
        engine.behave(TAKEN)
        with trio.fail_after(3):
            assert (await client.submit(ONE)).id == ID


async def test_it_works_under_asyncio() -> None:
    """Goal: a service needs no Trio. Method: submit and wait on an asyncio loop, in a thread beside the server."""
    async with scripted_engine() as engine:
        engine.behave(drop, TAKEN, events(("1", COMPLETED), then=hang))

        async def both() -> IntentProgress:
            async with EngineClient.open(engine.url, DOMAIN) as client:
                return await client.wait((await client.submit(ONE)).id)

        progress = await trio.to_thread.run_sync(lambda: asyncio.run(both()))
    assert progress.has_succeeded


@pytest.mark.parametrize("url", ["", "engine", "ftp://engine", "http://", "http://engine/?key=1"])
async def test_an_address_that_is_none_is_refused_before_anything(url: str) -> None:
    """Goal: a slip in a setting is told as one. Method: addresses that are none."""
    with pytest.raises(EngineUrlRefused):
        async with EngineClient.open(url, IntentDomain(1, Address(bytes(20)))):
            pass


def test_pauses_grow_to_a_bound_and_never_undercut_the_engine() -> None:
    """Goal: an engine in trouble is not hammered. Method: take pauses, with and without a wish of the engine's."""
    pauses = Pauses()
    taken = [pauses.take() for _ in range(12)]
    assert max(taken) <= PAUSE_SECONDS_MAX
    assert taken[-1] >= PAUSE_SECONDS_MAX / 2
    assert pauses.take(7) > 7
    pauses.reset()
    assert pauses.take() <= 0.1
