"""The walk along a numbered list sees everything that is open and due, in bounded pages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tayho.protocol.roles import walk
from tayho.protocol.roles.epochs import ended_epoch, epoch_at
from tayho.protocol.roles.walk import CLOSED_AGAIN_SECONDS, PAGE, Walk


def look(one: Walk, due_at: dict[int, int | None], now: int) -> set[int]:
    """One whole look over a list, whose numbers are due at a time or closed; the numbers that were read."""
    seen: set[int] = set()
    for _ in range(1_000):
        page = one.page(len(due_at), now)
        assert len(page) <= PAGE
        assert len(page) == len(set(page))
        for number in page:
            one.tell(number, due_at[number], now)
        seen.update(page)
        if not one.is_more:
            return seen
    raise AssertionError("the look does not end")


@given(st.lists(st.none() | st.integers(0, 10), max_size=700), st.integers(0, 10))
def test_a_look_reads_every_open_number_that_is_due(times: list[int | None], now: int) -> None:
    """Goal: no order waits unseen behind others, however many stay due. Method: any list, looked at three times: the
    first look reads all, the later ones what is open and due, and of the rest nothing."""
    due_at = dict(enumerate(times, 1))
    one = Walk()
    assert look(one, due_at, now) == set(due_at)
    expected = {number for number, at in due_at.items() if at is not None and at <= now}
    assert look(one, due_at, now) == expected
    assert look(one, due_at, 10) == {number for number, at in due_at.items() if at is not None}


def test_many_that_stay_due_hide_none_behind_them() -> None:
    """Goal: orders of a paused market, due for days, keep no other from its turn. Method: more of them than pages hold,
    and one behind; every look reads all."""
    due_at: dict[int, int | None] = dict.fromkeys(range(1, 3 * PAGE), 0)
    one = Walk()
    for _ in range(3):
        assert look(one, due_at, 1) == set(due_at)


def test_what_a_block_closed_is_looked_at_once_more() -> None:
    """Goal: a reorganisation that opens an order again is seen. Method: close it, let time pass, open it again."""
    one = Walk()
    assert look(one, {1: 0, 2: 0}, 0) == {1, 2}
    assert look(one, {1: None, 2: 0}, 1) == {1, 2}
    assert look(one, {1: None, 2: 0}, 2) == {2}
    again = 1 + CLOSED_AGAIN_SECONDS
    assert look(one, {1: 0, 2: 0}, again) == {1, 2}
    assert look(one, {1: None, 2: 0}, again) == {1, 2}
    assert look(one, {1: None, 2: 0}, again + CLOSED_AGAIN_SECONDS) == {1, 2}
    assert look(one, {1: None, 2: 0}, again + 3 * CLOSED_AGAIN_SECONDS) == {2}


def test_a_list_that_grew_shorter_is_read_anew_from_there() -> None:
    """Goal: another chain's list, or one that a reorganisation cut, is walked again. Method: five, two, five again."""
    one = Walk()
    closed: dict[int, int | None] = dict.fromkeys(range(1, 6))
    assert look(one, closed, 0) == {1, 2, 3, 4, 5}
    assert look(one, {1: None, 2: None}, 0) == set()
    assert look(one, closed, 0) == {3, 4, 5}


def test_no_more_is_remembered_than_its_bound(monkeypatch) -> None:
    """Goal: a flood of open orders cannot fill the process. Method: a small bound; numbers close, and more are read."""
    monkeypatch.setattr(walk, "OPEN_MAX", 10)
    one = Walk()
    far: dict[int, int | None] = dict.fromkeys(range(1, 31), 99)
    assert look(one, far, 0) == set(range(1, 11))
    far |= dict.fromkeys(range(1, 11))
    assert look(one, far, 99) == set(range(1, 11))
    assert look(one, far, 99 + CLOSED_AGAIN_SECONDS) >= set(range(1, 11))
    assert look(one, far, 99 + CLOSED_AGAIN_SECONDS) == set(range(11, 21))


@given(st.integers(0, 2**40), st.integers(1, 604_800))
def test_an_epoch_is_a_span_and_the_ended_one_is_the_one_before(now: int, seconds: int) -> None:
    """Goal: replicas agree on epochs. Method: the epoch holds its second, and the ended one ends at or before it."""
    epoch = epoch_at(now, seconds)
    assert epoch * seconds <= now < (epoch + 1) * seconds
    assert (ended_epoch(now, seconds) + 1) * seconds <= now
