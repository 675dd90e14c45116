"""The steps of a tick, each by itself (TX-5)."""

from __future__ import annotations

import pytest

from rpc.errors import FinalityViolated, NoQuorum
from rpc.values import Header
from tayho.transactions.errors import PoolHalted
from tests.transactions.conftest import Engine

pytestmark = pytest.mark.services
UNDECIDED = NoQuorum("eth_getBlockByNumber", 2, ("one", "two", "three"), ())


def steps(engine: Engine, error: Exception) -> list[str]:
    """Two steps, the first of which raises; what is taken is noted."""
    taken: list[str] = []

    async def first(_: Header) -> None:
        taken.append("first")
        raise error

    async def second(_: Header) -> None:
        taken.append("second")

    engine.reconciler._steps = (first, second)  # pyright: ignore[reportPrivateUsage]
    return taken


async def test_what_one_step_cannot_see_keeps_no_other_from_its_work(engine: Engine) -> None:
    """Goal: a height that voters contest does not stop fee bumps. Method: the first of two steps has no quorum; the
    second is taken all the same, and the tick tells the refusal."""
    taken = steps(engine, UNDECIDED)
    with pytest.raises(NoQuorum):
        await engine.reconciler.tick()
    assert taken == ["first", "second"]


@pytest.mark.parametrize(
    "error", [FinalityViolated(7, b"\x01" * 32, b"\x02" * 32, ("one",)), PoolHalted(("chain_reset",))]
)
async def test_nothing_is_done_on_a_chain_that_is_not_ours_any_more(engine: Engine, error: Exception) -> None:
    """Goal: a violation or a halt ends the tick. Method: the first of two steps finds it; the second is not taken."""
    taken = steps(engine, error)
    with pytest.raises(type(error)):
        await engine.reconciler.tick()
    assert taken == ["first"]
