"""Scores, the order they make, and quantiles of durations. Pure: the time is a number."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpc.health import DISSENT_DOUBT, LIE_DOUBT, STICKINESS, Health, Preference, Ranked, lags_of
from rpc.latency import SECONDS_MAX, LatencyHistogram

METHOD = "eth_call"


def seen(seconds: float, answers: int = 30, faults: int = 0, now: float = 0) -> Health:
    health = Health()
    for _ in range(answers):
        health.succeeded(METHOD, seconds, now)
    for _ in range(faults):
        health.failed(METHOD, now)
    return health


def test_better_is_ranked_higher_in_each_respect() -> None:
    """Goal: success, speed and head each count. Method: worsen one of them at a time."""
    good = seen(0.02).score(METHOD, 0, 0)
    assert good > seen(0.12).score(METHOD, 0, 0) * STICKINESS
    assert good > seen(0.02, faults=10).score(METHOD, 0, 0) * STICKINESS
    assert good > seen(0.02).score(METHOD, 3, 0) * STICKINESS
    assert good == seen(0.02).score(METHOD, 1, 0), "one block is the time a block needs to travel"


def test_an_endpoint_that_fails_fast_is_not_fast() -> None:
    """Goal: latency is that of successes. Method: a slow good endpoint against one that only fails at once."""
    assert seen(0.5).score(METHOD, 0, 0) > seen(0.001, answers=1, faults=50).score(METHOD, 0, 0)


def test_faults_are_forgiven_with_time() -> None:
    """Goal: the score decays towards what is presumed. Method: the same faults, one and ten half-lives later."""
    failed = seen(0.02, answers=5, faults=20)
    scores = [failed.score(METHOD, 0, now) for now in (0, 20, 200)]
    assert scores == sorted(scores)
    assert scores[0] < scores[2] / 2


def test_who_is_contradicted_is_asked_later_for_a_while() -> None:
    """Goal: a dissent costs rank at every method, a proven lie much more, however quick the endpoint is; time forgives,
    and no number of them makes a score vanish. Method: the same endpoint, doubted so, now and later."""
    plain, doubted, liar = seen(0.02), seen(0.02), seen(0.001, answers=10_000)
    doubted.doubt.add(DISSENT_DOUBT, 0)
    liar.doubt.add(LIE_DOUBT, 0)
    for method in (METHOD, "eth_getLogs"):
        scores = [each.score(method, 0, 0) for each in (plain, doubted, liar)]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > STICKINESS * scores[1] > STICKINESS**2 * scores[2]
    assert doubted.doubt.at(600) == DISSENT_DOUBT / 2
    assert doubted.doubt.at(36_000) < 1e-9
    for _ in range(100_000):
        liar.doubt.add(LIE_DOUBT, 1)
    assert liar.score(METHOD, 0, 1) > 1e-4


def test_a_method_that_fails_does_not_condemn_the_others() -> None:
    """Goal: per method where methods differ. Method: one that always fails beside one that never does."""
    health = seen(0.02)
    for _ in range(30):
        health.failed("eth_getLogs", 0)
    assert health.score(METHOD, 0, 0) > 2 * health.score("eth_getLogs", 0, 0)


def test_who_is_always_overtaken_loses_its_rank() -> None:
    """Goal: silence is not speed. Method: a quick past, then lost races only; faster losses change nothing."""
    health = seen(0.002, answers=1000)
    before = health.score(METHOD, 0, 0)
    health.overtaken(METHOD, 0.001)
    assert health.score(METHOD, 0, 0) == before
    for _ in range(3):
        health.overtaken(METHOD, 0.2)
    assert health.score(METHOD, 0, 0) * STICKINESS < before


odd = st.one_of(st.floats(), st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0]))


@example([("ok", sys.float_info.max, 0.0)], 900_719_925_474_093)
@given(st.lists(st.tuples(st.sampled_from(["ok", "fail", "late"]), odd, st.floats(-1e9, 1e9))), st.integers(0, 2**64))
def test_no_score_is_ever_out_of_bounds(steps: list[tuple[str, float, float]], lag: int) -> None:
    """Goal: no NaN, infinity or zero ever ranks an endpoint. Method: any durations at any times, clocks set back."""
    health, now = Health(), 0.0
    for what, seconds, now in steps:
        if what == "ok":
            health.succeeded(METHOD, seconds, now)
        elif what == "late":
            health.overtaken(METHOD, seconds)
        else:
            health.failed(METHOD, now)
    for method in (METHOD, "unseen"):
        assert 0 < health.score(method, lag, now) <= 1


def test_noise_does_not_move_the_first_place() -> None:
    """Goal: order does not flap. Method: two endpoints whose scores cross within the bound, then one clearly better."""
    preference = Preference()
    for step in range(100):
        scores = (0.5 + 0.05 * (step % 2), 0.5 + 0.05 * ((step + 1) % 2))
        assert preference.order(METHOD, [Ranked(0, scores[0]), Ranked(1, scores[1])])[0] == 1
    assert preference.order(METHOD, [Ranked(0, 0.9), Ranked(1, 0.5)]) == [0, 1]
    assert preference.order(METHOD, [Ranked(0, 0.5), Ranked(1, 0.6)]) == [0, 1]
    assert preference.order(METHOD, [Ranked(1, 0.1)]) == [1]
    assert preference.order(METHOD, []) == []


def test_equals_keep_the_configured_order() -> None:
    """Goal: the first URL is the first asked while nothing speaks against it. Method: three equals, shuffled."""
    assert Preference().order(METHOD, [Ranked(2, 0.5), Ranked(0, 0.5), Ranked(1, 0.5)]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("heads", "lags"),
    [
        ([100, 100, 100], [0, 0, 0]),
        ([100, 101, 101], [1, 0, 0]),
        ([100, 100, 90], [0, 0, 10]),
        ([100, 100, 10**18], [0, 0, 10**18 - 100 - 16]),
        ([100, 95], [0, 5]),
        ([None, 100, 100], [0, 0, 0]),
        ([None, None, None], [0, 0, 0]),
    ],
)
def test_lag_is_measured_from_what_a_majority_has_reached(heads: list[int | None], lags: list[int]) -> None:
    """Goal: neither one that is behind nor one that boasts sets the mark. Method: a table."""
    assert lags_of(heads) == lags


@given(st.lists(st.floats(1e-4, 100), min_size=1, max_size=300), st.floats(0, 1))
def test_a_quantile_is_right_to_one_bucket(durations: list[float], share: float) -> None:
    """Goal: the estimate is the true quantile to a bucket's width. Method: against the sorted samples."""
    histogram = LatencyHistogram()
    for seconds in durations:
        histogram.add(seconds, 0)
    true = sorted(durations)[max(math.ceil(share * len(durations) - 1e-9), 1) - 1]
    found = histogram.quantile(share)
    assert found is not None
    assert true / 1.1501 <= found <= true * 1.1501


@given(st.lists(st.tuples(odd, st.floats(-1e12, 1e12))))
def test_any_duration_at_any_time_is_survived(steps: list[tuple[float, float]]) -> None:
    """Goal: nothing overflows or turns NaN, for years. Method: any floats as durations and times."""
    histogram = LatencyHistogram()
    for seconds, now in steps:
        histogram.add(seconds, now)
    found = histogram.quantile(0.95)
    assert found is None or 0 < found <= SECONDS_MAX * 1.15


def test_the_past_fades() -> None:
    """Goal: "recent" means it. Method: a thousand slow answers, ten half-lives, fifty quick ones."""
    histogram = LatencyHistogram(half_life_seconds=10)
    for _ in range(1000):
        histogram.add(1.0, 0)
    for _ in range(50):
        histogram.add(0.01, 100)
    found = histogram.quantile(0.95)
    assert found is not None
    assert found < 0.02
