"""The reconciler ends what the chain has ended, whatever it cannot read, sign or send of the rest (TX-5, I9)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

import pytest
import trio
from attrs import evolve, frozen
from eth_utils.crypto import keccak

from rpc import methods
from rpc.errors import EndpointFault, Malformed, NoQuorum, RpcError, RpcRefused, Transport
from rpc.member import Member
from rpc.reads import Call as Question
from rpc.reads import Reads, Writes
from storage.database import Database
from tayho.kernel.jobs import Attempt, Ended
from tayho.kernel.steps import on_step
from tayho.transactions import store
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.journal import Journal
from tayho.transactions.reconciler import Reconciler
from tayho.transactions.sending import Sending
from tayho.transactions.types import Allocation, Lineage, Persistence, SignedMember
from tayho.voters import truth_of
from tests.coordination.test_races import PLANS, locked_before_the_middle, planning, turn_around, until_waiting
from tests.invariants import check_invariants
from tests.transactions.conftest import Engine, any_call
from tests.transactions.test_executor import Kind
from tests.waiting import until

T = TypeVar("T")

UNREADABLE = EndpointFault("node", Malformed("blockHash is missing"))
REFUSED = RpcRefused(-32000, "missing trie node")
AWAY = EndpointFault("node", Transport("connection refused"))


@frozen
class Blind:
    """The node, whose answers to some questions are errors."""

    node: Reads
    to: Callable[[Question[object]], bool]
    error: RpcError
    shown: str = "blind"

    async def ask(self, call: Question[T]) -> T:
        if self.to(cast("Question[object]", call)):
            raise self.error
        return await self.node.ask(call)

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        answers = await self.node.ask_many(calls)
        return [
            self.error if self.to(cast("Question[object]", call)) else answer
            for call, answer in zip(calls, answers, strict=True)
        ]


@frozen
class Behind:
    """A node that has not seen the last blocks: an old head, or nothing of ours at all."""

    node: Reads
    head: int
    sees_transactions: bool
    shown: str = "behind"

    async def ask(self, call: Question[T]) -> T:
        (answer,) = await self.ask_many([call])
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        answers = await self.node.ask_many([self._of_its_time(call) for call in calls])
        if self.sees_transactions:
            return answers
        unseen: dict[str, object] = {"eth_getTransactionReceipt": None, "eth_getTransactionCount": 0}
        return [
            cast("T", unseen[call.method]) if call.method in unseen else answer
            for call, answer in zip(calls, answers, strict=True)
        ]

    def _of_its_time(self, call: Question[T]) -> Question[T]:
        return evolve(call, params=(hex(self.head), False)) if call.params == ("latest", False) else call


@frozen
class Held:
    """The node, whose first answer of all waits for the word."""

    node: Reads
    word: trio.Event
    shown: str = "held"

    async def ask(self, call: Question[T]) -> T:
        await self.word.wait()
        return await self.node.ask(call)

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        await self.word.wait()
        return await self.node.ask_many(calls)


class Agrees:
    """A node that takes whatever is sent to it."""

    async def ask(self, call: Question[T]) -> T:
        await trio.lowlevel.checkpoint()
        raw = call.params[0]
        assert isinstance(raw, str)
        return cast("T", keccak(hexstr=raw))

    async def ask_in_turn(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        return [await self.ask(call) for call in calls]


def _reconciler(engine: Engine, voter: Member, writes: Writes | None = None) -> Reconciler:
    """Another replica's reconciler over the same journal, with a view of the chain of its own."""
    return Reconciler(
        engine.plane.database,
        engine.plane.coordination,
        engine.executor._custody,  # pyright: ignore[reportPrivateUsage]
        truth_of([voter]),
        Sending(Broadcaster(writes or engine.node, "node")),
        engine.executor,
        engine.settings,
    )


async def _execute(engine: Engine, attempt: Attempt) -> None:
    job = await engine.job(attempt)
    assert await engine.executor.execute(Kind(any_call()), job, attempt) == Ended()


@frozen
class Sent:
    """A job whose transaction is out and mined: what a question about it would name."""

    attempt: Attempt
    signer: str
    tx_hash: str
    height: str
    block_number: int


