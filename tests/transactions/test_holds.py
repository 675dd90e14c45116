"""What an answer does to a lineage, its lane and its job: shown, ended by a yes or a block, never a discard (TX-4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import pytest
from attrs import define, evolve

from rpc import methods
from rpc.errors import DeadlinePassed, EndpointFault, RpcError, RpcRefused
from rpc.reads import Call as Question
from rpc.reads import Reads
from tayho.kernel.address import Address
from tayho.kernel.jobs import Attempt, Ended
from tayho.transactions import store
from tayho.transactions.answer_rules import CONSEQUENCES
from tayho.transactions.answers import apply_answers, release_included
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.executor import execute_or_postpone
from tayho.transactions.module import pool_look
from tayho.transactions.node_answers import rows
from tayho.transactions.resending import Resending
from tayho.transactions.sending import Sending
from tayho.transactions.types import (
    Allocation,
    Answer,
    Answered,
    AnswerReason,
    Happening,
    Lineage,
    Persistence,
    Stage,
    WouldRevert,
)
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, SETTINGS
from tests.coordination.test_worker import at_work
from tests.invariants import check_invariants
from tests.transactions.conftest import Engine, any_call
from tests.transactions.test_executor import Kind
from tests.waiting import until

T = TypeVar("T")

PLENTY = 10**22


@define
class Says:
    """The node, which says this to every send and takes nothing; with None it does as it is asked."""

    node: Reads
    error: RpcError | None

    async def ask(self, call: Question[T]) -> T:
        if call.is_write and self.error is not None:
            raise self.error
        return await self.node.ask(call)

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        return await self.node.ask_many(calls)

    async def ask_in_turn(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        answers: list[T | RpcError] = []
        for call in calls:
            try:
                answers.append(await self.ask(call))
            except RpcError as error:
                answers.append(error)
        return answers


def _answering(engine: Engine, error: RpcError | None) -> Says:
    """From now on the engine sends to a node that says this."""
    node = Says(engine.node, error)
    sending = Sending(Broadcaster(node, "node"))
    engine.executor._sending = sending  # pyright: ignore[reportPrivateUsage]
    engine.reconciler._resending._sending = sending  # pyright: ignore[reportPrivateUsage]
    return node


def _error_of(reason: AnswerReason) -> RpcError | None:
    if reason == "accepted":
        return None
    if reason == "ambiguous":
        return EndpointFault("node", DeadlinePassed(1, "body"))
    row = next(row for row in rows() if row.reason == reason and not row.is_dialect)
    return RpcRefused(-32000 if row.code is None else row.code, row.examples[0])


async def _execute(engine: Engine, attempt: Attempt) -> None:
    assert await engine.executor.execute(Kind(any_call()), await engine.job(attempt), attempt) == Ended()


async def _signed(engine: Engine, attempt: Attempt) -> tuple[Lineage, bytes]:
    (lineage,) = await engine.journal.allocate_many([Allocation(attempt, any_call())])
    assert isinstance(lineage, Lineage)
    signed = await engine.executor.sign(lineage)
    assert not isinstance(signed, WouldRevert)
    assert await engine.journal.persist_many([Persistence(attempt, signed)]) == [None]
    return lineage, signed.tx_hash


async def _one(engine: Engine, question: str, *arguments: object) -> Any:
    async with engine.plane.database.connection() as connection:
        return await connection.fetchval(question, *arguments)


async def _events(engine: Engine) -> list[str]:
    async with engine.plane.database.connection() as connection:
        rows = await connection.fetch("SELECT kind, detail FROM transactions.events ORDER BY event_id")
    return [f"{row['kind']} {row['detail'].get('hold', '')}".strip() for row in rows]


async def _set_balance(engine: Engine, signer: Address, wei: int) -> None:
    parameters = (signer.checksummed, hex(wei))
    await engine.node.ask(Question("anvil_setBalance", parameters, lambda _: None, is_write=True))


@pytest.mark.parametrize("reason", CONSEQUENCES)
async def test_each_class_does_what_its_consequence_says_and_the_bytes_stay(
    engine: Engine, reason: AnswerReason
) -> None:
    """Goal: the table of consequences is what happens. Method: a node that gives an answer of the class to the first
    send and then does as it is asked: hold, doubt and lane as the table says, the job confirming after one attempt, the
    one member signed still there; after that the same bytes are mined and nothing is held any more."""
    means = CONSEQUENCES[reason]
    (attempt,) = await engine.attempts(1)
    node = _answering(engine, _error_of(reason))
    await _execute(engine, attempt)
    assert await engine.plane.state(attempt.job_id) == "confirming"
    assert await _one(engine, "SELECT hold FROM transactions.lineages") == means.hold
    assert await _one(engine, "SELECT reason FROM transactions.broadcasts") == reason
    member = "broadcast" if means.releases and reason in ("accepted", "already_known") else "signed"
    assert await _one(engine, "SELECT state FROM transactions.members") == ("ambiguous" if means.is_doubt else member)
    lanes = await _one(engine, "SELECT count(*) FROM transactions.lanes WHERE state = 'underfunded'")
    assert lanes == int(means.closes_lane)
    tx_hash = await _one(engine, "SELECT tx_hash FROM transactions.members")
    node.error = None
    await engine.tick_and_mine(3)
    assert await engine.plane.state(attempt.job_id) == "completed"
    assert await _one(engine, "SELECT array_agg(tx_hash) FROM transactions.members") == [tx_hash]
    assert await _one(engine, "SELECT count(*) FROM transactions.lineages WHERE hold IS NOT NULL") == 0
    assert await _events(engine) == [*([f"held {means.hold}", f"released {means.hold}"] if means.hold else []), "mined"]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_a_real_node_that_finds_no_funds_holds_the_lineage_until_they_come(engine: Engine) -> None:
    """Goal: TX-4's insufficient funds on a real node. Method: signed while there was money, sent when there was none:
    the lane takes no new work, with a finding and a reason; three more ticks change nothing and write nothing twice;
    then the money comes, the same bytes are mined and the hold is gone. The lane waits for a look at its balance."""
    (attempt,) = await engine.attempts(1)
    lineage, tx_hash = await _signed(engine, attempt)
    await _set_balance(engine, lineage.signer, 0)
    try:
        for _ in range(4):
            await engine.reconciler.tick()
        assert await _one(engine, "SELECT hold FROM transactions.lineages") == "underfunded"
        assert "nsufficient funds" in await _one(engine, "SELECT hold_reason FROM transactions.lineages")
        reason = await _one(engine, "SELECT state_reason FROM transactions.lanes WHERE state = 'underfunded'")
        assert reason.startswith("node: -3")
        assert await _one(engine, "SELECT count(*) FROM transactions.findings WHERE kind = 'underfunded'") == 1
        assert await _one(engine, "SELECT count(*) FROM transactions.broadcasts") == 4
        assert await _events(engine) == ["held underfunded"]
        (second,) = await engine.attempts(1, "second")
        (other,) = await engine.journal.allocate_many([Allocation(second, any_call())])
        assert isinstance(other, Lineage)
        assert other.signer != lineage.signer, "an underfunded lane must take no new work"
    finally:
        await _set_balance(engine, lineage.signer, PLENTY)
    await engine.tick_and_mine(3)
    assert await engine.state(lineage.lineage_id) == "mined"
    assert await _events(engine) == ["held underfunded", "released underfunded", "mined"]
    assert await _one(engine, "SELECT state FROM transactions.members WHERE tx_hash = $1", tx_hash) == "mined"


async def test_a_send_that_is_refused_spends_one_attempt_and_no_more(engine: Engine) -> None:
    """Goal: a poor lane does not burn its jobs' attempts to death. Method: a job through a real worker, at a node that
    refuses everything for funds; the job is confirming after one attempt, and after ticks too; then it completes."""
    node = _answering(engine, _error_of("insufficient_funds"))
    job_id = await engine.plane.enqueue("poor")

    async def confirming() -> bool:
        return await engine.plane.state(job_id) == "confirming"

    async with at_work(engine.plane, partial(execute_or_postpone, engine.executor, Kind(any_call()))):
        await until(confirming, seconds=10, what="the job to be the reconciler's")
        for _ in range(SETTINGS.attempts_max + 2):
            await engine.reconciler.tick()
        record = await engine.plane.coordination.inspect(job_id)
        assert record is not None
        assert [one.state for one in record.attempts] == ["confirming"]
    node.error = None
    await engine.tick_and_mine(3)
    assert await engine.plane.state(job_id) == "completed"


async def test_a_job_whose_bytes_are_signed_never_dies_of_its_attempts(engine: Engine) -> None:
    """Goal: JOB_MAX_ATTEMPTS does not end what may be mined. Method: workers die with the job twice as often as it has
    attempts, after its bytes were signed and before they were sent; each time another attempt begins, and the chain
    ends the job after all."""
    (attempt,) = await engine.attempts(1)
    await _signed(engine, attempt)
    current = attempt
    for _ in range(2 * SETTINGS.attempts_max):
        begun = await engine.plane.begin(attempt.job_id, await engine.plane.worker())
        assert begun.verdict == "begun"
        assert begun.attempt is not None
        current = begun.attempt
    await _execute(engine, current)
    assert await engine.plane.state(attempt.job_id) == "confirming"
    await engine.tick_and_mine(3)
    assert await engine.plane.state(attempt.job_id) == "completed"


def _refused(tx_hash: bytes, reason: AnswerReason, detail: str = "no") -> Answered:
    return Answered(tx_hash, "node", Answer("refused", detail, reason))


async def test_only_what_a_node_held_is_held_or_released_by_a_nodes_words(engine: Engine) -> None:
    """Goal: a hold of the fee ceiling is not ended by a node's yes, nor hidden by its no; a block ends every kind.
    Method: such a hold set by hand, then a no, a yes and an inclusion; each change has its event and its count."""
    (attempt,) = await engine.attempts(1)
    lineage, tx_hash = await _signed(engine, attempt)
    seen: Counter[tuple[Happening, str]] = Counter()

    async def apply(*answered: Answered) -> str | None:
        async with engine.plane.database.transaction() as tx:
            applied = await apply_answers(tx, answered, "test")
        seen.update(applied.happened)
        return await _one(engine, "SELECT hold FROM transactions.lineages")

    yes = Answered(tx_hash, "node", Answer("accepted", reason="accepted"))
    assert await apply(_refused(tx_hash, "gas_too_high")) == "limits"
    assert await apply(_refused(tx_hash, "gas_too_low", "still no")) == "limits"
    assert await _one(engine, "SELECT hold_reason FROM transactions.lineages") == "no", "one hold, told once"
    assert await apply(_refused(tx_hash, "fatal")) == "refused"
    assert await apply(_refused(tx_hash, "pool_full")) == "refused", "no yes has come"
    assert await apply(yes) is None
    async with engine.plane.database.connection() as connection:
        await connection.execute(
            "UPDATE transactions.lineages SET hold = 'fee_capped', hold_reason = 'x', held_at = now()"
        )
    assert await apply(_refused(tx_hash, "gas_too_high")) == "fee_capped"
    assert await apply(yes) == "fee_capped"
    async with engine.plane.database.transaction() as tx:
        seen.update((await release_included(tx, [lineage.lineage_id])).happened)
    assert await _one(engine, "SELECT hold FROM transactions.lineages") is None
    assert await _events(engine) == ["held limits", "held refused", "released refused", "released fee_capped"]
    assert seen == {
        (Happening.HELD, "limits"): 1,
        (Happening.HELD, "refused"): 1,
        (Happening.RELEASED, "refused"): 1,
        (Happening.RELEASED, "fee_capped"): 1,
    }


async def test_a_late_no_does_not_hold_what_a_block_shows(engine: Engine) -> None:
    """Goal: what is mined waits for confirmations and for nothing else. Method: an inclusion is noted, then a refusal
    of an earlier send is applied, and one after the lineage has ended."""
    (attempt,) = await engine.attempts(1)
    lineage, tx_hash = await _signed(engine, attempt)
    await engine.reconciler.tick()
    await engine.reconciler.tick()
    assert await _one(engine, "SELECT included_block_number FROM transactions.lineages") is not None
    for _ in range(2):
        async with engine.plane.database.transaction() as tx:
            await apply_answers(tx, [_refused(tx_hash, "fatal")], "test")
        assert await _one(engine, "SELECT hold FROM transactions.lineages") is None
        await engine.tick_and_mine(2)
    assert await engine.state(lineage.lineage_id) == "mined"


async def test_a_yes_to_one_of_a_batch_holds_only_the_others(engine: Engine) -> None:
    """Goal: many answers at once, each to its own. Method: a yes, a no and a doubt for three lineages, and a no beside
    the yes of the same transaction from another endpoint."""
    attempts = await engine.attempts(3)
    signed = [await _signed(engine, attempt) for attempt in attempts]
    (_, taken), (_, refused), (_, doubted) = signed
    answered = [
        Answered(taken, "one", Answer("accepted", reason="accepted")),
        _refused(taken, "node_fee_cap"),
        _refused(refused, "node_fee_cap"),
        Answered(doubted, "one", Answer("unknown", "timeout", "ambiguous")),
    ]
    async with engine.plane.database.transaction() as tx:
        await apply_answers(tx, answered, "test")
    async with engine.plane.database.connection() as connection:
        found = await connection.fetch(
            "SELECT members.tx_hash, members.state AS member, lineages.state, lineages.hold"
            " FROM transactions.members JOIN transactions.lineages USING (lineage_id)"
        )
    assert {row["tx_hash"]: (row["member"], row["state"], row["hold"]) for row in found} == {
        taken: ("broadcast", "broadcast", None),
        refused: ("signed", "signed", "limits"),
        doubted: ("ambiguous", "signed", None),
    }
    assert await _events(engine) == ["held limits"], "not even for a moment"


async def test_a_node_is_asked_once_what_it_is_and_only_for_a_refusal(engine: Engine) -> None:
    """Goal: the client's own words are read as its own, at no cost to the ordinary way. Method: count the questions to
    a node over accepted and refused sends, one of which is in another client's words."""
    asked: list[str] = []

    @define
    class Counting(Says):
        async def ask(self, call: Question[T]) -> T:
            asked.append(call.method)
            return await super().ask(call)

    node = Counting(engine.node, None)
    broadcaster = Broadcaster(node, "node")
    attempts = await engine.attempts(2)
    version = await engine.node.ask(methods.client_version())
    assert version.startswith("anvil")
    for attempt in attempts:
        _, tx_hash = await _signed(engine, attempt)
        (sealed,) = await _sealed(engine, tx_hash)
        node.error = None
        assert (await broadcaster.send(tx_hash, sealed)).is_out
        assert "web3_clientVersion" not in asked or attempt is attempts[1]
        node.error = RpcRefused(-32000, "mined")
        for _ in range(2):
            assert (await broadcaster.send(tx_hash, sealed)).reason == "ambiguous", "that is erigon's word"
    assert asked.count("web3_clientVersion") == 1


