"""When bytes that no node has taken go out again (TX-4)."""

from __future__ import annotations

from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as draw

from tayho.transactions.answer_rules import CONSEQUENCES, Next
from tayho.transactions.resending_rules import (
    ANSWERS_MAX,
    WAIT_TICKS_MAX,
    Surroundings,
    is_due,
    last_no,
    pays_again,
    wait_ticks,
)
from tayho.transactions.types import Said

TICK_SECONDS = 5.0
NOTHING_CHANGED = Surroundings(is_next=False, pays_again=False, is_funded=False)
YES = [reason for reason, means in CONSEQUENCES.items() if means.next is Next.CONFIRM]
NO = sorted(set(CONSEQUENCES) - set(YES))
REASONS = draw.lists(draw.sampled_from([*YES, *NO]), max_size=ANSWERS_MAX)
AROUND = draw.builds(Surroundings, draw.booleans(), draw.booleans(), draw.booleans())


@given(draw.integers(1, 10**6))
def test_waits_grow_and_are_bounded(in_a_row: int) -> None:
    """Goal: what stays refused is asked for ever less often, and never given up. Method: any number of refusals: no
    wait is shorter than the one before, none is longer than the longest, and the first is a tick."""
    assert wait_ticks(1) == 1
    assert wait_ticks(in_a_row) <= wait_ticks(in_a_row + 1) <= WAIT_TICKS_MAX
    assert wait_ticks(ANSWERS_MAX) == WAIT_TICKS_MAX, "more answers are read than change anything"


@given(REASONS, AROUND, draw.floats(0, 10**6))
def test_what_was_taken_or_never_sent_goes_out_at_once(
    before: list[str], around: Surroundings, seconds_ago: float
) -> None:
    """Goal: a dropped mempool and a crash before the send heal at the next look. Method: no answer, or a yes after
    whatever else."""
    assert is_due(last_no([]), seconds_ago, around, TICK_SECONDS)
    for reason in YES:
        assert is_due(last_no([reason, *before]), seconds_ago, around, TICK_SECONDS)


@given(draw.sampled_from(NO), draw.integers(1, ANSWERS_MAX), AROUND)
def test_after_the_longest_wait_everything_goes_out(reason: str, in_a_row: int, around: Surroundings) -> None:
    """Goal: no cause that nobody thought of stops a lane. Method: any answer, and the longest wait behind it."""
    assert is_due(Said(reason, in_a_row), WAIT_TICKS_MAX * TICK_SECONDS, around, TICK_SECONDS)


@given(draw.sampled_from(NO), draw.sampled_from(NO), draw.integers(1, ANSWERS_MAX - 1))
@example("ambiguous", "pool_full", 5)
def test_another_answer_begins_anew(reason: str, another: str, in_a_row: int) -> None:
    """Goal: a new kind of answer is news. Method: the same no several times, then another."""
    said = last_no([another, *[reason] * in_a_row])
    assert said == Said(another, 1 if another != reason else in_a_row + 1)


def test_an_ended_cause_ends_the_wait() -> None:
    """Goal: a lane heals by itself at the look after its cause ended. Method: each answer with a cause that shows, long
    refused and a moment ago: not due while nothing changed, due when that very thing has."""
    causes = {
        "below_base_fee": evolve(NOTHING_CHANGED, pays_again=True),
        "underpriced": evolve(NOTHING_CHANGED, pays_again=True),
        "insufficient_funds": evolve(NOTHING_CHANGED, is_funded=True),
        "nonce_too_high": evolve(NOTHING_CHANGED, is_next=True),
    }
    for reason, ended in causes.items():
        said = Said(reason, ANSWERS_MAX)
        assert not is_due(said, TICK_SECONDS, NOTHING_CHANGED, TICK_SECONDS)
        assert is_due(said, 0.0, ended, TICK_SECONDS)
        for other in causes.values():
            assert is_due(said, 0.0, other, TICK_SECONDS) == (other == ended)


@given(draw.integers(1, 1_000), draw.integers(1, 1_000), draw.integers(1, 1_000))
def test_a_fee_pays_again_once_when_the_base_fee_has_come_down_to_it(fee: int, before: int, now: int) -> None:
    """Goal: a base fee that goes up and down above, or below, what is offered is no news. Method: any two base fees."""
    assert pays_again(fee, before, now) == (before > fee >= now)
    assert pays_again(fee, None, now) == (fee >= now)
    assert not pays_again(fee, before, None)
