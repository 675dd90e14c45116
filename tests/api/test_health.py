"""The health face, over a real socket."""

from __future__ import annotations

import math

import pytest
import trio

from tayho.api.heart import STUCK_SECONDS
from tayho.api.readiness import Readiness, Reason
from tests.api.probing import served
from tests.waiting import until


async def test_alive_and_ready():
    """Goal: what a healthy process answers. Method: all three paths of a face whose checks pass."""
    async with served() as face:
        alive = await face.ask("/healthz")
        assert (alive.status, alive.document) == (200, {"status": "alive"})
        ready = await face.ask("/readyz")
        assert (ready.status, ready.document) == (200, {"ready": True, "reasons": [], "warnings": []})
        assert ready.headers["content-type"] == "application/json"
        assert ready.headers["cache-control"] == "no-store"
        assert "server" not in ready.headers
        metrics = await face.ask("/metrics")
        assert (metrics.status, metrics.body) == (200, b"tayho_up 1\n")
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_unready_with_every_reason_and_still_alive():
    """Goal: OPS-4's answer. Method: checks that find two reasons and a warning."""

    async def readiness() -> Readiness:
        await trio.lowlevel.checkpoint()
        return Readiness(
            (Reason("redis", "may evict"), Reason("drain", "requested")),
            (Reason("pool", "more than the server allows"),),
        )

    async with served(readiness=readiness) as face:
        answer = await face.ask("/readyz")
        assert answer.status == 503
        assert answer.document == {
            "ready": False,
            "reasons": [{"check": "redis", "reason": "may evict"}, {"check": "drain", "reason": "requested"}],
            "warnings": [{"check": "pool", "reason": "more than the server allows"}],
        }
        assert (await face.ask("/healthz")).status == 200


async def test_many_probes_put_one_question():
    """Goal: probes do not stampede the database. Method: many at once while the check waits, then some more at once."""
    asked, go_on = 0, trio.Event()

    async def readiness() -> Readiness:
        nonlocal asked
        asked += 1
        await go_on.wait()
        return Readiness()

    async with served(readiness=readiness) as face:
        statuses: list[int] = []

        async def probe() -> None:
            statuses.append((await face.ask("/readyz")).status)

        async with trio.open_nursery() as probes:
            for _ in range(60):
                probes.start_soon(probe)
            await until(lambda: face.health._readiness._asked.statistics().tasks_waiting == 60)
            go_on.set()
        await probe()
    assert statuses == [200] * 61
    assert asked == 1


async def test_a_check_that_hangs_is_no_answer_and_hangs_no_probe():
    """Goal: the deadline holds even where cancelling takes long. Method: a check that shields itself beyond it."""

    async def readiness() -> Readiness:
        with trio.CancelScope(shield=True):
            await trio.sleep(4)
        return Readiness()

    async with served(readiness=readiness) as face:
        started = trio.current_time()
        answer = await face.ask("/readyz")
        assert answer.status == 503
        assert answer.document["reasons"] == [{"check": "readiness", "reason": "the checks gave no answer in time"}]
        assert 1.5 < trio.current_time() - started < 3.5


@pytest.mark.parametrize("error", [KeyError("password hunter2"), RuntimeError("x")])
async def test_a_defect_in_a_check_is_a_reason_and_ends_nothing(error):
    """Goal: a bug of the face takes no job with it, and quotes nothing. Method: checks and gauges that raise."""

    async def readiness() -> Readiness:
        await trio.lowlevel.checkpoint()
        raise error

    async def refresh() -> None:
        await trio.lowlevel.checkpoint()
        raise error

    async with served(readiness=readiness, refresh=refresh) as face:
        answer = await face.ask("/readyz")
        assert answer.status == 503
        assert answer.document["reasons"] == [
            {"check": "readiness", "reason": f"the checks failed: {type(error).__name__}"}
        ]
        assert (await face.ask("/metrics")).body == b"tayho_up 1\n"


async def test_gauges_that_hang_are_not_waited_for_long():
    """Goal: a scrape comes back although the database does not. Method: a refresh that never ends."""
    async with served(refresh=trio.sleep_forever) as face:
        started = trio.current_time()
        assert (await face.ask("/metrics")).status == 200
        assert trio.current_time() - started < 3.5


async def test_a_nursery_that_stands_still_is_told():
    """Goal: liveness. Method: a heart whose task has ended long ago, and one that beats."""
    async with served() as face:
        face.heart._beaten_at = trio.current_time() - STUCK_SECONDS - 1
        answer = await face.ask("/healthz")
        assert answer.status == 503
        assert answer.document["status"] == "stuck"
        async with trio.open_nursery() as tasks:
            tasks.start_soon(face.heart.beat)
            await until(lambda: not face.heart.is_stuck)
            assert (await face.ask("/healthz")).status == 200
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/nowhere?x=1", 404),
        ("GET", "/schema", 404),
        ("GET", "/healthz/../etc/passwd", 404),
        ("GET", "/%00%ff%F0", 404),
        ("POST", "/healthz", 405),
        ("DELETE", "/metrics", 405),
    ],
)
async def test_what_is_not_served_is_a_problem_document(method, path, status):
    """Goal: RFC 9457 and nothing of the inside. Method: unknown paths and methods."""
    async with served() as face:
        answer = await face.ask(path, method=method)
        assert answer.status == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.document["status"] == status
        assert set(answer.document) == {"type", "title", "status"}


async def test_a_defect_of_a_handler_is_told_to_the_log_only(monkeypatch):
    """Goal: never a traceback in an answer, whatever the environment says. Method: a renderer that raises, in debug."""
    monkeypatch.setenv("LITESTAR_DEBUG", "1")

    def render() -> bytes:
        raise ZeroDivisionError("secret detail")

    async with served(render=render) as face:
        answer = await face.ask("/metrics")
        assert answer.status == 500
        assert answer.document == {"type": "about:blank", "title": "Internal Server Error", "status": 500}


async def test_an_answer_is_kept_for_a_moment_and_then_asked_anew(autojump_clock):
    """Goal: fresh enough, and cheap. Method: Trio's mock clock around the shared answer alone."""
    from tayho.api.shared_answer import SharedAnswer

    asked = 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await trio.sleep(0.1 if asked < 3 else math.inf)
        return asked

    shared = SharedAnswer(ask, kept_seconds=1, deadline_seconds=2)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(shared.run)
        assert await shared.get() == 1
        await trio.sleep(0.9)
        assert await shared.get() == 1
        await trio.sleep(0.2)
        assert await shared.get() == 2
        await trio.sleep(1.1)
        started = trio.current_time()
        assert await shared.get() is None
        assert trio.current_time() - started == 2
        assert await shared.get() is None
        assert trio.current_time() - started == 2, "no answer is kept as an answer is"
        tasks.cancel_scope.cancel()