async def _sent(engine: Engine, count: int) -> list[Sent]:
    """So many jobs, each mined in a block of its own, by turns of the lanes; the head is well above them."""
    sent: list[Sent] = []
    for attempt in await engine.attempts(count):
        await _execute(engine, attempt)
        async with engine.plane.database.connection() as connection:
            row = await connection.fetchrow(
                "SELECT signer, tx_hash FROM transactions.members JOIN transactions.lineages USING (lineage_id, signer)"
                " WHERE job_id = $1",
                attempt.job_id,
            )
        assert row is not None
        receipt = await engine.node.ask(methods.transaction_receipt(row["tx_hash"]))
        assert receipt is not None
        sent.append(
            Sent(
                attempt,
                f"0x{row['signer'].hex()}",
                f"0x{row['tx_hash'].hex()}",
                hex(receipt.block_number),
                receipt.block_number,
            )
        )
    await _mine(engine)
    return sent


async def _mine(engine: Engine) -> None:
    await engine.node.ask(Question("anvil_mine", ("0x2",), lambda _: None, is_write=True))


async def _states(engine: Engine, attempts: Sequence[Attempt]) -> list[str]:
    return [await engine.plane.state(attempt.job_id) for attempt in attempts]


@contextmanager
def _counting_steps() -> Generator[list[str]]:
    seen: list[str] = []
    on_step(seen.append)
    try:
        yield seen
    finally:
        on_step(None)


async def _allocated(engine: Engine, count: int) -> tuple[list[Attempt], list[Lineage]]:
    """So many allocations over the engine's two lanes, however deep these usually are."""
    attempts = await engine.attempts(count)
    deep = Journal(engine.plane.database, engine.plane.coordination, evolve(engine.settings, lane_depth=count))
    answers = await deep.allocate_many([Allocation(attempt, any_call()) for attempt in attempts])
    lineages = [answer for answer in answers if isinstance(answer, Lineage)]
    assert len(lineages) == count
    return attempts, lineages


async def _members(engine: Engine, lineages: Sequence[Lineage]) -> list[SignedMember]:
    members = [await engine.executor.sign(lineage) for lineage in lineages]
    return [member for member in members if isinstance(member, SignedMember)]


async def test_a_filler_that_the_market_forbids_holds_nothing_else_up(engine: Engine) -> None:
    """Goal: one lane's waiting filler does not blind the reconciler. Method: a nonce below the tail is given up while
    the market is above the ceiling; the other lane's transaction is finalised by the same ticks, and the filler goes
    out when the market comes down."""
    attempts, lineages = await _allocated(engine, 3)
    await engine.journal.abandon_unsigned(attempts[0], lineages[0], {"reason": "not wanted"})
    for attempt in attempts[1:]:
        await _execute(engine, attempt)
    engine.executor._settings = evolve(engine.settings, fee_wei_max=1)  # pyright: ignore[reportPrivateUsage]
    await engine.tick_and_mine(3)
    assert await _states(engine, attempts[1:]) == ["completed", "confirming"]
    engine.executor._settings = engine.settings  # pyright: ignore[reportPrivateUsage]
    await engine.tick_and_mine(4)
    assert await _states(engine, attempts[1:]) == ["completed", "completed"]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


def _about(sent: Sent, what: str) -> Callable[[Question[object]], bool]:
    match what:
        case "receipt":
            return lambda call: (call.method, call.params) == ("eth_getTransactionReceipt", (sent.tx_hash,))
        case "header":
            return lambda call: (call.method, call.params) == ("eth_getBlockByNumber", (sent.height, False))
        case _:
            return lambda call: (
                (call.method, call.params[:1]) == ("eth_getTransactionCount", (sent.signer,))
                and (call.params[1] == "pending") == (what == "pending nonce")
            )


@pytest.mark.parametrize("error", [UNREADABLE, REFUSED], ids=["unreadable", "refused"])
@pytest.mark.parametrize("what", ["receipt", "header", "confirmed nonce", "pending nonce"])
async def test_one_answer_that_cannot_be_read_leaves_its_own_lineage_alone(
    engine: Engine, what: str, error: RpcError
) -> None:
    """Goal: one bad answer stops nobody else. Method: two lineages in two lanes and two blocks; the answer to one
    question about the first is an error; the second is finalised, the first untouched until it can be read."""
    sent = await _sent(engine, 2)
    attempts = [one.attempt for one in sent]
    asked: list[Question[object]] = []
    about = _about(sent[0], what)

    def spoilt(call: Question[object]) -> bool:
        if about(call):
            asked.append(call)
        return about(call)

    with _counting_steps() as steps:
        await _reconciler(engine, Blind(engine.node, spoilt, error)).tick()
    assert asked
    assert await _states(engine, attempts) == ["confirming", "completed"]
    assert not {"reconcile.after_note", "broadcast.after_send"} & set(steps)
    await engine.reconciler.tick()
    assert await _states(engine, attempts) == ["completed", "completed"]


