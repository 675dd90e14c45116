"""A group commit answers each of its items for itself, whatever its neighbours are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from storage.commits import TRIES_MAX, again_if_lost, isolating
from storage.errors import CommitUnknown, Conflict, Refused, SerializationLost, StorageError, StoreUnavailable


@frozen
class Item:
    """One item of a group, and why PostgreSQL would refuse it."""

    number: int
    refusal: Refused | Conflict | None


@frozen
class Table:
    """A transaction over items: all of them are committed, or the first bad one's refusal is raised and none is.

    `races` says how often in a row the next transactions are lost before each that is not.
    """

    races: list[int] = field(factory=list[int])
    committed: list[int] = field(factory=list[int])
    tries: list[int] = field(factory=list[int])

    async def commit(self, items: Sequence[Item]) -> Sequence[str | Exception]:
        await trio.lowlevel.checkpoint()
        self.tries.append(len(items))
        if self.races and self.races[0] > 0:
            self.races[0] -= 1
            raise SerializationLost("another transaction won")
        if self.races:
            self.races.pop(0)
        for item in items:
            if item.refusal is not None:
                raise item.refusal
        self.committed.extend(item.number for item in items)
        return [f"committed {item.number}" for item in items]


def _refusal(kind: str) -> Refused | Conflict | None:
    return {"refused": Refused("bad", sqlstate="23514"), "conflict": Conflict("key")}.get(kind)


groups = st.lists(st.sampled_from(["good", "good", "refused", "conflict"]), max_size=12).map(
    lambda kinds: [Item(number, _refusal(kind)) for number, kind in enumerate(kinds)]
)


@given(items=groups, races=st.lists(st.integers(0, TRIES_MAX - 1), max_size=20))
async def test_each_good_item_is_committed_once_and_each_bad_one_gets_its_own_error(
    items: list[Item], races: list[int]
) -> None:
    """Goal: one poisoned item harms nobody else. Method: groups of good and bad items in any order, over a transaction
    that is lost now and then, never as often as it is tried."""
    table = Table(races)
    answers = await isolating(table.commit)(items)
    assert table.committed == [item.number for item in items if item.refusal is None]
    assert list(answers) == [item.refusal or f"committed {item.number}" for item in items]


@given(lost=st.integers(0, 2 * TRIES_MAX))
async def test_a_lost_race_is_run_again_a_bounded_number_of_times(lost: int) -> None:
    """Goal: a deadlock costs a moment, and no livelock comes of it. Method: lose the first so many tries."""
    table = Table([lost])
    item = Item(0, None)
    if lost < TRIES_MAX:
        assert await again_if_lost(lambda: table.commit([item])) == ["committed 0"]
        assert len(table.tries) == lost + 1
    else:
        with pytest.raises(SerializationLost):
            await again_if_lost(lambda: table.commit([item]))
        assert len(table.tries) == TRIES_MAX
        assert table.committed == []


@pytest.mark.parametrize("error", [StoreUnavailable("away"), CommitUnknown("cut"), SerializationLost("raced")])
async def test_what_says_nothing_about_an_item_takes_no_group_apart(error: StorageError) -> None:
    """Goal: an outage is not met with a storm of single commits, and work of unknown outcome is not sent again.
    Method: a transaction that always fails as a whole; it is never given a part of the group."""
    sizes: list[int] = []

    async def fail(items: Sequence[Item]) -> Sequence[str | Exception]:
        await trio.lowlevel.checkpoint()
        sizes.append(len(items))
        raise error

    with pytest.raises(type(error)):
        await isolating(fail)([Item(number, None) for number in range(3)])
    assert sizes == [3] * (TRIES_MAX if isinstance(error, SerializationLost) else 1)


async def test_an_outage_between_two_single_commits_is_told_to_those_it_met_alone() -> None:
    """Goal: StoreUnavailable says that nothing took effect, so nobody may hear it of what is committed. Method: a bad
    item makes the group commit one by one, and PostgreSQL goes away after the first of them."""
    table = Table()
    outage = StoreUnavailable("away")

    async def commit(items: Sequence[Item]) -> Sequence[str | Exception]:
        if table.committed:
            raise outage
        return await table.commit(items)

    refusal = _refusal("refused")
    answers = await isolating(commit)([Item(0, None), Item(1, refusal), Item(2, None)])
    assert table.committed == [0]
    assert list(answers) == ["committed 0", outage, outage]
