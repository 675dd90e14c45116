"""When a circuit opens, who may probe, and what never opens it. Pure: the time is a number."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc import errors
from rpc.board import CircuitBoard
from rpc.circuit import Circuit, CircuitRules, Fault
from rpc.errors import EndpointFault, Reverted, RpcError, RpcRefused, WrongChain
from rpc.method_traits import METHOD_CLASSES
from rpc.retry_after import RETRY_AFTER_SECONDS_MAX
from rpc.verdicts import fault_in

COOLDOWN = 5.0
RULES = CircuitRules(COOLDOWN, window_seconds=30, samples_min=4)
FAULT = Fault("reset")


def fail(circuit: Circuit, times: int, now: float, fault: Fault = FAULT) -> None:
    for _ in range(times):
        leave = circuit.enter(now)
        assert leave is not None
        circuit.failed(leave, fault, now)


def answer(circuit: Circuit, times: int, now: float) -> None:
    for _ in range(times):
        leave = circuit.enter(now)
        assert leave is not None
        circuit.answered(leave, now)


def opened(now: float = 0.0, fault: Fault = FAULT) -> Circuit:
    circuit = Circuit(RULES)
    fail(circuit, RULES.samples_min, now, fault)
    assert circuit.state(now) == "open"
    return circuit


def test_it_opens_at_the_minimum_of_samples_and_not_before() -> None:
    """Goal: one bad moment takes nobody out. Method: one fault fewer than the minimum, then the last."""
    circuit = Circuit(RULES)
    fail(circuit, RULES.samples_min - 1, 0)
    assert circuit.state(0) == "closed"
    fail(circuit, 1, 0)
    assert circuit.state(0) == "open"


def test_a_few_faults_among_many_answers_open_nothing() -> None:
    """Goal: a share is judged, not a count. Method: one fault in four answers, a hundred times."""
    circuit = Circuit(RULES)
    for _ in range(100):
        answer(circuit, 3, 1)
        fail(circuit, 1, 1)
    assert circuit.state(1) == "closed"


def test_a_busy_endpoint_that_dies_is_not_hidden_by_its_past() -> None:
    """Goal: ten thousand good answers do not carry a dead endpoint. Method: faults in a row after them."""
    circuit = Circuit(RULES)
    answer(circuit, 10_000, 1)
    fail(circuit, RULES.samples_min, 1)
    assert circuit.state(1) == "open"


def test_faults_that_are_far_apart_open_nothing() -> None:
    """Goal: the window forgets. Method: a fault each window's length, for long."""
    circuit = Circuit(RULES)
    for at in range(50):
        fail(circuit, 1, at * (RULES.window_seconds + 1))
        assert circuit.state(at * (RULES.window_seconds + 1)) == "closed"


def test_one_probe_decides() -> None:
    """Goal: after the cooldown one question goes through, and its answer closes. Method: ask twice before it ends."""
    circuit = opened()
    assert circuit.enter(COOLDOWN - 0.01) is None
    probe = circuit.enter(COOLDOWN)
    assert probe is not None
    assert probe.is_probe
    assert circuit.enter(COOLDOWN) is None
    circuit.answered(probe, COOLDOWN)
    assert circuit.state(COOLDOWN) == "closed"
    # What the past had counted is forgotten: one more fault is one, not the fifth.
    fail(circuit, 1, COOLDOWN)
    assert circuit.state(COOLDOWN) == "closed"


def test_a_probe_that_fails_opens_for_another_cooldown() -> None:
    """Goal: no second chance within one cooldown. Method: fail the probe; look before and after."""
    circuit = opened()
    probe = circuit.enter(COOLDOWN)
    assert probe is not None
    circuit.failed(probe, FAULT, COOLDOWN)
    assert circuit.enter(2 * COOLDOWN - 0.01) is None
    assert circuit.enter(2 * COOLDOWN) is not None


def test_a_cancelled_probe_leaves_the_place_to_the_next() -> None:
    """Goal: a caller that goes away does not lock an endpoint out for ever. Method: release the probe, enter again."""
    circuit = opened()
    probe = circuit.enter(COOLDOWN)
    assert probe is not None
    circuit.released(probe)
    assert circuit.enter(COOLDOWN) is not None


def test_an_answer_from_before_changes_nothing() -> None:
    """Goal: a slow answer of a question asked before the opening neither closes nor reopens. Method: tell both late."""
    circuit = Circuit(RULES)
    early, other = circuit.enter(0), circuit.enter(0)
    assert early is not None
    assert other is not None
    fail(circuit, RULES.samples_min, 0)
    circuit.answered(early, 1)
    assert circuit.state(1) == "open"
    probe = circuit.enter(COOLDOWN)
    assert probe is not None
    circuit.failed(other, FAULT, COOLDOWN)
    circuit.answered(probe, COOLDOWN)
    assert circuit.state(COOLDOWN) == "closed"


def test_faults_from_before_a_recovery_are_no_faults_of_after() -> None:
    """Goal: an endpoint that is back is not taken out by its past. Method: many slow failures told after the probe."""
    circuit = Circuit(RULES)
    slow = [circuit.enter(0) for _ in range(2 * RULES.samples_min)]
    fail(circuit, RULES.samples_min, 0)
    answer(circuit, 1, COOLDOWN)
    for leave in slow:
        assert leave is not None
        circuit.failed(leave, FAULT, COOLDOWN)
    assert circuit.state(COOLDOWN) == "closed"


