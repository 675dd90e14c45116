"""Node's official BullMQ and ours on one queue see, count, complete and retry each other's records (issue 2, 5)."""

import json
import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trio

from storage.records import AckOutcome, Completion, Delivery, RecordState
from tests.storage.delivery_plane import PREFIX, QUEUE, Plane, a_record, open_plane
from tests.waiting import until

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tools" / "node" / "package.json"
SCRIPT = Path(__file__).with_name("node_side.mjs")
# A cold start of Node with BullMQ on a loaded machine, and the work itself.
NODE_SECONDS = 45

AWKWARD: dict[str, object] = {
    "text": "żółć 🚀 \u0000 \u2028 \ud800",
    "deep": {"list": [None, True, 1.5, []], "empty": {}},
    "": "",
}

pytestmark = pytest.mark.services


async def test_node_sees_and_counts_our_records_in_every_state() -> None:
    """Goal: bull-board shows the truth. Method: ours in each state; compare Node's counts, states and fields."""
    async with open_plane() as plane:
        names = ("waiting", "active", "delayed", "completed", "failed")
        records = {each: a_record(AWKWARD, name=each, priority=at + 1, attempts=4) for at, each in enumerate(names, 1)}
        # The one that is to stay waiting is the least urgent.
        records["waiting"] = a_record(AWKWARD, name="waiting", priority=99, attempts=4)
        await plane.queue.publish_many([*records.values()])
        held = {each.name: each for each in await plane.queue.fetch(4)}
        await plane.queue.put_back(held["delayed"], delay_seconds=60)
        await plane.queue.complete_many([Completion(held["completed"], {"hash": "0x12"})])
        await plane.queue.fail(held["failed"], "it broke: ż", retry=False)

        seen = await node(plane, "look", ids=[records[each].delivery_id for each in names])
        expected = {"prioritized": 1, "active": 1, "delayed": 1, "completed": 1, "failed": 1}
        assert {key: value for key, value in seen["counts"].items() if value} == expected
        ours = await plane.queue.counts()
        assert all(seen["counts"][key] == value for key, value in ours.items())
        assert seen["states"] == ["prioritized", "active", "delayed", "completed", "failed"]
        jobs = {job["name"]: job for job in seen["jobs"]}
        assert all(job["data"] == AWKWARD and job["attempts"] == 4 for job in jobs.values())
        assert jobs["waiting"]["priority"] == 99
        assert jobs["completed"]["returnvalue"] == {"hash": "0x12"}
        assert (jobs["failed"]["failedReason"], jobs["failed"]["attemptsMade"]) == ("it broke: ż", 1)
        assert jobs["delayed"]["attemptsMade"] == 0


async def test_node_completes_our_records() -> None:
    """Goal: a Node worker may serve our queue. Method: Node works off ten; states, data and counts compared."""
    async with open_plane() as plane:
        records = [a_record({"at": at, **AWKWARD}) for at in range(10)]
        await plane.queue.publish_many(records)
        worked = await node(plane, "work", count=10)
        assert {job["id"]: job["data"] for job in worked["done"]} == {each.delivery_id: each.data for each in records}
        assert await plane.queue.states([each.delivery_id for each in records]) == [RecordState.COMPLETED] * 10
        assert await plane.queue.fetch(10) == []


async def test_node_retries_our_records_with_our_backoff() -> None:
    """Goal: backoff and jitter mean the same to Node. Method: two failures there; the gaps lie in the bounds."""
    async with open_plane() as plane:
        records = [a_record(attempts=3, backoff_milliseconds=200) for _ in range(5)]
        await plane.queue.publish_many(records)
        worked = await node(plane, "work", count=5, failures=2)
        assert {job["attemptsMade"] for job in worked["done"]} == {3}
        for first, second, third in worked["began"].values():
            assert second - first >= 100
            assert third - second >= 200
        assert await plane.queue.states([each.delivery_id for each in records]) == [RecordState.COMPLETED] * 5


