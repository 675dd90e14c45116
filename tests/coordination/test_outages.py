"""An outage is no fault of a job, a refusal is no outage, and what can never work is set aside (DLV-8, DLV-10)."""

from __future__ import annotations

import json
from typing import cast
from uuid import UUID

import pytest
import trio
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from rpc.errors import ChainMismatch, DeadlinePassed, EndpointFault, Reverted, RpcRefused, WrongChain
from storage.database import Database
from storage.errors import CommitUnknown, ReplyLost, SerializationLost, StoreUnavailable
from storage.records import Delivery, delivery_id
from tayho.coordination import outbox, running, store
from tayho.coordination.attempts import begin
from tayho.coordination.module import Coordination
from tayho.coordination.types import Handler, JobRecord
from tayho.kernel import json_document
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, Completed, Job, Outcome, RequestRefused
from tayho.kernel.json_document import DocumentRefused, Json
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS, Plane, new_job
from tests.coordination.test_worker import at_work
from tests.services.launch import Launched
from tests.services.proxy import fault_proxy
from tests.services.redis import ask
from tests.waiting import until

RAISED = [
    EndpointFault("node", DeadlinePassed(1, "body")),
    RpcRefused(-32005, "limit exceeded"),
    RpcRefused(-32603, "internal error"),
    StoreUnavailable("PostgreSQL is away"),
    SerializationLost("another transaction won"),
    CommitUnknown("the connection broke while a commit was under way"),
    ReplyLost("Redis did not answer"),
]
REFUSED = [
    RpcRefused(-32602, "invalid params"),
    Reverted(3, "execution reverted"),
    WrongChain("node", ChainMismatch(1, 2)),
]


@pytest.fixture
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be tried again comes back at once."""
    monkeypatch.setattr(running, "OUTAGE_DELAY_SECONDS", 0)
    monkeypatch.setattr(outbox, "BACKOFF_MILLISECONDS", 1)


def _raising(error: Exception, *, times: int) -> Handler:
    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        if attempt.attempt_number <= times:
            raise error
        return Completed()

    return handle


async def _ended(plane: Plane, job_id: UUID, handler: Handler) -> JobRecord:
    """The job's record after the handler was at work on it until its end."""

    async def has_ended() -> bool:
        return await plane.state(job_id) not in {"queued", "processing", "retry"}

    async with at_work(plane, handler):
        await until(has_ended, seconds=10, what="the job to end")
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    return record


@pytest.mark.usefixtures("_no_waits")
@pytest.mark.parametrize("error", RAISED, ids=lambda error: f"{type(error).__name__} {getattr(error, 'code', '')}")
async def test_an_outage_longer_than_the_budget_kills_no_job(plane: Plane, error: Exception) -> None:
    """Goal: whatever says nothing about the job spends none of its attempts. Method: a handler that meets an outage
    more often than JOB_MAX_ATTEMPTS, then completes."""
    record = await _ended(plane, await plane.enqueue(), _raising(error, times=SETTINGS.attempts_max + 2))
    assert (record.state, record.attempts_spent) == ("completed", 1)
    assert [attempt.state for attempt in record.attempts] == ["returned"] * (SETTINGS.attempts_max + 2) + ["completed"]


@pytest.mark.usefixtures("_no_waits")
@pytest.mark.parametrize("error", REFUSED, ids=lambda error: type(error).__name__)
async def test_a_refusal_spends_attempts(plane: Plane, error: Exception) -> None:
    """Goal: an answer that will be the same next time does not go on for ever. Method: a handler that is always
    refused; the job is dead once the budget is spent."""
    record = await _ended(plane, await plane.enqueue(), _raising(error, times=100))
    assert (record.state, record.attempts_spent) == ("dead", SETTINGS.attempts_max)
    assert [attempt.state for attempt in record.attempts] == ["failed"] * SETTINGS.attempts_max