@pytest.mark.parametrize(
    ("asked", "pause"),
    [(2, 2.0), (60, 60.0), (10**9, RETRY_AFTER_SECONDS_MAX), (None, COOLDOWN), (math.nan, COOLDOWN), (-5, COOLDOWN)],
)
def test_a_429_is_honoured_for_as_long_as_it_asks(asked: float | None, pause: float) -> None:
    """Goal: seconds are seconds, and nobody is away for a year. Method: one 429 with each wish; the time it is out."""
    circuit = Circuit(RULES)
    leave = circuit.enter(0)
    assert leave is not None
    circuit.failed(leave, Fault("429", opens_at_once=asked is None or asked != -5, pause_seconds=asked), 0)
    if asked == -5:
        assert circuit.state(0) == "closed"
        return
    assert circuit.state(pause - 0.01) == "open"
    assert circuit.state(pause) == "half-open"


def test_a_429_that_asks_for_no_pause_gets_none_until_it_is_one_of_many() -> None:
    """Goal: Retry-After: 0 is taken at its word, and still counts. Method: one, then the minimum of samples."""
    circuit = Circuit(RULES)
    welcome = Fault("429", opens_at_once=True, pause_seconds=0)
    fail(circuit, 1, 0, welcome)
    assert circuit.state(0) == "closed"
    fail(circuit, RULES.samples_min - 1, 0, welcome)
    assert circuit.seconds_left(0) == COOLDOWN


def test_the_last_live_one_is_never_disabled() -> None:
    """Goal: a bad endpoint is more than none. Method: fail two of two, far beyond every bound, in every class."""
    board = CircuitBoard(2, RULES)
    for work in METHOD_CLASSES:
        for place in (0, 1):
            for _ in range(100):
                leave = board.enter(place, work, 0)
                if leave is not None:
                    board.failed(place, work, leave, Fault("down", opens_at_once=True), 0)
        assert [board.is_closed(place, work, 0) for place in (0, 1)] == [False, True]
    board.distrust(1, Fault("wrong chain"), 0)
    assert all(board.is_closed(1, work, 0) for work in METHOD_CLASSES)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["ok", "fail", "429", "drop"]), st.floats(0, 20))))
def test_some_endpoint_can_always_be_asked(steps: list[tuple[int, str, float]]) -> None:
    """Goal: whatever happens in whatever order, of three endpoints one is closed, and at most one probe runs on each.
    Method: random outcomes at random times."""
    board, now = CircuitBoard(3, RULES), 0.0
    for place, outcome, wait in steps:
        now += wait
        leave = board.enter(place, "light", now)
        assert any(board.is_closed(other, "light", now) for other in range(3))
        if leave is None:
            continue
        if leave.is_probe:
            assert board.enter(place, "light", now) is None
        circuit = board.circuit(place, "light")
        if outcome == "ok":
            circuit.answered(leave, now)
            assert circuit.state(now) == "closed"
        elif outcome == "drop":
            circuit.released(leave)
        else:
            board.failed(place, "light", leave, Fault(outcome, opens_at_once=outcome == "429"), now)


def test_classes_of_methods_fail_apart() -> None:
    """Goal: logs that time out leave heads alone. Method: open one class, look at the others."""
    board = CircuitBoard(2, RULES)
    for _ in range(RULES.samples_min):
        leave = board.enter(0, "heavy", 0)
        assert leave is not None
        board.failed(0, "heavy", leave, FAULT, 0)
    assert board.states(0, 0) == {"light": "closed", "state": "closed", "heavy": "open"}


ANSWERS: list[RpcError] = [
    Reverted(3, "execution reverted: rate limit exceeded"),
    RpcRefused(-32602, "invalid params"),
    RpcRefused(-32000, "nonce too low"),
    RpcRefused(-32005, "query returned more than 10000 results"),
    RpcRefused(-32000, "header not found"),
    RpcRefused(-32601, "the method eth_getProof does not exist/is not available"),
    EndpointFault("e", errors.DeadlinePassed(1, "slot")),
]
FAULTS: list[tuple[RpcError, bool, float | None]] = [
    (EndpointFault("e", errors.Transport("reset")), False, None),
    (EndpointFault("e", errors.DeadlinePassed(1, "headers")), False, None),
    (EndpointFault("e", errors.Malformed("html")), False, None),
    (EndpointFault("e", errors.BodyTooLarge(1)), False, None),
    (EndpointFault("e", errors.HttpStatus(502)), False, None),
    (EndpointFault("e", errors.HttpStatus(503, 7)), True, 7),
    (EndpointFault("e", errors.HttpStatus(429)), True, None),
    (EndpointFault("e", errors.HttpStatus(429, 0)), True, 0),
    (EndpointFault("e", errors.HttpStatus(429, 30)), True, 30),
    (WrongChain("e", errors.ChainMismatch(1, 2)), True, None),
    (RpcRefused(-32005, "daily request count exceeded, request rate limited"), False, None),
]


@pytest.mark.parametrize("error", ANSWERS, ids=str)
def test_answers_and_our_own_doing_are_no_faults(error: RpcError) -> None:
    """Goal: a revert, the caller's mistake, a missing block, our own full slots open nothing. Method: one of each."""
    assert fault_in(error) is None


@pytest.mark.parametrize(("error", "at_once", "pause"), FAULTS, ids=str)
def test_faults_are_told_as_what_they_are(error: RpcError, at_once: bool, pause: float | None) -> None:
    """Goal: each kind of fault opens as it should. Method: one of each, with what it asks for."""
    fault = fault_in(error)
    assert fault is not None
    assert (fault.opens_at_once, fault.pause_seconds) == (at_once, pause)
