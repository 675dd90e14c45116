"""A pool of endpoints: who is asked, when a second one is, and whose answer counts."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from rpc import methods
from rpc.errors import EndpointFault, Reverted, RpcRefused
from rpc.member_status import HedgeSeen
from rpc.method_traits import METHOD_CLASSES
from rpc.observation import Observation
from rpc.pool import ReadPool
from rpc.quorum import Quorum
from rpc.reads import Call
from tests.rpc import examples
from tests.rpc import faulty_server as faulty
from tests.rpc.faulty_server import CHAIN_ID, Behaviour, FaultyServer, Request, faulty_server
from tests.rpc.pools import NO_HEDGES, counts, pool_of, servers
from tests.waiting import until

HEAD = methods.block_number()
HASH = b"\x11" * 32
CALL = methods.call(methods.CallRequest(b"\x01" * 20, b"\x02" * 20), 16)
FILTER: Call[object] = Call("eth_newBlockFilter", (), lambda answer: answer)


def late(seconds: float, then: Behaviour | None = None) -> Behaviour:
    async def behave(request: Request) -> None:
        await trio.sleep(seconds)
        await (then or faulty.answer("0x10"))(request)

    return behave


async def test_a_healthy_read_is_one_request() -> None:
    """Goal: a pool costs nothing while all is well. Method: thirty reads; only the first endpoint hears of them."""
    async with servers() as asked, pool_of(asked) as pool:
        for _ in range(30):
            assert await pool.ask(HEAD) == 16
        assert counts(asked, "eth_blockNumber") == [30, 0, 0]
        assert counts(asked, "eth_chainId") == [1, 0, 0]


async def test_a_pool_without_urls_is_refused() -> None:
    """Goal: no URL is a clear error at once, not a crash at the first question. Method: open one."""
    with pytest.raises(ValueError, match="at least one URL"):
        async with ReadPool.open([], chain_id=CHAIN_ID):
            pass


async def test_writes_are_refused() -> None:
    """Goal: a write goes to one endpoint only (RPC-1). Method: ask one alone, in a batch, of a member; none is sent."""
    write = methods.send_raw_transaction(b"\x02\x01")
    async with servers() as asked, pool_of(asked) as pool:
        for ask in (lambda: pool.ask(write), lambda: pool.ask_many([HEAD, write]), lambda: pool.members[0].ask(write)):
            with pytest.raises(ValueError, match="is a write"):
                await ask()
        assert not any(server.requests for server in asked)


FAILURES: dict[str, Behaviour] = {
    "closes": faulty.close_at_once,
    "breaks off": faulty.close_in_body,
    "500": faulty.answer_body(b"", status=500),
    "429": faulty.answer_body(b"", status=429),
    "html": faulty.answer_body(b"<html>"),
    "wrong id": faulty.answer_document(lambda asked: {**faulty.envelope(asked, "0x10"), "id": 0}),
    "leading zero": faulty.answer("0x010"),
    "rate limit in an error": faulty.refuse(-32005, "rate limit"),
    "no such block": faulty.refuse(-32000, "header not found"),
    "unserved": faulty.refuse(-32601, "method not found"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_who_fails_is_replaced_at_once(failure: str) -> None:
    """Goal: no wait for a hedge where there is a failure. Method: the first fails; the second's answer comes while no
    hedge could yet go, and no third is asked."""
    async with servers() as asked, pool_of(asked, hedges=NO_HEDGES) as pool:
        asked[0].otherwise = FAILURES[failure]
        assert await pool.ask(CALL) == b"\x10"
        assert counts(asked, "eth_call") == [1, 1, 0]
        assert [member.hedges_fired for member in pool.status()] == [0, 0, 0]


async def test_a_revert_is_an_answer_and_asks_nobody_else() -> None:
    """Goal: what the question is to blame for is not asked three times, and opens nothing. Method: many reverts."""
    async with servers() as asked, pool_of(asked) as pool:
        asked[0].otherwise = faulty.refuse(3, "execution reverted", "0x")
        for _ in range(20):
            with pytest.raises(Reverted):
                await pool.ask(CALL)
        assert counts(asked, "eth_call") == [20, 0, 0]
        assert all(member.is_live for member in pool.status())


async def test_a_slow_first_is_hedged_and_the_loser_is_cancelled() -> None:
    """Goal: the first valid answer wins and the other's connection is let go. Method: the first hangs; what its server
    sees, what is told of the race."""
    seen: list[HedgeSeen] = []
    async with servers() as asked, pool_of(asked, on_hedge=seen.append) as pool:
        await pool.ask(HEAD)
        asked[0].behave(faulty.hang)
        began = trio.current_time()
        assert await pool.ask(HEAD) == 16
        assert 0.1 <= trio.current_time() - began < 1.5
        assert counts(asked, "eth_blockNumber") == [2, 1, 0]
        await until(lambda: asked[0].connections_open == 0, what="the loser's connection to be closed")
        assert [(one.first, one.second, one.won) for one in seen] == [(asked[0].url, asked[1].url, True)]
        first, second, _ = pool.status()
        assert (first.hedges_fired, first.hedges_won, second.hedges_won) == (1, 0, 1)
        assert first.is_live, "a lost race opens nothing"
        assert first.faults == 0


async def test_a_hedge_that_fails_does_not_end_the_race() -> None:
    """Goal: a failed hedge leaves the first running. Method: the first is slow, the second broken, the third too."""
    async with servers() as asked, pool_of(asked) as pool:
        asked[0].otherwise = late(0.4)
        asked[1].otherwise = asked[2].otherwise = faulty.close_at_once
        assert await pool.ask(HEAD) == 16
        assert asked[0].asked("eth_blockNumber") == 1


async def test_who_keeps_losing_is_no_longer_asked_first() -> None:
    """Goal: one endpoint that hangs costs a few hedges, not one each. Method: it hangs from the start; later reads."""
    async with servers() as asked, pool_of(asked) as pool:
        asked[0].otherwise = faulty.hang
        for _ in range(20):
            assert await pool.ask(HEAD) == 16
        assert asked[0].asked("eth_blockNumber") <= 4


async def test_a_null_that_may_be_early_does_not_win() -> None:
    """Goal: "not yet" does not beat an answer. Method: the first is slow and has the block, the hedge says null."""
    async with servers() as asked, pool_of(asked) as pool:
        header = examples.block(hash="0x" + HASH.hex())
        asked[0].otherwise = late(0.4, faulty.answer(header))
        asked[1].otherwise = faulty.answer(None)
        found = await pool.ask(methods.block_by_hash(HASH))
        assert found is not None
        assert found.hash == HASH
        # Where nobody has it, the null is the answer.
        asked[0].otherwise = late(0.4, faulty.answer(None))
        assert await pool.ask(methods.block_by_hash(HASH)) is None


@pytest.mark.parametrize("call", [methods.transaction_receipt(HASH), methods.transaction_by_hash(HASH), FILTER])
async def test_polls_and_filters_are_not_hedged(call: Call[object]) -> None:
    """Goal: null is normal while polling, and a filter lives where it was made. Method: a slow first answers alone."""
    async with servers() as asked, pool_of(asked) as pool:
        asked[0].otherwise = late(0.4, faulty.answer(None))
        assert await pool.ask(call) is None
        assert counts(asked, call.method) == [1, 0, 0]


async def test_a_429_anywhere_stops_hedges() -> None:
    """Goal: who asks for less gets no more. Method: a 429, then slow ones: two reads, three requests."""
    async with servers() as asked, pool_of(asked) as pool:
        asked[0].behave(faulty.answer_body(b"", status=429, headers={"retry-after": "2"}))
        asked[1].otherwise = asked[2].otherwise = late(0.4)
        assert await pool.ask(HEAD) == 16
        assert await pool.ask(HEAD) == 16
        assert sum(counts(asked, "eth_blockNumber")) == 3
        assert pool.status()[0].circuits["light"] == "open"


async def test_no_fault_carries_a_question_past_its_deadline() -> None:
    """Goal: whatever they do, every question ends in time. Method: all hang, all drip, or each fails in its own way."""
    for behaviours in ([faulty.hang] * 3, [faulty.drip] * 3, [faulty.hang, faulty.close_at_once, faulty.drip]):
        async with servers() as asked, pool_of(asked, deadline_seconds=0.6) as pool:
            for server, behaviour in zip(asked, behaviours, strict=True):
                server.otherwise = behaviour
            for call in (HEAD, methods.transaction_receipt(HASH)):
                began = trio.current_time()
                with pytest.raises(EndpointFault) as caught:
                    await pool.ask(call)
                assert trio.current_time() - began < 1.2
                assert not isinstance(caught.value, RpcRefused)
            began = trio.current_time()
            (outcome,) = await pool.ask_many([HEAD])
            assert isinstance(outcome, EndpointFault)
            assert trio.current_time() - began < 1.2


async def test_an_unhedged_question_reaches_an_endpoint_behind_two_that_hang() -> None:
    """Goal: polls are carried past hanging endpoints too. Method: two hang; the receipt comes from the third."""
    async with servers() as asked, pool_of(asked, deadline_seconds=1.5) as pool:
        asked[0].otherwise = asked[1].otherwise = faulty.hang
        asked[2].otherwise = faulty.answer(None)
        assert await pool.ask(methods.transaction_receipt(HASH)) is None


async def test_a_wrong_chain_is_left_alone_and_harms_nobody() -> None:
    """Goal: one endpoint of another chain is never believed and stops nothing. Method: the first is wrong, then healed;
    it is asked again after its cooldown, and only then."""
    async with servers() as asked, pool_of(asked, head_poll_seconds=0.1) as pool:
        asked[0].chain_id = CHAIN_ID + 1
        for _ in range(5):
            assert await pool.ask(HEAD) == 16
        assert asked[0].asked("eth_blockNumber") == 0
        assert set(pool.status()[0].circuits_open) == set(METHOD_CLASSES)
        assert "serves chain id 31338" in pool.status()[0].circuit_causes["light"]
        asked[0].chain_id = CHAIN_ID
        await until(lambda: pool.status()[0].circuits["light"] == "closed", what="the probe to admit it")


async def test_an_endpoint_that_was_down_at_the_start_is_admitted_when_it_is_up() -> None:
    """Goal: no endpoint is out for good. Method: nothing listens at the first URL; later something does."""
    async with faulty_server() as other:
        async with faulty_server() as gone:
            port = gone.port
        async with pool_of([f"http://127.0.0.1:{port}", other], head_poll_seconds=0.1) as pool:
            assert await pool.ask(HEAD) == 16
            await until(lambda: pool.status()[0].circuits["light"] == "open", what="the circuit to open")
            assert await pool.ask(HEAD) == 16
            async with faulty_server(port=port):
                await until(lambda: pool.status()[0].is_live, what="the endpoint to be admitted")
                await until(lambda: pool.status()[0].head == 16)


async def test_the_last_live_endpoint_is_asked_whatever_it_does() -> None:
    """Goal: a bad endpoint is more than none. Method: all fail for long, then the first one heals: it is asked."""
    async with servers() as asked, pool_of(asked, cooldown_milliseconds=3_600_000) as pool:
        for server in asked:
            server.otherwise = faulty.close_at_once
        for _ in range(20):
            with pytest.raises(EndpointFault):
                await pool.ask(HEAD)
        assert sum(status.is_live for status in pool.status()) == 1
        for server in asked:
            server.otherwise = faulty.answer("0x10")
        assert await pool.ask(HEAD) == 16


async def test_a_member_with_an_open_circuit_says_so_at_once() -> None:
    """Goal: a quorum need not wait for whom we know to be down. Method: open one by its faults, ask it directly."""
    async with servers() as asked, pool_of(asked, cooldown_milliseconds=60_000) as pool:
        asked[0].otherwise = faulty.close_at_once
        member = pool.members[0]
        for _ in range(4):
            with pytest.raises(EndpointFault, match="broke off"):
                await member.ask(HEAD)
        requests = len(asked[0].requests)
        with pytest.raises(EndpointFault, match="not asked: the circuit for light methods is open") as caught:
            await member.ask(HEAD)
        assert caught.value.is_circuit_open
        (outcome,) = await member.ask_many([HEAD])
        assert isinstance(outcome, EndpointFault)
        assert outcome.is_circuit_open
        assert len(asked[0].requests) == requests


async def test_a_probe_steals_no_callers_time() -> None:
    """Goal: whether an endpoint is back is found beside the traffic. Method: it hangs when probed; the callers' answers
    come from another at once, and one probe at a time is under way."""
    async with servers(2) as asked, pool_of(asked, cooldown_milliseconds=100) as pool:
        asked[0].otherwise = faulty.close_at_once
        for _ in range(4):
            with pytest.raises(EndpointFault):
                await pool.members[0].ask(CALL)
        asked[0].otherwise = faulty.hang
        await until(lambda: pool.status()[0].circuits["state"] == "half-open")
        before = asked[0].asked("eth_call")
        for _ in range(10):
            began = trio.current_time()
            await pool.ask(CALL)
            assert trio.current_time() - began < 0.5
        await until(lambda: asked[0].asked("eth_call") == before + 1)


async def test_a_batch_goes_to_one_and_what_it_could_not_tell_to_the_next() -> None:
    """Goal: each item has its answer from whoever has it. Method: the first misses one, refuses one as an answer."""

    async def partly(request: Request) -> None:
        answers: list[dict[str, Any]] = []
        for call in request.calls:
            error = {"eth_getBalance": "header not found", "eth_estimateGas": "insufficient funds"}.get(call["method"])
            base = {"jsonrpc": "2.0", "id": call["id"]}
            answers.append(
                {**base, "error": {"code": -32000, "message": error}} if error else {**base, "result": "0x1"}
            )
        await request.respond_json(answers)

    request = methods.CallRequest(b"\x01" * 20, None)
    calls: list[Call[int]] = [HEAD, methods.balance(b"\x01" * 20, 16), methods.estimate_gas(request)]
    async with servers() as asked, pool_of(asked) as pool:
        asked[0].otherwise = partly
        head, balance, gas = await pool.ask_many(calls)
        assert (head, balance) == (1, 16)
        assert isinstance(gas, RpcRefused)
        assert counts(asked, "eth_getBalance") == [1, 1, 0]
        assert counts(asked, "eth_estimateGas") == [1, 0, 0]
        assert await pool.ask_many([]) == []


async def test_a_batch_survives_an_endpoint_that_hangs() -> None:
    """Goal: fifty questions do not hang on one endpoint. Method: the first hangs; every answer comes in time."""
    async with servers() as asked, pool_of(asked, deadline_seconds=1) as pool:
        asked[0].otherwise = faulty.hang
        assert await pool.ask_many([HEAD] * 50) == [16] * 50


async def test_a_broken_batch_counts_once() -> None:
    """Goal: one lost connection is one fault, though fifty questions were on it. Method: lose one batch."""
    async with servers(2) as asked, pool_of(asked) as pool:
        asked[0].behave(faulty.close_at_once)
        assert await pool.ask_many([HEAD] * 50) == [16] * 50
        assert pool.status()[0].is_live
        assert pool.status()[0].faults == 1


async def test_heads_are_watched_and_an_endpoint_that_lags_is_asked_last() -> None:
    """Goal: head lag moves the traffic. Method: the first stands still while the others go on."""
    async with servers() as asked, pool_of(asked, head_poll_seconds=0.05) as pool:
        for server in asked[1:]:
            server.otherwise = faulty.answer("0x40")
        await until(lambda: [status.lag_blocks for status in pool.status()] == [48, 0, 0], what="the lag to be seen")
        before = asked[0].asked("eth_call")
        await pool.ask(CALL)
        assert asked[0].asked("eth_call") == before
        assert pool.status()[0].score < pool.status()[1].score


async def test_the_status_hides_keys(server: FaultyServer) -> None:
    """Goal: what is shown of an endpoint holds no key (RPC-10). Method: a key in the path; the whole status."""
    async with pool_of([f"{server.url}/v2/0123456789abcdef"]) as pool:
        await pool.ask(HEAD)
        assert "0123456789abcdef" not in repr(pool.status())
        (status,) = pool.status()
        assert status.requests == 1
        assert status.methods["eth_blockNumber"].latency_seconds is not None


async def test_a_slow_first_answer_does_not_send_the_traffic_to_strangers() -> None:
    """Goal: what is unknown is not presumed quick. Method: the first endpoint is slow, the others were never asked."""
    async with servers() as asked, pool_of(asked, hedges=NO_HEDGES) as pool:
        asked[0].behave(late(0.3))
        for _ in range(5):
            assert await pool.ask(HEAD) == 16
        assert counts(asked, "eth_blockNumber") == [5, 0, 0]


async def test_an_endpoint_that_may_be_back_is_the_last_hope() -> None:
    """Goal: where every live endpoint fails, one whose cooldown has passed is tried before giving up. Method: the first
    was out and is well again, the second, the last live one, fails."""
    async with servers(2) as asked, pool_of(asked, cooldown_milliseconds=100) as pool:
        asked[0].otherwise = faulty.close_at_once
        for _ in range(4):
            with pytest.raises(EndpointFault):
                await pool.members[0].ask(HEAD)
        asked[0].otherwise = faulty.answer("0x10")
        asked[1].otherwise = faulty.close_at_once
        await until(lambda: pool.status()[0].circuits["light"] == "half-open")
        assert await pool.ask(HEAD) == 16
        assert pool.status()[0].is_live


async def test_a_cancelled_probe_is_made_again() -> None:
    """Goal: a caller who goes away in the middle of a probe locks nobody out. Method: cancel one while it hangs."""
    async with servers(2) as asked, pool_of(asked, cooldown_milliseconds=100) as pool:
        member = pool.members[0]
        asked[0].otherwise = faulty.close_at_once
        for _ in range(4):
            with pytest.raises(EndpointFault):
                await member.ask(HEAD)
        asked[0].otherwise = faulty.hang
        await until(lambda: pool.status()[0].circuits["light"] == "half-open")
        for ask in (lambda: member.ask(HEAD), lambda: member.ask_many([HEAD])):
            with trio.move_on_after(0.1) as patience:
                await ask()
            assert patience.cancelled_caught
        asked[0].otherwise = faulty.answer("0x10")
        assert await member.ask(HEAD) == 16
        assert pool.status()[0].is_live


async def test_two_endpoints_of_one_host_have_names_of_their_own() -> None:
    """Goal: hidden keys mix up no two endpoints, and give nobody two votes. Method: one server under two paths and
    another beside it: three names in status and observations; a quorum of them is refused."""
    async with servers(2) as (one, other):
        seen: list[Observation] = []
        urls = [f"{one.url}/v2/first-key", f"{one.url}/v2/second-key", other.url]
        async with pool_of(urls, observer=seen.append) as pool:
            names = [member.endpoint for member in pool.status()]
            assert names == [f"{one.url}/…", f"{one.url}/… #2", other.url]
            for member in pool.members:
                await member.ask(methods.block_number())
            assert {each.endpoint for each in seen} == set(names)
            with pytest.raises(ValueError, match="stands twice"):
                Quorum(pool.members)
