"""Sends go out in batches that keep each lane in nonce order, whatever becomes of a batch or of its caller (TX-13)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar, cast

import pytest
import trio
import trio.testing
from attrs import define, field
from eth_utils.crypto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from rpc.endpoint import Endpoint
from rpc.errors import DeadlinePassed, EndpointFault, RpcError
from rpc.reads import Call as Question
from tayho.kernel.address import Address
from tayho.kernel.opaque import Opaque
from tayho.kernel.steps import on_step
from tayho.transactions import sending as module
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.sending import BYTES_MAX, ITEMS_MAX, Outgoing, Sending
from tayho.transactions.types import Answer
from tests.rpc.faulty_server import (
    CHAIN_ID,
    Behaviour,
    FaultyServer,
    Request,
    answer_document,
    envelope,
    faulty_server,
)

T = TypeVar("T")

LANES = tuple(Address(bytes([number]) * 20) for number in range(1, 5))
FAULT = EndpointFault("node", DeadlinePassed(1, "body"), "eth_sendRawTransaction")


def outgoing(lane: int, nonce: int, size: int = 0) -> Outgoing:
    """Bytes that tell their lane and nonce, and are called by their hash as a node calls them."""
    raw = bytes([lane]) + nonce.to_bytes(4, "big") + bytes(size)
    return Outgoing(keccak(raw), LANES[lane], nonce, Opaque(raw))


def told(raw: str) -> tuple[int, int]:
    """The lane and the nonce in what a node was sent."""
    found = bytes.fromhex(raw.removeprefix("0x"))
    return found[0], int.from_bytes(found[1:5], "big")


@define
class Writer:
    """A node that takes its time for each batch, and keeps what came and how it overlapped."""

    batches: list[list[tuple[int, int]]] = field(factory=list)
    in_flight: list[set[int]] = field(factory=list)
    # Lanes that had two batches in flight at once.
    overtaking: set[int] = field(factory=set)
    # Each batch waits for its number to be let go; None lets all go.
    held: dict[int, trio.Event] | None = None

    async def ask(self, call: Question[T]) -> T:
        (answer,) = await self.ask_in_turn([call])
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def ask_in_turn(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        batch = [told(cast("str", call.params[0])) for call in calls]
        lanes = {lane for lane, _ in batch}
        for others in self.in_flight:
            self.overtaking |= others & lanes
        self.in_flight.append(lanes)
        self.batches.append(batch)
        try:
            if self.held is not None:
                await self.held.setdefault(len(self.batches), trio.Event()).wait()
            else:
                await trio.testing.wait_all_tasks_blocked()
            return [cast("T", keccak(hexstr=cast("str", call.params[0]))) for call in calls]
        finally:
            self.in_flight.remove(lanes)

    def let_go(self, number: int) -> None:
        assert self.held is not None
        self.held.setdefault(number, trio.Event()).set()

    @property
    def order(self) -> list[tuple[int, int]]:
        return [one for batch in self.batches for one in batch]


@define
class Answers:
    """What each caller was answered; who was cancelled has none."""

    found: dict[tuple[int, int], Answer] = field(factory=dict)

    async def ask(self, sending: Sending, one: Outgoing) -> None:
        answer = await sending.submit(one.tx_hash, one.signer, one.nonce, one.raw)
        self.found[LANES.index(one.signer), one.nonce] = answer

    def kinds(self) -> dict[tuple[int, int], str]:
        return {place: answer.kind for place, answer in self.found.items()}


def assert_in_nonce_order(order: Sequence[tuple[int, int]]) -> None:
    for lane in range(len(LANES)):
        nonces = [nonce for found, nonce in order if found == lane]
        assert nonces == sorted(nonces)


async def test_many_sends_at_once_come_to_the_node_in_nonce_order(server: FaultyServer) -> None:
    """Goal: TX-13, over HTTP. Method: two hundred callers on four lanes, in random order, at a recording server; few
    requests, each sorted by signer and nonce, every lane in order over all of them, every caller with his yes."""
    wanted = [outgoing(lane, nonce) for lane in range(4) for nonce in range(50)]
    Random(1).shuffle(wanted)
    answers = Answers()
    async with open_sending(server) as sending, trio.open_nursery() as callers:
        for one in wanted:
            callers.start_soon(answers.ask, sending, one)
    sent = sends(server)
    assert len(sent) <= 2 * len(wanted) / 50
    assert all(batch == sorted(batch) for batch in sent)
    order = [one for batch in sent for one in batch]
    assert len(order) == len(wanted)
    assert_in_nonce_order(order)
    assert set(answers.kinds().values()) == {"accepted"}
    assert len(answers.found) == len(wanted)


async def test_a_lane_waits_for_its_batch_and_others_do_not() -> None:
    """Goal: no batch overtakes another of its lane, and a slow one stops only its own lanes. Method: a batch of one
    lane hangs; later sends of it and of another lane come; the other's go out, and its own only after the answer."""
    writer = Writer(held={})
    sending, answers = Sending(Broadcaster(writer, "node")), Answers()
    async with trio.open_nursery() as callers:
        callers.start_soon(answers.ask, sending, outgoing(0, 0))
        await trio.testing.wait_all_tasks_blocked()
        for one in (outgoing(0, 2), outgoing(0, 1), outgoing(1, 0)):
            callers.start_soon(answers.ask, sending, one)
        await trio.testing.wait_all_tasks_blocked()
        assert writer.batches == [[(0, 0)], [(1, 0)]]
        writer.let_go(2)
        await trio.testing.wait_all_tasks_blocked()
        assert answers.kinds() == {(1, 0): "accepted"}
        writer.let_go(1)
        await trio.testing.wait_all_tasks_blocked()
        assert writer.batches[2:] == [[(0, 1), (0, 2)]]
        writer.let_go(3)
    assert len(answers.found) == 4
    assert not writer.overtaking


