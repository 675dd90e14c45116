"""Many replicas look for the same work: one job each, one fault alone, nothing found in vain for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast
from uuid import UUID

import pytest
import trio
from attrs import define, evolve, field

from nursery.drain import Drain
from rpc.reads import Call, Reads
from rpc.values import Header
from tayho.coordination.attempts import End, Ends, EndVerdict
from tayho.discovery import recording, scanner, store
from tayho.discovery.module import Discovery, FindingReader
from tayho.discovery.recording import Recorder
from tayho.discovery.rules import genesis
from tayho.discovery.scanner import Scanner
from tayho.discovery.types import Scanned
from tayho.kernel.discovery import Discovered, Finding, Work
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, Plane, plane  # noqa: F401 - a fixture
from tests.waiting import until

pytestmark = pytest.mark.services

T = TypeVar("T")
GENESIS = Header(0, b"\xaa" * 32, bytes(32), 0, None, 0, 0, bytes(32), bytes(32), bytes(32), b"", bytes(20))


@define
class Chain:
    """Reads that know the genesis block, and nothing else."""

    genesis: Header = GENESIS

    async def ask(self, call: Call[T]) -> T:
        await trio.lowlevel.checkpoint()
        assert call.method == "eth_getBlockByNumber"
        return cast("T", self.genesis)

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[Any]:
        return [await self.ask(call) for call in calls]


@define
class Kind:
    """A kind that finds what the test says, page after page; the last page again and again."""

    pages: list[Discovered]
    name: str = "kind"
    role: str = ROLE
    looks: int = 0
    behave: Callable[[], Awaitable[None]] = field(default=trio.lowlevel.checkpoint)

    async def discover(self, reads: Reads) -> Discovered:
        self.looks += 1
        await self.behave()
        return self.pages[min(self.looks, len(self.pages)) - 1]


def work(count: int, **request: object) -> Discovered:
    return Discovered(tuple(Work(f"w{number}", cast("Any", request)) for number in range(count)))


@define
class Replica:
    """One process's discovery, and what it counted."""

    plane: Plane
    chain: Chain = field(factory=Chain)
    counts: Counter[tuple[str, Scanned]] = field(factory=Counter[tuple[str, Scanned]])
    heads_agreed: int = 0

    def observe(self, kind: str, what: Scanned, count: int) -> None:
        self.counts[kind, what] += count

    async def reads(self) -> Reads:
        self.heads_agreed += 1
        await trio.lowlevel.checkpoint()
        return cast("Reads", self.chain)

    def scanner(self, kind: Kind) -> Scanner:
        recorder = Recorder(self.plane.database, self.plane.coordination, CHAIN_ID, ENVIRONMENT, "replica")
        return Scanner(kind, recorder, self.reads, self.observe)

    def discovery(self) -> Discovery:
        return Discovery(
            self.plane.database, self.plane.coordination, CHAIN_ID, ENVIRONMENT, "replica", self.reads, self.observe
        )

    async def look(self, found: Discovered) -> Counter[Scanned]:
        """One look at one page; what was counted."""
        self.counts.clear()
        await self.scanner(Kind([found])).look()
        return Counter({what: count for (_, what), count in self.counts.items() if count})


@pytest.fixture
def replica(plane: Plane) -> Replica:  # noqa: F811
    return Replica(plane)


async def jobs(plane: Plane) -> dict[str, tuple[UUID, str, Any]]:  # noqa: F811
    async with plane.database.connection() as connection:
        rows = await connection.fetch("SELECT idempotency_key, job_id, state, request FROM coordination.jobs")
    return {row["idempotency_key"]: (row["job_id"], row["state"], row["request"]) for row in rows}


async def end(plane: Plane, verdict: EndVerdict) -> None:  # noqa: F811
    """Let every open job be attempted and end so."""
    worker_id = await plane.worker()
    for job_id, state, _ in (await jobs(plane)).values():
        if state == "queued":
            begun = await plane.begin(job_id, worker_id)
            assert begun.attempt is not None
            detail = {"type": "Boom", "message": ""}
            await Ends(plane.database, 1).end_all_if_current([End(begun.attempt, verdict, detail)])


async def test_scanners_that_find_the_same_at_once_make_one_job_each(plane: Plane) -> None:  # noqa: F811
    """Goal: replicas are redundant and nothing is done twice. Method: six replicas look at the same forty pieces of
    work at the same moment, each with a request of its own; one job a key, with the request of one of them."""
    replicas = [Replica(plane) for _ in range(6)]
    async with trio.open_nursery() as looks:
        for number, one in enumerate(replicas):
            looks.start_soon(one.scanner(Kind([work(40, seen=number)])).look)
    found = await jobs(plane)
    assert set(found) == {f"kind/aaaaaaaa/w{number}" for number in range(40)}
    assert sum(one.counts["kind", Scanned.NEW] for one in replicas) == 40
    assert sum(one.counts["kind", Scanned.KNOWN] for one in replicas) == 200