async def _sealed(engine: Engine, tx_hash: bytes) -> list[Any]:
    """The bytes of a transaction, opened."""

    async with engine.plane.database.connection() as connection:
        found = await store.SEALED_MEMBERS(connection, [tx_hash])
    custody = engine.executor._custody  # pyright: ignore[reportPrivateUsage]
    return [await custody.unseal(*store.sealed_of(row)) for row in found]


async def test_what_stays_refused_waits_and_an_ended_cause_does_not(engine: Engine) -> None:
    """Goal: a node is not asked for ever at every tick, and a lane heals at the look after its cause ended. Method: a
    reconciler whose ticks count as hours, and a node that finds the fee below its base fee: the attempt's send and one
    more, however often it looks; then a process that sees the base fee for the first time: it sends, and is mined."""

    def counting_hours() -> Resending:
        settings = evolve(engine.settings, reconcile_seconds=3_600)
        custody = engine.executor._custody  # pyright: ignore[reportPrivateUsage]
        return Resending(engine.plane.database, custody, Sending(Broadcaster(node, "node")), settings)

    async def sends() -> int:
        return await _one(engine, "SELECT count(*) FROM transactions.broadcasts")

    (attempt,) = await engine.attempts(1)
    node = _answering(engine, _error_of("below_base_fee"))
    await _execute(engine, attempt)
    engine.reconciler._resending = counting_hours()  # pyright: ignore[reportPrivateUsage]
    for _ in range(4):
        await engine.reconciler.tick()
    assert await sends() == 2
    node.error = None
    engine.reconciler._resending = counting_hours()  # pyright: ignore[reportPrivateUsage]
    await engine.tick_and_mine(3)
    assert await sends() == 3
    assert await _one(engine, "SELECT state FROM transactions.lineages") == "mined"