@pytest.mark.parametrize("bulk", [False, True])
async def test_we_complete_what_node_added(bulk: bool) -> None:
    """Goal: our worker serves Node's producers. Method: plain, delayed, urgent and named jobs; Node awaits results."""
    jobs: list[dict[str, Any]] = [
        {"name": "plain", "data": AWKWARD, "opts": {}},
        {"name": "delayed", "data": {}, "opts": {"delay": 400}},
        {"name": "urgent", "data": {}, "opts": {"priority": 1}},
        {"name": "named", "data": {}, "opts": {"jobId": f"{uuid4()}-g7"}},
    ]
    async with open_plane() as plane:
        done: dict[str, Delivery] = {}
        async with node_running(plane, "add", jobs=jobs, bulk=bulk, await_results=True) as process:
            await first_line(process)
            async with working(plane, done):
                answer = await answer_of(process)
        assert sorted(done) == sorted(answer["ids"])
        assert [result["name"] for result in answer["results"]] == [job["name"] for job in jobs]
        plain = done[answer["ids"][0]]
        assert (plain.name, plain.data, plain.damaged) == ("plain", AWKWARD, None)
        assert answer["ids"][3] == jobs[3]["opts"]["jobId"]


@pytest.mark.parametrize(
    "backoff", [{"type": "exponential", "delay": 100, "jitter": 0.5}, {"type": "fixed", "delay": 100}, 100, None]
)
async def test_we_retry_what_node_added_with_nodes_backoff(backoff: object) -> None:
    """Goal: every backoff Node knows works here. Method: fail twice, complete the third; Node sees the attempts."""
    options = {"attempts": 3} if backoff is None else {"attempts": 3, "backoff": backoff}
    async with open_plane() as plane:
        added = await node(plane, "add", jobs=[{"name": "shaky", "data": {}, "opts": options}])
        for made in range(2):
            [delivery] = await fetched(plane)
            assert (delivery.attempts_made, delivery.attempts_allowed) == (made, 3)
            assert await plane.queue.fail(delivery, f"no {made}", retry=True) is AckOutcome.RETRIED
        [delivery] = await fetched(plane)
        assert delivery.attempts_made == 2
        assert await plane.queue.complete_many([Completion(delivery, "yes")]) == [AckOutcome.COMPLETED]
        seen = await node(plane, "look", ids=added["ids"])
        [job] = seen["jobs"]
        assert (seen["states"], job["attemptsMade"], job["returnvalue"]) == (["completed"], 3, "yes")


async def test_both_workers_share_one_queue_and_no_record_twice() -> None:
    """Goal: locks hold across languages. Method: 200 records, both work at once; the shares are disjoint, none lost."""
    async with open_plane() as plane:
        done: dict[str, Delivery] = {}
        async with node_running(plane, "share", quiet_milliseconds=1500) as process:
            await first_line(process)
            async with working(plane, done):
                published: list[str] = []
                for _ in range(20):
                    records = [a_record() for _ in range(10)]
                    published += [each.delivery_id for each in records]
                    await plane.queue.publish_many(records)
                answer = await answer_of(process)
        assert sorted([*answer["ids"], *done]) == sorted(published)
        assert answer["ids"]
        assert done
        assert (await plane.queue.counts())["completed"] == 200


async def test_we_recover_what_a_killed_node_worker_held() -> None:
    """Goal: stalled recovery across languages. Method: SIGKILL a Node worker in mid-job; our scans hand it out."""
    async with open_plane(lock_seconds=0.5) as plane:
        record = a_record()
        await plane.queue.publish_many([record])
        async with node_running(plane, "hang", lock_milliseconds=1000) as process:
            assert await first_line(process) == record.delivery_id
            process.kill()
            await process.wait()

        async def recovered() -> bool:
            return await plane.queue.recover_stalled() == [record.delivery_id]

        await until(recovered, seconds=10, what="our stalled scan to find Node's orphan")
        [delivery] = await fetched(plane)
        assert delivery.delivery_id == record.delivery_id
        assert await plane.queue.complete_many([Completion(delivery)]) == [AckOutcome.COMPLETED]