async def test_the_first_request_of_a_key_stands(replica: Replica) -> None:
    """Goal: two oracles that read different numbers make one job, and no conflict stops the look. Method: the same key
    with another request."""
    assert await replica.look(work(1, rate=1)) == {Scanned.NEW: 1, Scanned.LOOKED: 1}
    assert await replica.look(work(2, rate=2)) == {Scanned.NEW: 1, Scanned.KNOWN: 1, Scanned.LOOKED: 1}
    assert [request for _, _, request in (await jobs(replica.plane)).values()] == [{"rate": 1}, {"rate": 2}]


async def test_work_found_in_vain_gets_another_job_after_a_wait(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: no key is burnt by a job that ended without an effect. Method: end the job as not_actionable and look: it
    waits; with the wait over, six replicas look at once, and there is one further job; so again; and never a second
    beside one that is open."""
    await replica.look(work(1))
    for occasion in (2, 3):
        await end(replica.plane, "not_actionable")
        monkeypatch.setattr(recording, "VAIN_SECONDS_FIRST", 60.0)
        assert await replica.look(work(1)) == {Scanned.WAITING: 1, Scanned.LOOKED: 1}
        monkeypatch.setattr(recording, "VAIN_SECONDS_FIRST", 0.0)
        replicas = [Replica(replica.plane) for _ in range(6)]
        async with trio.open_nursery() as looks:
            for one in replicas:
                looks.start_soon(one.scanner(Kind([work(1)])).look)
        assert sum(one.counts["kind", Scanned.AGAIN] for one in replicas) == 1
        assert f"kind/aaaaaaaa/w0~{occasion}" in await jobs(replica.plane)
        assert len(await jobs(replica.plane)) == occasion


async def test_who_waited_for_another_to_advance_is_one_too_late(replica: Replica) -> None:
    """Goal: of replicas that advance the same work in the same moment one does. Method: one holds the row in an open
    transaction; another asks meanwhile, waits for it, and advances nothing."""
    await replica.look(work(1))
    await end(replica.plane, "not_actionable")
    await replica.look(work(1))
    advanced: list[list[object]] = []
    asked = CHAIN_ID, ENVIRONMENT, ["kind/aaaaaaaa/w0"], [1], 0.0, 0.0
    database = replica.plane.database

    async def advance() -> None:
        async with database.transaction() as tx:
            advanced.append(list(await store.ADVANCE_IF_WAITED(tx, *asked)))

    async def is_waiting() -> bool:
        async with database.connection() as connection:
            waiting = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            return await connection.fetchval(waiting) > 0

    async with trio.open_nursery() as others, database.transaction() as tx:
        assert len(await store.ADVANCE_IF_WAITED(tx, *asked)) == 1
        others.start_soon(advance)
        await until(is_waiting, what="the other to wait for the row")
    assert advanced == [[]]


async def test_each_wait_is_twice_the_last(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: what stays in vain costs ever less. Method: let time pass by moving the row's clock; the third job comes
    after more than the first wait."""
    await replica.look(work(1))
    waits: list[int] = []
    for _ in range(3):
        await end(replica.plane, "not_actionable")
        await replica.look(work(1))
        waited = 0
        while (await replica.look(work(1)))[Scanned.AGAIN] == 0:
            waited += 30
            async with replica.plane.database.connection() as connection:
                await connection.execute("UPDATE discovery.occasions SET begun_at = begun_at - interval '30 seconds'")
        waits.append(waited)
    assert waits == [60, 120, 240]


@pytest.mark.parametrize("verdict", ["failed", "completed"])
async def test_what_ended_otherwise_is_left_alone(
    replica: Replica, monkeypatch: pytest.MonkeyPatch, verdict: EndVerdict
) -> None:
    """Goal: a dead job is an operator's to replay, a completed one has had its effect. Method: look again, no wait."""
    monkeypatch.setattr(recording, "VAIN_SECONDS_FIRST", 0.0)
    await replica.look(work(1))
    await end(replica.plane, verdict)
    counted = await replica.look(work(1))
    assert counted == {(Scanned.DEAD if verdict == "failed" else Scanned.KNOWN): 1, Scanned.LOOKED: 1}
    assert len(await jobs(replica.plane)) == 1


async def test_a_chain_that_was_begun_anew_asks_for_its_work_anew(replica: Replica) -> None:
    """Goal: the first order of a new chain is not that of the old one. Method: the same work under another genesis."""
    await replica.look(work(1))
    replica.chain.genesis = evolve(GENESIS, hash=b"\xbb" * 32)
    await replica.look(work(1))
    assert set(await jobs(replica.plane)) == {"kind/aaaaaaaa/w0", "kind/bbbbbbbb/w0"}


async def test_a_kind_that_fails_or_hangs_keeps_no_other_from_its_work(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: kinds are each by itself, and the process lives on. Method: one raises, one raises in a nursery of its own,
    one hangs beyond the deadline, one returns nonsense, one too much; the sixth goes on finding. A drain ends them all,
    the hanging one in the middle."""
    monkeypatch.setattr(scanner, "PAGE_SECONDS_MAX", 0.2)
    monkeypatch.setattr(scanner, "WORK_MAX", 5)

    async def fail() -> None:
        raise ZeroDivisionError("a bug")

    async def fail_inside() -> None:
        async with trio.open_nursery() as tasks:
            tasks.start_soon(fail)

    kinds = [
        Kind([work(1)], name="fails", behave=fail),
        Kind([work(1)], name="fails inside", behave=fail_inside),
        Kind([work(1)], name="hangs", behave=trio.sleep_forever),
        Kind([cast("Any", None)], name="nonsense"),
        Kind([work(6)], name="too much"),
        Kind([work(1), work(2), work(3)], name="well"),
    ]
    drain = Drain(seconds=5)
    async with trio.open_nursery() as scanning:
        scanning.start_soon(partial(replica.discovery().scan, kinds, 0.01, drain))
        await until(lambda: kinds[-1].looks >= 5, what="the good kind to look on")
        await until(lambda: replica.counts["hangs", Scanned.LATE] >= 2, what="the hanging kind to be cut off")
        drain.request("test")
        with trio.fail_after(2):
            while scanning.child_tasks:
                await trio.lowlevel.checkpoint()
    assert set(await jobs(replica.plane)) == {f"well/aaaaaaaa/w{number}" for number in range(3)}
    for name in ("fails", "fails inside", "nonsense", "too much"):
        assert replica.counts[name, Scanned.FAILED] >= 1
        assert replica.counts[name, Scanned.LOOKED] == 0


async def test_a_look_is_about_one_head_and_one_that_asks_nothing_needs_none(replica: Replica) -> None:
    """Goal: an idle kind costs no vote, and what a kind asks side by side is about one block. Method: a page without
    anything; then a kind that asks three questions at once, and finds work."""
    await replica.look(Discovered())
    assert replica.heads_agreed == 0

    class Asking(Kind):
        async def discover(self, reads: Reads) -> Discovered:
            async with trio.open_nursery() as questions:
                for _ in range(3):
                    questions.start_soon(reads.ask, genesis())
            return work(1)

    await replica.scanner(Asking([])).look()
    assert replica.heads_agreed == 1


async def test_a_drain_cuts_a_look_off(replica: Replica) -> None:
    """Goal: scanners stop first, and hold no drain up. Method: a kind that hangs, with half a minute left; a drain."""
    kind = Kind([work(1)], behave=trio.sleep_forever)
    drain = Drain(seconds=5)
    with trio.fail_after(5):
        async with trio.open_nursery() as scanning:
            scanning.start_soon(partial(replica.discovery().scan, [kind], 1, drain))
            await until(lambda: kind.looks == 1, what="the look to begin")
            drain.request("test")


async def test_pages_are_taken_one_after_the_other_up_to_a_bound(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a long list is found in one look, and a list without end ends the look. Method: three pages, then a kind
    that always has more."""
    pages = [evolve(work(number), is_more=number < 3) for number in (1, 2, 3)]
    kind = Kind(pages)
    await replica.scanner(kind).look()
    assert (kind.looks, len(await jobs(replica.plane))) == (3, 3)
    monkeypatch.setattr(scanner, "PAGES_MAX", 4)
    endless = Kind([evolve(work(1), is_more=True)])
    await replica.scanner(endless).look()
    assert endless.looks == 4


async def test_a_finding_is_kept_once_an_hour_whoever_finds_it(replica: Replica) -> None:
    """Goal: a source that is silent for a day fills no table. Method: three replicas find two faults at once, and
    again; the newest come first."""
    found = Discovered(findings=(Finding("M/funding", "silent", "one"), Finding("M/depth", "stale", "two")))
    reader = FindingReader(replica.plane.database, CHAIN_ID, ENVIRONMENT)
    for _ in range(2):
        async with trio.open_nursery() as looks:
            for _ in range(3):
                looks.start_soon(Replica(replica.plane).scanner(Kind([found])).look)
    kept = await reader.newest(10)
    assert {(one.subject, one.name) for one in kept} == {("M/funding", "silent"), ("M/depth", "stale")}
    assert len(kept) == 2
    await replica.look(Discovered(findings=(Finding("M/funding", "ahead", "three"),)))
    assert [one.detail for one in await reader.newest(1)] == ["three"]
    assert len(await reader.newest(10)) == 3