async def test_a_handler_without_an_outcome_fails_its_attempt(plane: Plane) -> None:
    """Goal: a forgotten `return` neither wedges its job nor completes it. Method: a handler that returns None, and a
    budget of one attempt."""

    async def forget(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        return cast("Outcome", None)

    strict = Coordination(plane.database, plane.queue_of, CHAIN_ID, ENVIRONMENT, evolve(SETTINGS, attempts_max=1))
    record = await _ended(Plane(plane.database, plane.queue_of, strict), await plane.enqueue(), forget)
    assert record.state == "dead"
    assert isinstance(record.last_error, dict)
    assert record.last_error["type"] == "TypeError"
    assert record.last_error["message"] == "the handler returned a NoneType, which is no Outcome"


@pytest.mark.parametrize("executed", [True, False])
async def test_an_end_that_is_not_heard_of_is_written_all_the_same(
    plane: Plane, database_url: str, executed: bool
) -> None:
    """Goal: DLV-6, DLV-8: a connection that breaks under the end of an attempt neither repeats the work nor spends the
    budget. Method: a budget of one attempt, whose end loses its answer, or is lost before PostgreSQL has it; the job
    completes by it."""
    async with (
        fault_proxy(database_url) as proxy,
        Database.open(proxy.url_for(database_url), pool_size=4, application_name="tests") as fragile,
    ):
        (proxy.swallow_answer_to if executed else proxy.swallow_request)(store.END_IF_CURRENT.query.ref)
        strict = Coordination(fragile, plane.queue_of, CHAIN_ID, ENVIRONMENT, evolve(SETTINGS, attempts_max=1))
        record = await _ended(
            Plane(fragile, plane.queue_of, strict), await plane.enqueue(), _raising(OSError(), times=0)
        )
        assert proxy.sprung
    assert (record.state, record.attempts_spent) == ("completed", 1)
    assert [attempt.state for attempt in record.attempts] == ["completed"]


async def test_what_has_begun_runs_although_a_take_over_beside_it_meets_an_outage(
    plane: Plane, database_url: str
) -> None:
    """Goal: what PostgreSQL calls begun has its handler, whatever becomes of the others of its fetch. Method: of two
    deliveries one takes over from a vanished holder, and the connection breaks under that alone; asked again, the one
    that began is held, and the other begins."""
    worker_id = await plane.worker()
    fresh, held = await plane.enqueue("fresh"), await plane.enqueue("held")
    await plane.begin(held, worker_id)
    deliveries = [
        Delivery(delivery_id(job_id, 1), new_id().hex, "kind", {}, 0, 3, 0, None, None, {}) for job_id in (fresh, held)
    ]

    async def verdicts(database: Database) -> list[str]:
        begun = await begin(
            database,
            database,
            deliveries,
            worker_id=worker_id,
            attempts_max=SETTINGS.attempts_max,
            chain_id=CHAIN_ID,
            environment=ENVIRONMENT,
            kinds=["kind"],
        )
        return [one.verdict for one in begun]

    async with (
        fault_proxy(database_url) as proxy,
        Database.open(proxy.url_for(database_url), pool_size=4, application_name="tests") as fragile,
    ):
        proxy.swallow_request(store.LOCK_JOBS.query.ref)
        assert await verdicts(fragile) == ["begun", "unbegun"]
        assert proxy.sprung
        assert await verdicts(fragile) == ["held", "begun"]


async def test_a_request_that_can_never_be_carried_out_is_set_aside_at_once(plane: Plane) -> None:
    """Goal: a person sees it, and nothing is tried twice. Method: a handler that raises RequestRefused."""
    record = await _ended(plane, await plane.enqueue(), _raising(RequestRefused("no such contract"), times=100))
    assert record.state == "quarantined"
    assert [attempt.state for attempt in record.attempts] == ["quarantined"]
    assert record.last_error == {"type": "RequestRefused", "message": "no such contract"}
    assert (record.outbox_due_at, (await plane.queue.counts())["completed"]) == (None, 1)


async def test_a_record_that_lost_its_place_in_the_queue_comes_under_the_next_generation(
    plane: Plane, redis_server: Launched
) -> None:
    """Goal: DLV-4: no loss in Redis strands a job. Method: the queue's set is lost and the record's hash is not, so
    BullMQ neither hands it out nor takes it again; the next delivery check does."""
    job_id = await plane.enqueue()
    publisher = plane.publisher()
    await publisher.publish_due()
    assert ask(redis_server.url, "DEL", "{tayho}:automation:prioritized") == ":1"
    await plane.make_due()
    await publisher.publish_due()
    (delivery,) = await plane.queue.fetch(2)
    assert delivery.delivery_id == delivery_id(job_id, 2)
    begun = await plane.begin(job_id, await plane.worker(), generation=2)
    assert begun.verdict == "begun"


async def test_a_lost_hint_does_not_fail_the_enqueue(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: who hears of an error believes that nothing was recorded. Method: PostgreSQL goes away between the commit
    and the hint; the enqueue answers, and the job is published at the next poll."""

    async def unavailable(_: object) -> int:
        await trio.lowlevel.checkpoint()
        raise StoreUnavailable("PostgreSQL is away")

    monkeypatch.setattr(store, "WAKE", unavailable)
    enqueued = await plane.coordination.enqueue(new_job())
    assert enqueued.created
    record = await _ended(plane, enqueued.job_id, _raising(RequestRefused(""), times=0))
    assert record.state == "completed"


@pytest.mark.parametrize(
    "document", [1e300, 1e-300, -1e16, 1e-5, [1e300] * 9_000, {"deep": [{"in": 1e17}]}], ids=lambda one: str(one)[:20]
)
async def test_a_number_with_an_exponent_is_refused_at_the_door(plane: Plane, document: Json) -> None:
    """Goal: DLV-10: what PostgreSQL would write out digit by digit never reaches it. Method: ask for such requests
    inside a transaction that goes on: a statement that PostgreSQL had refused would have ended it."""
    async with plane.database.transaction() as tx:
        with pytest.raises(DocumentRefused):
            await plane.coordination.enqueue(new_job("bad", n=document), tx=tx)
        await plane.coordination.enqueue(new_job("good", n=1), tx=tx)
    assert await plane.coordination.count_by_state() == {"queued": 1}


@given(st.floats())
def test_a_number_that_is_accepted_keeps_its_length_in_jsonb(number: float) -> None:
    """Goal: the size that was checked at the door is the size that is stored. Method: any float; what passes is written
    in plain digits already, and comes back as it was."""
    try:
        encoded = json_document.check(number)
    except DocumentRefused:
        return
    assert set(encoded) <= set(b"-.0123456789")
    assert json.loads(encoded) == number
