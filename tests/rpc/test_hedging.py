"""When a hedge may go: after how long, and how many. Pure: the time is a number."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc.errors import CircuitOpen, EndpointFault, Reverted, RpcError, RpcRefused, Transport
from rpc.hedging import HedgeBudget, HedgeDelays, HedgeRules
from rpc.refusals import is_answer, most_telling, standing_of

METHOD = "eth_call"
RULES = HedgeRules()


def delay_of(durations: list[float], now: float = 0) -> float:
    delays = HedgeDelays(RULES)
    for seconds in durations:
        delays.note(METHOD, seconds, now)
    return delays.seconds(METHOD, now)


def test_the_delay_is_the_recent_p95_within_its_bounds() -> None:
    """Goal: a hedge goes when the answer is late for its method. Method: known distributions, cold, quick, slow."""
    assert delay_of([0.05] * 5) == RULES.seconds_cold
    assert delay_of([0.001] * 100) == RULES.seconds_min
    assert delay_of([60.0] * 100) == RULES.seconds_max
    assert delay_of([0.1] * 90 + [0.3] * 10) == pytest.approx(0.3, rel=0.16)


@pytest.mark.parametrize("share", [0.03, 0.05, 0.08, 0.2])
def test_a_share_of_slow_answers_does_not_switch_hedging_off(share: float) -> None:
    """Goal: where one in twenty is slow, the delay stays far below the slow ones, on whichever side the p95 falls.
    Method: answers of 3 ms with a share of 303 ms."""
    slow = round(1000 * share)
    assert delay_of([0.003] * (1000 - slow) + [0.303] * slow) < 0.05


def test_lost_races_keep_the_delay_up() -> None:
    """Goal: the p95 does not drift down because slow ones never end. Method: one in ten is cut off at the delay, for
    many rounds, told as "at least" and, for comparison, not at all."""
    chance = random.Random(7)
    told, untold = HedgeDelays(HedgeRules(seconds_min=0)), HedgeDelays(HedgeRules(seconds_min=0))
    for step in range(5000):
        seconds = chance.uniform(0.05, 0.1) if chance.random() < 0.9 else 0.3
        for delays in (told, untold):
            delay = delays.seconds(METHOD, step * 0.01)
            if seconds <= delay:
                delays.note(METHOD, seconds, step * 0.01)
            elif delays is told:
                delays.note(METHOD, delay + 0.05, step * 0.01)
    assert told.seconds(METHOD, 50) > 0.1 > untold.seconds(METHOD, 50) * 0.9


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 0.1)), max_size=500))
def test_hedges_are_never_more_than_their_share(steps: list[tuple[bool, float]]) -> None:
    """Goal: at most a tenth of the requests and the saved burst, whatever is wished. Method: random wishes."""
    budget, now = HedgeBudget(HedgeRules(burst_max=5)), 0.0
    for sent, (wants, wait) in enumerate(steps, start=1):
        now += wait
        budget.sent()
        if wants:
            budget.take(now, is_strained=False)
        assert budget.fired <= 5 + 0.1 * sent + 1e-6


def test_a_push_back_and_an_open_circuit_stop_hedges() -> None:
    """Goal: an endpoint that asks for less gets no more. Method: take a token before, within and after the pause."""
    budget = HedgeBudget(RULES)
    assert budget.take(0, is_strained=False)
    assert not budget.take(0, is_strained=True)
    budget.pushed_back(1)
    assert not budget.take(1 + RULES.pause_seconds / 2, is_strained=False)
    assert budget.take(1 + RULES.pause_seconds, is_strained=False)
    assert (budget.fired, budget.withheld) == (2, 2)


@pytest.mark.parametrize(
    ("code", "message", "standing"),
    [
        (-32000, "header not found", "missing"),
        (-32000, "missing trie node 8d2c (path ) state 0x8d2c is not available", "missing"),
        (-32602, "BlockOutOfRangeError: block height is 7 but requested was 1000000", "missing"),
        (3, "cannot query unfinalized data", "missing"),
        (-32001, "Resource not found", "missing"),
        (-32000, "daily request count exceeded, request rate limited", "throttled"),
        (-32005, "limit exceeded", "throttled"),
        (429, "Your app has exceeded its compute units per second capacity", "throttled"),
        (-32601, "the method eth_getProof does not exist/is not available", "unserved"),
        (-32603, "Internal error", "trouble"),
        (-32000, "execution aborted (timeout = 5s)", "trouble"),
        (-32005, "query returned more than 10000 results", "answer"),
        (-32602, "invalid argument 0: hex string has length 38, want 40", "answer"),
        (-32000, "insufficient funds for gas * price + value", "answer"),
    ],
)
def test_a_refusal_is_judged_by_its_words(code: int, message: str, standing: str) -> None:
    """Goal: what only this endpoint lacks is asked of the next, what the caller did wrong is not. Method: texts."""
    assert standing_of(RpcRefused(code, message)) == standing


def test_a_reverts_own_words_are_not_believed() -> None:
    """Goal: a contract cannot send us on a tour of the endpoints. Method: reasons that read like a node's trouble."""
    for words in ("header not found", "rate limit exceeded", "internal error"):
        assert is_answer(Reverted(3, f"execution reverted: {words}", reason=words))


def test_the_most_telling_error_is_raised() -> None:
    """Goal: who reads the error learns the most. Method: all orders of a few."""
    closed = EndpointFault("a", CircuitOpen("light", 1, "reset"))
    broken = EndpointFault("b", Transport("reset"))
    throttled, missing = RpcRefused(-32005, "rate limit"), RpcRefused(-32000, "header not found")
    ranked: list[RpcError] = [closed, broken, throttled, missing]
    for worst in range(len(ranked)):
        assert most_telling(ranked[: worst + 1]) is ranked[worst]
        assert most_telling(ranked[: worst + 1][::-1]) is ranked[worst]