async def test_a_cancelled_caller_cuts_off_nobody_else() -> None:
    """Goal: who carries a batch may be cancelled; the others' sends go out again, as the same bytes, and nobody waits
    for ever. Method: a caller waits first in a busy lane, so that he carries the next batch, with one of his own and
    two others' in it; he is cancelled then, while a further send waits behind it."""
    writer = Writer(held={})
    sending, answers = Sending(Broadcaster(writer, "node")), Answers()
    scope = trio.CancelScope()

    async def doomed() -> None:
        with scope:
            await sending.send_many([outgoing(0, 1), outgoing(0, 4)])

    async with trio.open_nursery() as callers:
        callers.start_soon(answers.ask, sending, outgoing(0, 0))
        await trio.testing.wait_all_tasks_blocked()
        callers.start_soon(doomed)
        for nonce in (2, 3):
            callers.start_soon(answers.ask, sending, outgoing(0, nonce))
        await trio.testing.wait_all_tasks_blocked()
        writer.let_go(1)
        await trio.testing.wait_all_tasks_blocked()
        assert writer.batches[1:] == [[(0, 1), (0, 2), (0, 3), (0, 4)]]
        callers.start_soon(answers.ask, sending, outgoing(0, 5))
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert writer.batches[2:] == [[(0, 2), (0, 3), (0, 5)]]
        writer.let_go(3)
    assert answers.kinds() == dict.fromkeys([(0, 0), (0, 2), (0, 3), (0, 5)], "accepted")
    assert not writer.overtaking