async def test_what_happens_is_told_to_whoever_counts(engine: Engine) -> None:
    """Goal: the metrics are fed. Method: an engine that counts; one send that is refused for funds, the same taken
    later and final: each is told once, with the times out and to the end; the pool's numbers agree meanwhile."""
    seen: Counter[tuple[Happening, str]] = Counter()
    took: list[Stage] = []

    def observe(what: Happening, label: str, count: int) -> None:
        seen[what, label] += count

    def observe_seconds(stage: Stage, seconds: float) -> None:
        assert 0 <= seconds < 60
        took.append(stage)

    resending = engine.reconciler._resending  # pyright: ignore[reportPrivateUsage]
    for part in (engine.journal, engine.reconciler, resending):
        part._observe, part._observe_seconds = observe, observe_seconds  # pyright: ignore[reportPrivateUsage]
    (attempt,) = await engine.attempts(1)
    node = _answering(engine, _error_of("insufficient_funds"))
    await _execute(engine, attempt)
    look = await pool_look(engine.plane.database, CHAIN_ID, ENVIRONMENT, ROLE)
    assert look.lineages == {("signed", "underfunded"): 1}
    assert sorted((lane.state, lane.held) for lane in look.lanes) == [("open", 0), ("underfunded", 1)]
    node.error = None
    await engine.tick_and_mine(3)
    assert seen == {
        (Happening.ANSWERED, "insufficient_funds"): 1,
        (Happening.ANSWERED, "accepted"): 1,
        (Happening.LANE_CLOSED, "underfunded"): 1,
        (Happening.HELD, "underfunded"): 1,
        (Happening.RELEASED, "underfunded"): 1,
        (Happening.ENDED, "mined"): 1,
    }
    elsewhere = {Happening.REPLACED, Happening.LOOK_FAILED, Happening.CONTESTED, Happening.EVIDENCE_DROPPED}
    assert {what for what, _ in seen} == set(Happening) - elsewhere, "nothing is declared that nobody tells"
    assert took == [Stage.BROADCAST, Stage.FINAL]