async def test_the_only_header_that_is_asked_for_may_be_unreadable_too(engine: Engine) -> None:
    """Goal: one bad answer is no outage, however few were asked. Method: of two lineages one is mined, in a block that
    cannot be read, and the pool has dropped the other: it is sent again all the same."""
    (first,) = await _sent(engine, 1)
    (attempt,) = await engine.attempts(1, "dropped")
    (lineage,) = await engine.journal.allocate_many([Allocation(attempt, any_call())])
    assert isinstance(lineage, Lineage)
    (member,) = await _members(engine, [lineage])
    await engine.journal.persist_many([Persistence(attempt, member)])
    with _counting_steps() as steps:
        await _reconciler(engine, Blind(engine.node, _about(first, "header"), UNREADABLE)).tick()
    assert "broadcast.after_send" in steps
    assert await engine.plane.state(first.attempt.job_id) == "confirming"


@pytest.mark.parametrize("method", ["eth_getBlockByNumber", "eth_getTransactionReceipt", "eth_getTransactionCount"])
async def test_an_outage_is_told_as_what_it_is(engine: Engine, method: str) -> None:
    """Goal: the loop backs off instead of taking silence for an answer. Method: no question of one kind is answered;
    the tick raises, nothing was decided, and the next healthy tick ends both."""
    attempts = [one.attempt for one in await _sent(engine, 2)]
    with _counting_steps() as steps, pytest.raises(NoQuorum, match="connection refused"):
        await _reconciler(engine, Blind(engine.node, lambda call: call.method == method, AWAY)).tick()
    assert "reconcile.after_claim" in steps
    assert not {"reconcile.after_finalise", "reconcile.after_note", "broadcast.after_send"} & set(steps)
    await engine.reconciler.tick()
    assert await _states(engine, attempts) == ["completed", "completed"]


async def test_a_receipt_above_the_head_that_was_asked_first_decides_nothing(engine: Engine) -> None:
    """Goal: two replies of two moments, or of two nodes, are not put together. Method: a head below the receipts'
    blocks; nothing is finalised, noted or sent again."""
    sent = await _sent(engine, 2)
    head = min(one.block_number for one in sent) - 1
    with _counting_steps() as steps:
        await _reconciler(engine, Behind(engine.node, head, sees_transactions=True)).tick()
    assert not {"reconcile.after_finalise", "reconcile.after_note", "broadcast.after_send"} & set(steps)
    async with engine.plane.database.connection() as connection:
        noted = await connection.fetch("SELECT included_block_number AS height FROM transactions.lineages")
    assert [row["height"] for row in noted] == [None, None]
    await engine.reconciler.tick()
    assert await _states(engine, [one.attempt for one in sent]) == ["completed", "completed"]


async def _mark(_: Journal, database: Database, members: Sequence[SignedMember]) -> None:
    async with database.connection() as connection:
        await store.MARK_BROADCAST(connection, [member.tx_hash for member in members])


async def _note(_: Journal, database: Database, members: Sequence[SignedMember]) -> None:
    async with database.connection() as connection:
        ids = [member.lineage.lineage_id for member in members]
        await store.NOTE_INCLUSION(connection, ids, list(range(len(members))))


async def _finalise(_: Journal, database: Database, members: Sequence[SignedMember]) -> None:
    async with database.connection() as connection:
        await store.FINALISE(
            connection,
            [member.lineage.lineage_id for member in members],
            [member.tx_hash for member in members],
            [os.urandom(32) for _ in members],
            *([number] * len(members) for number in (1, 0)),
            [True] * len(members),
            *([number] * len(members) for number in (21_000, 1)),
            2,
            [False] * len(members),
        )


async def _supersede(_: Journal, database: Database, members: Sequence[SignedMember]) -> None:
    async with database.connection() as connection:
        await store.SUPERSEDE(
            connection,
            [member.lineage.lineage_id for member in members],
            [os.urandom(32) for _ in members],
            [1] * len(members),
            [os.urandom(32) for _ in members],
            ["another's"] * len(members),
            "test",
        )