async def test_node_recovers_what_we_let_go() -> None:
    """Goal: the same, the other way. Method: fetch and forget under a short lock; a Node worker gets the record."""
    async with open_plane(lock_seconds=0.3) as plane:
        record = a_record()
        await plane.queue.publish_many([record])
        [orphan] = await plane.queue.fetch(1)
        async with node_running(plane, "hang", lock_milliseconds=5000) as process:
            assert await first_line(process) == record.delivery_id
            assert await plane.queue.complete_many([Completion(orphan)]) == [AckOutcome.LOCK_LOST]
            process.kill()
            await process.wait()


async def test_a_queue_that_node_paused_wakes_us_when_resumed() -> None:
    """Goal: pause and resume from Node's side. Method: pause, fetch nothing, wait; resume wakes the wait."""
    async with open_plane() as plane:
        await node(plane, "pause", paused=True)
        await plane.queue.publish_many([a_record()])
        assert await plane.queue.fetch(1) == []
        assert not await plane.queue.wait(0.05)
        async with trio.open_nursery() as tasks:
            tasks.start_soon(node, plane, "pause")
            assert await fetched(plane)


async def fetched(plane: Plane) -> list[Delivery]:
    """What comes next."""
    taken: list[Delivery] = []

    async def some() -> bool:
        await plane.queue.wait(1)
        taken.extend(await plane.queue.fetch(10))
        return bool(taken)

    await until(some, seconds=NODE_SECONDS, what="a delivery")
    return taken


@asynccontextmanager
async def working(plane: Plane, done: dict[str, Delivery]) -> AsyncGenerator[None]:
    """Our side at work beside the block: complete whatever comes, and note it in `done`."""

    async def work() -> None:
        while True:
            await plane.queue.wait(1)
            taken = await plane.queue.fetch(5)
            done.update((each.delivery_id, each) for each in taken)
            completions = [Completion(each, {"name": each.name}) for each in taken]
            assert await plane.queue.complete_many(completions) == [AckOutcome.COMPLETED] * len(taken)

    async with trio.open_nursery() as tasks:
        tasks.start_soon(work)
        yield
        tasks.cancel_scope.cancel()


def _command(plane: Plane, verb: str, arguments: object) -> Sequence[str]:
    connection = {"host": "127.0.0.1", "port": plane.redis.port}
    target = {"connection": connection, "prefix": PREFIX, "name": QUEUE}
    return ["node", str(SCRIPT), str(PACKAGE), json.dumps(target), verb, json.dumps(arguments)]


async def node(plane: Plane, verb: str, **arguments: object) -> Any:
    """Run one verb of node_side.mjs to its end; its answer."""
    async with node_running(plane, verb, **arguments) as process:
        return await answer_of(process)


@asynccontextmanager
async def node_running(plane: Plane, verb: str, **arguments: object) -> AsyncGenerator[trio.Process]:
    """One verb of node_side.mjs under way."""
    command = _command(plane, verb, arguments)
    process = await trio.lowlevel.open_process(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        with trio.fail_after(NODE_SECONDS):
            await trio.lowlevel.checkpoint()
            yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def first_line(process: trio.Process) -> str:
    """The next line that Node prints."""
    assert process.stdout is not None
    line = b""
    while not line.endswith(b"\n"):
        byte = await process.stdout.receive_some(1)
        assert byte, "Node ended early; its error is on standard error"
        line += byte
    return line.decode().strip()


async def answer_of(process: trio.Process) -> Any:
    """The last line that Node prints, read."""
    assert process.stdout is not None
    text = b"".join([chunk async for chunk in process.stdout])
    assert await process.wait() == 0, "Node failed; its error is on standard error"
    return json.loads(text.decode().strip().split("\n")[-1])