async def test_a_send_whose_caller_left_does_not_block_its_lane() -> None:
    """Goal: two cancellations of one batch, the passenger's and then the carrier's, leave nothing that nobody carries.
    Method: the one whose send is the lane's lowest leaves while it is in flight; then the
    carrier; a third caller's send waits behind them."""
    writer = Writer(held={})
    sending, answers = Sending(Broadcaster(writer, "node")), Answers()
    carrier, passenger = trio.CancelScope(), trio.CancelScope()

    async def within(scope: trio.CancelScope, one: Outgoing) -> None:
        with scope:
            await answers.ask(sending, one)

    async with trio.open_nursery() as callers:
        callers.start_soon(answers.ask, sending, outgoing(0, 0))
        await trio.testing.wait_all_tasks_blocked()
        callers.start_soon(within, carrier, outgoing(0, 1))
        callers.start_soon(within, passenger, outgoing(0, 2))
        await trio.testing.wait_all_tasks_blocked()
        writer.let_go(1)
        await trio.testing.wait_all_tasks_blocked()
        callers.start_soon(answers.ask, sending, outgoing(0, 3))
        passenger.cancel()
        await trio.testing.wait_all_tasks_blocked()
        carrier.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert writer.batches == [[(0, 0)], [(0, 1), (0, 2)], [(0, 3)]]
        writer.let_go(3)
    assert answers.kinds() == dict.fromkeys([(0, 0), (0, 3)], "accepted")


async def test_a_send_that_is_cancelled_while_it_waits_is_not_sent() -> None:
    """Goal: what was taken back stays in the journal and goes nowhere. Method: a lane is busy; one who waits for it is
    cancelled; the one behind him still goes."""
    writer = Writer(held={})
    sending, answers = Sending(Broadcaster(writer, "node")), Answers()
    async with trio.open_nursery() as callers:
        callers.start_soon(answers.ask, sending, outgoing(0, 0))
        await trio.testing.wait_all_tasks_blocked()
        scope = trio.CancelScope()

        async def doomed() -> None:
            with scope:
                await answers.ask(sending, outgoing(0, 1))

        callers.start_soon(doomed)
        callers.start_soon(answers.ask, sending, outgoing(0, 2))
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        writer.let_go(1)
        writer.let_go(2)
    assert writer.order == [(0, 0), (0, 2)]
    assert answers.kinds() == dict.fromkeys([(0, 0), (0, 2)], "accepted")