async def _hold_for_use(_: Journal, database: Database, members: Sequence[SignedMember]) -> None:
    async with database.connection() as connection:
        ids = [member.lineage.lineage_id for member in members]
        await store.HOLD_FOR_USED_NONCE(connection, ids, ["used"] * len(ids))


async def _lock(_: Journal, database: Database, members: Sequence[SignedMember]) -> None:
    async with database.connection() as connection:
        await store.LOCK_LINEAGES(connection, [member.lineage.lineage_id for member in members])


async def _persist(journal: Journal, _: Database, members: Sequence[SignedMember]) -> None:
    """As fillers: a job's own rows would put the callers in order before they come to the lineages."""
    await journal.persist_many([Persistence(None, member) for member in members])


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize(
    ("change", "is_persisted"),
    [
        pytest.param(change, is_persisted, id=change.__name__.strip("_"))
        for change, is_persisted in (
            (_persist, False),
            *((change, True) for change in (_mark, _note, _finalise, _supersede, _hold_for_use, _lock)),
        )
    ],
)
async def test_whoever_changes_many_lineages_locks_them_in_one_order(
    engine: Engine,
    database_url: str,
    change: Callable[[Journal, Database, Sequence[SignedMember]], Awaitable[None]],
    is_persisted: bool,
    plan: str,
) -> None:
    """Goal: one order for all, a lineage before its members, so that no two deadlock. Method: ask for the change from
    the last to the first, of a table that lies in that order too, under either plan, while the middle lineage is held;
    what it has locked by then is exactly what comes before, and no member of what comes after."""
    _, lineages = await _allocated(engine, 8)
    members = await _members(engine, lineages)
    ids = [lineage.lineage_id for lineage in lineages]
    backwards = sorted(members, key=lambda member: member.lineage.lineage_id, reverse=True)
    database, coordination = engine.plane.database, engine.plane.coordination
    if is_persisted:
        await _persist(engine.journal, database, members)
    await turn_around(database, "transactions.lineages", "lineage_id", "check_at", ids)
    async with planning(database, database_url, plan) as planned:
        journal = Journal(planned, coordination, engine.settings)

        async def work() -> None:
            await change(journal, planned, backwards)

        async def later_members_are_free() -> None:
            async with database.transaction() as look:
                free = await look.fetch("SELECT lineage_id FROM transactions.members FOR UPDATE SKIP LOCKED")
            assert not is_persisted or {row["lineage_id"] for row in free} >= set(sorted(ids)[4:])

        locked = await locked_before_the_middle(
            database, "transactions.lineages", "lineage_id", ids, work, look_too=later_members_are_free
        )
    assert locked == sorted(ids)[:4]


async def test_marks_and_finalisation_of_the_same_lineages_lose_nothing(engine: Engine) -> None:
    """Goal: two replicas may believe differently of the same lineages. Method: both claim them; then one, which is far
    behind, sends and marks them all again, while the other finalises them; a lineage that is held makes both stop
    midway. No error comes of it, and every one ends mined."""
    attempts, lineages = await _allocated(engine, 8)
    members = await _members(engine, lineages)
    await _persist(engine.journal, engine.plane.database, members)
    for member in members:
        await engine.node.ask(methods.send_raw_transaction(member.raw.reveal()))
    await _mine(engine)
    word = trio.Event()
    held = Held(engine.node, word)
    behind = _reconciler(engine, Behind(held, 0, sees_transactions=False), Agrees())
    database = engine.plane.database
    middle = sorted(lineage.lineage_id for lineage in lineages)[4]
    with _counting_steps() as steps:
        async with trio.open_nursery() as racers:
            for number, reconciler in enumerate((behind, _reconciler(engine, held)), start=1):
                racers.start_soon(reconciler.tick)
                await until(lambda number=number: steps.count("reconcile.after_claim") == number, what="the claim")
            async with database.transaction() as holder:
                await holder.execute("SELECT FROM transactions.lineages WHERE lineage_id = $1 FOR UPDATE", middle)
                word.set()
                await until_waiting(database, 2)
    assert {"reconcile.after_rebroadcast", "reconcile.after_finalise"} <= set(steps)
    assert await _states(engine, attempts) == ["completed"] * 8
    assert {await engine.state(lineage.lineage_id) for lineage in lineages} == {"mined"}
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM transactions.broadcasts") == 8
