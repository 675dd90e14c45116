"""One lying endpoint of three moves no decision and is named; where no majority agrees, nothing is decided (I9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

import pytest
import trio
from attrs import define, evolve, field
from structlog.testing import capture_logs

from rpc import methods
from rpc.errors import EndpointFault, NoQuorum, RpcError, RpcRefused, Transport
from rpc.member import Member
from rpc.reads import Call as Question
from rpc.reads import Reads
from rpc.values import Header, Log, Receipt
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.reconciler import Reconciler
from tayho.transactions.sending import Sending
from tayho.transactions.types import Allocation, Lineage, Persistence, SignedMember
from tayho.voters import truth_of
from tests.rpc.voting import fields_voted, forgeries_of
from tests.transactions.conftest import Engine, any_call
from tests.transactions.test_executor import Kind

T = TypeVar("T")
Lie = Callable[[Question[Any], Any], Any]


@define
class Turns:
    """Lets the first voter answer each round first: a dissent that comes after the decision is cut off, unnamed.

    Only what all are asked has rounds.
    """

    rounds: list[trio.Event] = field(factory=list)

    def of(self, number: int) -> trio.Event:
        while len(self.rounds) <= number:
            self.rounds.append(trio.Event())
        return self.rounds[number]


@define
class Voter:
    """The node under a name of its own, telling `lie(question, truth)`."""

    node: Reads
    shown: str
    turns: Turns
    is_first: bool
    lie: Lie = lambda _, answer: answer
    asked: int = 0

    async def ask(self, call: Question[T]) -> T:
        (answer,) = await self.ask_many([call])
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        if calls[0].method in ("eth_getBlockReceipts", "eth_getBlockByHash"):
            return self._told(calls, await self.node.ask_many(calls))
        turn = self.turns.of(self.asked)
        self.asked += 1
        if not self.is_first:
            await turn.wait()
        answers = await self.node.ask_many(calls)
        turn.set()
        return self._told(calls, answers)

    def _told(self, calls: Sequence[Question[T]], answers: Sequence[T | RpcError]) -> list[T | RpcError]:
        return [cast("T | RpcError", self.lie(call, one)) for call, one in zip(calls, answers, strict=True)]


def reconciler(engine: Engine, *voters: Member) -> Reconciler:
    return Reconciler(
        engine.plane.database,
        engine.plane.coordination,
        engine.executor._custody,  # pyright: ignore[reportPrivateUsage]
        truth_of(voters),
        Sending(Broadcaster(engine.node, "node")),
        engine.executor,
        engine.settings,
    )


def three(engine: Engine, *lies: Lie) -> list[Voter]:
    """Three voters, as many of them liars as there are lies."""
    names, turns = ["liar", "accomplice", "one", "two", "three"], Turns()
    told = [*lies, *([lambda _, answer: answer] * (3 - len(lies)))]
    names = [*names[: len(lies)], *names[2 : 5 - len(lies)]]
    return [
        Voter(engine.node, name, turns, not at, lie) for at, (name, lie) in enumerate(zip(names, told, strict=True))
    ]


def about(kind: type, change: Callable[[Any], Any]) -> Lie:
    """A lie about every answer of one kind."""
    return lambda _, answer: change(answer) if isinstance(answer, kind) else answer


def forging(kind: type, name: str) -> Lie:
    return about(kind, lambda answer: forgeries_of(answer)[name])


def away(_: Question[Any], answer: Any) -> Any:
    del answer
    return EndpointFault("away", Transport("connection refused"))


def hide(call: Question[Any], answer: Any) -> Any:
    """No receipts of whole blocks: like a node that does not know the method."""
    return RpcRefused(-32601, "not served") if call.method == "eth_getBlockReceipts" else answer


def none_for(method: str) -> Lie:
    return lambda call, answer: None if call.method == method and call.params[0] != "latest" else answer


def nonce_plus(by: int) -> Lie:
    return lambda call, answer: max(answer + by, 0) if call.method == "eth_getTransactionCount" else answer


def jumping(height: int) -> Lie:
    """A liar whose latest block is far from here, with whatever hash."""

    def lie(call: Question[Any], answer: Any) -> Any:
        return evolve(answer, number=height) if call.params[:1] == ("latest",) else answer

    return lie


async def mined(engine: Engine, key: str) -> tuple[Any, Receipt]:
    """A job whose transaction is deep enough, and its true receipt."""
    (attempt,) = await engine.attempts(1, key)
    await engine.executor.execute(Kind(any_call()), await engine.job(attempt), attempt)
    async with engine.plane.database.connection() as connection:
        tx_hash = await connection.fetchval(
            "SELECT tx_hash FROM transactions.members JOIN transactions.lineages USING (lineage_id) WHERE job_id = $1",
            attempt.job_id,
        )
    receipt = await engine.node.ask(methods.transaction_receipt(tx_hash))
    assert receipt is not None
    await engine.node.ask(Question("anvil_mine", ("0x2",), lambda _: None, is_write=True))
    return attempt, receipt


async def recorded(engine: Engine, tx_hash: bytes) -> tuple[Any, ...]:
    async with engine.plane.database.connection() as connection:
        row = await connection.fetchrow(
            "SELECT block_hash, block_number, transaction_index, succeeded, gas_used, effective_gas_price_wei"
            " FROM transactions.receipts WHERE tx_hash = $1",
            tx_hash,
        )
    assert row is not None
    return tuple(row)


def told(receipt: Receipt) -> tuple[Any, ...]:
    return (
        receipt.block_hash,
        receipt.block_number,
        receipt.transaction_index,
        receipt.succeeded,
        receipt.gas_used,
        receipt.effective_gas_price_wei,
    )


_EVENT = Log(b"\1" * 20, (), b"", 0, False, b"\2" * 32, 0, b"\3" * 32, 1)
LIES: dict[str, Lie] = {
    **{f"receipt {name}": forging(Receipt, name) for name in fields_voted(Receipt)},
    **{f"header {name}": forging(Header, name) for name in fields_voted(Header)},
    "no receipt": none_for("eth_getTransactionReceipt"),
    "no block": none_for("eth_getBlockByNumber"),
    "an event": about(Receipt, lambda receipt: evolve(receipt, logs=(_EVENT,))),
    "nonce too high": nonce_plus(1_000),
    "nonce too low": nonce_plus(-1),
    "head far ahead": jumping(10**9),
    "head at zero": jumping(0),
    "away": away,
}
# What honest nodes tell differently is no dissent; what nobody else is asked, and silence, is none either.
_NOT_NAMED = {"receipt contract_address", "away", "head far ahead", "head at zero"}


def _lies_about(what: str) -> list[str]:
    """The lies whose names begin so; with nothing, all the others."""
    named = ("receipt ", "header ")
    return [lie for lie in LIES if (lie.startswith(what) if what else not lie.startswith(named))]


@pytest.mark.parametrize("about_what", ["receipt ", "header ", ""])
async def test_one_liar_of_three_moves_no_decision_and_is_named(engine: Engine, about_what: str) -> None:
    """Goal: RPC-5 and I9. Method: one of three forges one field of one kind of answer, each in turn; the job ends at
    the first look, what is recorded is the truth, and the log names the liar and nobody else."""
    for lie in _lies_about(about_what):
        attempt, receipt = await mined(engine, lie)
        with capture_logs() as lines:
            await reconciler(engine, *three(engine, LIES[lie])).tick()
        assert await engine.plane.state(attempt.job_id) == "completed", lie
        assert await recorded(engine, receipt.transaction_hash) == told(receipt), lie
        named = {name for line in lines if line["event"] == "chain_contested" for name in line["dissenters"]}
        assert named == (set() if lie in _NOT_NAMED else {"liar"}), lie


@pytest.mark.parametrize("about_what", ["receipt ", "header "])
async def test_a_liar_beside_one_that_is_away_decides_nothing(engine: Engine, about_what: str) -> None:
    """Goal: one honest voter is no majority. Method: of three one lies in each field in turn and one is away; nothing
    moves, no inclusion is noted, nothing is sent again; then the one that was away comes back."""
    attempt, receipt = await mined(engine, "held")
    for lie in _lies_about(about_what):
        if lie in _NOT_NAMED:
            continue
        with suppress(NoQuorum):
            await reconciler(engine, *three(engine, LIES[lie], away)).tick()
        assert await engine.plane.state(attempt.job_id) == "confirming", lie
    async with engine.plane.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM transactions.receipts") == 0
        assert await connection.fetchval("SELECT count(*) FROM transactions.broadcasts") == 1
    await reconciler(engine, *three(engine, LIES["no receipt"])).tick()
    assert await recorded(engine, receipt.transaction_hash) == told(receipt)


async def test_two_liars_that_differ_decide_nothing(engine: Engine) -> None:
    """Goal: where three tell three things, nothing is final. Method: two liars with another lie each, about receipts,
    heights and nonces."""
    attempt, _ = await mined(engine, "contested")
    pairs = [
        (forging(Receipt, "status"), forging(Receipt, "gas_used")),
        (forging(Receipt, "block_hash"), none_for("eth_getTransactionReceipt")),
        (forging(Header, "hash"), forging(Header, "parent_hash")),
        (nonce_plus(7), nonce_plus(9)),
        (away, away),
    ]
    for pair in pairs:
        with pytest.raises(NoQuorum):
            await reconciler(engine, *three(engine, *pair)).tick()
        assert await engine.plane.state(attempt.job_id) == "confirming"


async def test_a_receipt_that_one_liar_invents_ends_nothing(engine: Engine) -> None:
    """Goal: an effect that never was is not believed. Method: a signed transaction that no node has; one of three
    tells a receipt of it in a true, deep block, then two of three do: the block itself has no such transaction. Where
    nobody shows the block, a majority of liars is believed, which is the limit of votes."""
    _, model = await mined(engine, "model")
    await engine.reconciler.tick()
    (attempt,) = await engine.attempts(1, "never mined")
    (lineage,) = await engine.journal.allocate_many([Allocation(attempt, any_call())])
    assert isinstance(lineage, Lineage)
    member = await engine.executor.sign(lineage)
    assert isinstance(member, SignedMember)
    await engine.journal.persist_many([Persistence(attempt, member)])

    def invent(call: Question[Any], answer: Any) -> Any:
        if call.method != "eth_getTransactionReceipt":
            return answer
        return evolve(model, transaction_hash=member.tx_hash)

    class Refuses:
        async def ask(self, call: Question[T]) -> T:
            raise EndpointFault("node", Transport("connection refused"), call.method)

        async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
            return [EndpointFault("node", Transport("connection refused"), call.method) for call in calls]

    async def tick(*lies: Lie) -> None:
        looking = reconciler(engine, *three(engine, *lies))
        looking._resending._sending = Sending(Broadcaster(Refuses(), "node"))  # pyright: ignore[reportPrivateUsage]
        await looking.tick()

    def invent_and_hide(call: Question[Any], answer: Any) -> Any:
        return hide(call, invent(call, answer))

    await tick(invent)
    assert await engine.state(lineage.lineage_id) == "signed"
    await tick(invent, invent)
    await tick(invent_and_hide, invent_and_hide)
    assert await engine.state(lineage.lineage_id) == "signed"
    await tick(invent_and_hide, invent_and_hide, hide)
    assert await engine.state(lineage.lineage_id) == "mined"