async def test_an_error_of_our_own_reaches_its_caller_and_frees_the_lane() -> None:
    """Goal: a bug is loud and holds nothing up. Method: the write path raises what it never should, once."""
    writer = Writer()

    class Broken:
        asked = 0

        async def ask(self, call: Question[T]) -> T:
            return await writer.ask(call)

        async def ask_in_turn(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
            self.asked += 1
            if self.asked == 1:
                raise LookupError("a bug")
            return await writer.ask_in_turn(calls)

    sending = Sending(Broadcaster(Broken(), "node"))
    with pytest.raises(LookupError, match="a bug"):
        await sending.send_many([outgoing(0, 0), outgoing(0, 1)])
    answers = await sending.send_many([outgoing(0, 0), outgoing(0, 1)])
    assert [one.kind for one in answers] == ["accepted", "accepted"]


async def test_batches_are_bounded_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no request grows without a bound, and what is larger than any bound still goes. Method: more than fit by
    number; sends of which few fit by size; one that is larger than a batch may be."""
    writer = Writer()
    sending = Sending(Broadcaster(writer, "node"))
    await sending.send_many([outgoing(0, nonce) for nonce in range(2 * ITEMS_MAX + 1)])
    assert [len(batch) for batch in writer.batches] == [ITEMS_MAX, ITEMS_MAX, 1]
    assert_in_nonce_order(writer.order)
    writer.batches.clear()
    third = BYTES_MAX // 3
    await sending.send_many([outgoing(lane, nonce, third) for lane in (0, 1) for nonce in (1000, 1001)])
    assert [len(batch) for batch in writer.batches] == [2, 2]
    writer.batches.clear()
    await sending.send_many([outgoing(0, 2000, BYTES_MAX + 1), outgoing(0, 2001)])
    assert writer.batches == [[(0, 2000)], [(0, 2001)]]


async def test_at_most_so_many_batches_are_in_flight() -> None:
    """Goal: a bound on requests, whatever the number of lanes. Method: with room for one batch, three lanes come one
    after the other; each batch begins when the one before it has ended."""
    writer = Writer(held={})
    sending, answers = Sending(Broadcaster(writer, "node")), Answers()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "BATCHES_MAX", 1)
        async with trio.open_nursery() as callers:
            for lane in range(3):
                callers.start_soon(answers.ask, sending, outgoing(lane, 0))
                await trio.testing.wait_all_tasks_blocked()
            assert writer.batches == [[(0, 0)]]
            writer.let_go(1)
            writer.let_go(2)
    assert sorted(writer.order[1:]) == [(1, 0), (2, 0)]
    assert len(answers.found) == 3


async def test_the_bytes_are_journaled_before_the_first_of_a_batch_goes() -> None:
    """Goal: the crash suite can die with the batch unsent and with it sent. Method: the steps around one batch."""
    seen: list[str] = []
    on_step(seen.append)
    try:
        await Sending(Broadcaster(Writer(), "node")).send_many([outgoing(0, 0), outgoing(0, 1)])
    finally:
        on_step(None)
    assert seen == ["broadcast.before_send", "broadcast.after_send"]


@given(
    plan=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 3), st.booleans()), max_size=40, unique=True
    ),
    seed=st.integers(0, 2**32),
)
@settings(deadline=None)
def test_whatever_is_cancelled_everyone_else_is_answered_and_no_lane_overtakes(
    plan: Sequence[tuple[int, int, int, bool]], seed: int
) -> None:
    """Goal: no interleaving of submissions, answers and cancellations loses a send, or has two batches of a lane in
    flight. Method: callers come in random waves, some are cancelled at random moments, batches end in random order."""

    async def play() -> None:
        random = Random(seed)
        writer = Writer(held={})
        sending, answers = Sending(Broadcaster(writer, "node")), Answers()
        doomed: list[trio.CancelScope] = []

        async def call(lane: int, nonce: int, scope: trio.CancelScope) -> None:
            with scope:
                await answers.ask(sending, outgoing(lane, nonce))

        with trio.fail_after(5):
            async with trio.open_nursery() as callers:
                for lane, nonce, wave, is_doomed in plan:
                    scope = trio.CancelScope()
                    if is_doomed:
                        doomed.append(scope)
                    callers.start_soon(call, lane, nonce, scope)
                    if wave:
                        await trio.testing.wait_all_tasks_blocked()
                        writer.let_go(random.randint(1, len(writer.batches) + 1))
                    if wave == 2 and doomed:
                        doomed.pop(random.randrange(len(doomed))).cancel()
                await trio.testing.wait_all_tasks_blocked()
                for number in range(1, 200):
                    writer.let_go(number)
                for scope in doomed:
                    scope.cancel()
        kept = {(lane, nonce) for lane, nonce, _, is_doomed in plan if not is_doomed}
        assert kept <= answers.found.keys()
        assert not writer.overtaking
        assert all(batch == sorted(batch) for batch in writer.batches)

    trio.run(play)


# Over HTTP: what an endpoint may do to a batch.


@pytest.fixture
async def server() -> AsyncIterator[FaultyServer]:
    async with faulty_server(honest()) as running:
        yield running


def honest() -> Behaviour:
    return answer_document(lambda document: _each(document, _accepted))


def _accepted(call: Mapping[str, Any]) -> dict[str, Any]:
    if call["method"] == "web3_clientVersion":
        # Asked once, to read a refusal by its client's own table.
        return envelope(dict(call), "anvil/v1.7.1")
    return envelope(dict(call), f"0x{keccak(hexstr=call['params'][0]).hex()}")


def _each(document: Any, answer: Callable[[Mapping[str, Any]], object]) -> object:
    return [answer(call) for call in document] if isinstance(document, list) else answer(document)


@asynccontextmanager
async def open_sending(server: FaultyServer, deadline_seconds: float = 5) -> AsyncIterator[Sending]:
    async with Endpoint.open(server.url, chain_id=CHAIN_ID, deadline_seconds=deadline_seconds) as endpoint:
        yield Sending(Broadcaster(endpoint, "node"))


def sends(server: FaultyServer) -> list[list[tuple[int, int]]]:
    """What each request carried, in the order in which they came."""
    return [
        [told(call["params"][0]) for call in request.calls]
        for request in server.requests
        if request.calls[0]["method"] == "eth_sendRawTransaction"
    ]


async def test_reordered_and_missing_answers_concern_nobody_else(server: FaultyServer) -> None:
    """Goal: each send has its own answer. Method: a batch answered backwards, with one answer missing, one that is
    another's hash, one refused and one already known."""

    def answer(document: list[dict[str, Any]]) -> object:
        found = [_accepted(call) for call in document]
        found[1]["result"] = found[0]["result"]
        for place, message in ((2, "replacement transaction underpriced"), (3, "already known")):
            found[place] = {
                "jsonrpc": "2.0",
                "id": document[place]["id"],
                "error": {"code": -32000, "message": message},
            }
        return list(reversed(found[:4] + found[5:]))

    server.behave(answer_document(answer))
    async with open_sending(server) as sending:
        answers = await sending.send_many([outgoing(0, nonce) for nonce in range(6)])
    assert [one.kind for one in answers] == ["accepted", "unknown", "refused", "already_known", "unknown", "accepted"]
    assert len(sends(server)) == 1


async def test_a_lost_answer_is_unknown_for_all_it_carried_and_nothing_is_sent_again(server: FaultyServer) -> None:
    """Goal: a timeout never proves rejection, and is no reason to repeat a write. Method: the node takes a batch and
    says nothing; the lane's next batch goes on."""

    async def silent(request: Request) -> None:
        await request.hang()

    server.behave(silent)
    async with open_sending(server, deadline_seconds=0.3) as sending:
        lost = await sending.send_many([outgoing(0, 0), outgoing(0, 1)])
        assert {one.kind for one in lost} == {"unknown"}
        (found,) = await sending.send_many([outgoing(0, 2)])
    assert found.kind == "accepted"
    assert sends(server) == [[(0, 0), (0, 1)], [(0, 2)]]


@pytest.mark.parametrize("form", ["status", "one error", "error each"])
async def test_a_batch_refused_for_its_size_is_split_in_order(server: FaultyServer, form: str) -> None:
    """Goal: a provider's limit costs requests and no order. Method: a server that takes three calls at most and says so
    in one of the known ways; ten sends of one lane come to it in order, each accepted once."""
    accepted: list[tuple[int, int]] = []
    error = {"code": -32600, "message": "batch too large"}

    async def limited(request: Request) -> None:
        if len(request.calls) <= 3:
            accepted.extend(told(call["params"][0]) for call in request.calls)
            await request.respond_json(_each(request.document, _accepted))
        elif form == "status":
            await request.respond(b"", status=413)
        elif form == "one error":
            await request.respond_json({"jsonrpc": "2.0", "id": None, "error": error})
        else:
            await request.respond_json([{"jsonrpc": "2.0", "id": c["id"], "error": error} for c in request.calls])

    server.otherwise = limited
    async with open_sending(server) as sending:
        answers = await sending.send_many([outgoing(0, nonce) for nonce in range(10)])
        assert [one.kind for one in answers] == ["accepted"] * 10
        assert accepted == [(0, nonce) for nonce in range(10)]
        await sending.send_many([outgoing(0, nonce) for nonce in range(10, 20)])
    # Learned: the second time nothing is refused.
    assert all(len(batch) <= 3 for batch in sends(server)[-4:])
    assert_in_nonce_order(accepted)
