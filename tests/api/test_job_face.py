"""`GET /jobs/{id}/explain`, over a real socket."""

from __future__ import annotations

from uuid import UUID

import pytest
import trio

from storage.database import Database
from storage.delivery import DeliveryQueue
from storage.errors import StoreUnavailable
from storage.redis_client import open_redis
from tayho.api import job_face
from tayho.api.job_face import AT_ONCE_MAX, explain_route
from tayho.coordination.module import Explainer, Explanation, enqueue_jobs
from tayho.coordination.types import NewJob
from tayho.kernel.ids import new_id
from tests.api.probing import served
from tests.waiting import until

PROBLEM = "application/problem+json"


async def test_a_job_is_explained_as_json(database: Database, redis_url: str) -> None:
    """Goal: the answer of the command line, for a program. Method: a real job; read the document and its headers."""
    job = NewJob("kind", "automation", "key", {"n": 1})
    (enqueued,) = await enqueue_jobs(database, 31337, "test", [job])
    async with open_redis(redis_url) as redis:
        queue = DeliveryQueue(redis, prefix="{tayho}", name="automation", lock_seconds=2)
        explainer = Explainer(database, lambda _: queue, 31337, "test", fair_window=32)
        async with served(beside=[explain_route(explainer.explain)]) as face:
            answer = await face.ask(f"/jobs/{enqueued.job_id}/explain")
            missing = await face.ask(f"/jobs/{new_id()}/explain")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["cache-control"] == "no-store"
    document = answer.document
    assert (document["job_id"], document["state"]) == (str(enqueued.job_id), "queued")
    assert [cause["code"] for cause in document["causes"]] == ["no_worker", "unpublished"]
    assert document["summary"] == document["causes"][0]["sentence"]
    assert document["facts"]["run_at"].endswith("+00:00")
    assert (missing.status, missing.headers["content-type"]) == (404, PROBLEM)
    assert missing.document == {"type": "about:blank", "title": "Not Found", "status": 404}


async def test_what_is_no_id_is_not_found() -> None:
    """Goal: a path never reaches the database as text. Method: words, an injection, an id too short."""

    async def never(job_id: UUID) -> Explanation | None:
        await trio.lowlevel.checkpoint()
        raise AssertionError(job_id)

    async with served(beside=[explain_route(never)]) as face:
        for path in ("/jobs/x/explain", "/jobs/1;DROP/explain", "/jobs/0190/explain", "/jobs//explain"):
            answer = await face.ask(path)
            assert (answer.status, answer.headers["content-type"]) == (404, PROBLEM), path


async def test_without_postgresql_the_answer_is_503() -> None:
    """Goal: away is not absent. Method: a question that raises what the store raises."""

    async def away(job_id: UUID) -> Explanation | None:
        await trio.lowlevel.checkpoint()
        raise StoreUnavailable("postgresql://user:hunter2@nowhere")

    async with served(beside=[explain_route(away)]) as face:
        answer = await face.ask(f"/jobs/{new_id()}/explain")
    assert (answer.status, answer.headers["content-type"]) == (503, PROBLEM)
    assert b"hunter2" not in answer.body


async def test_questions_are_bounded_in_number_and_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: whoever asks takes no connection from the work. Method: more questions than there are turns, none of which
    is answered: no more than the turns are put, and all hear 503 at the deadline."""
    monkeypatch.setattr(job_face, "DEADLINE_SECONDS", 0.5)
    asked = most = 0

    async def hangs(job_id: UUID) -> Explanation | None:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        try:
            await trio.sleep_forever()
        finally:
            asked -= 1
        raise AssertionError("unreachable")

    statuses: list[int] = []
    async with served(beside=[explain_route(hangs)]) as face, trio.open_nursery() as askers:

        async def put() -> None:
            statuses.append((await face.ask(f"/jobs/{new_id()}/explain")).status)

        for _ in range(AT_ONCE_MAX + 3):
            askers.start_soon(put)
        await until(lambda: len(statuses) == AT_ONCE_MAX + 3, what="every question to be answered")
    assert statuses == [503] * (AT_ONCE_MAX + 3)
    assert most == AT_ONCE_MAX
