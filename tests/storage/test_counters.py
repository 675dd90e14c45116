"""Budgets that processes share through Redis (INT-8)."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nursery.asyncio_bridge import open_bridge
from storage.counters import Budget, Spent
from storage.errors import StorageError
from storage.redis_client import open_redis
from tayho.kernel.ids import new_id

pytestmark = pytest.mark.services

HOUR = 3_600


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)  # each example has a budget of its own
@given(most=st.integers(1, 12), spends=st.lists(st.integers(1, 5), min_size=1, max_size=20))
def test_two_processes_share_a_budget_exactly(redis_url: str, most: int, spends: list[int]) -> None:
    """Goal: never more than the budget, and never less while something of it is left. Method: any spends, half of them
    over either of two connections at once; what was allowed is counted, and then the rest is spent one by one."""

    async def play() -> tuple[int, int]:
        async with open_bridge(), open_redis(redis_url) as one, open_redis(redis_url) as other:
            name = new_id().hex
            budgets = [
                Budget(redis, prefix="{tayho}", name=name, most=most, window_seconds=HOUR) for redis in (one, other)
            ]
            allowed: list[int] = []

            async def spend(budget: Budget, wanted: int) -> None:
                if (await budget.spend("client", wanted)).allowed:
                    allowed.append(wanted)

            async with trio.open_nursery() as spenders:
                for place, wanted in enumerate(spends):
                    spenders.start_soon(spend, budgets[place % 2], wanted)
            rest = 0
            while (await budgets[rest % 2].spend("client")).allowed:
                rest += 1
            return sum(allowed), rest

    spent, rest = trio.run(play)
    assert spent + rest == most


async def test_each_key_has_its_own_and_a_refusal_says_when(redis_url: str, bridge: None) -> None:
    """Goal: one client takes nothing from another and learns when to come back. Method: two keys, one of them spent."""
    async with open_redis(redis_url) as redis:
        budget = Budget(redis, prefix="{tayho}", name=new_id().hex, most=2, window_seconds=HOUR)
        found = Counter([(await budget.spend("a")).allowed for _ in range(3)])
        assert found == {True: 2, False: 1}
        refused = await budget.spend("a")
        assert refused == Spent(allowed=False, remaining=0, reset_seconds=refused.reset_seconds)
        assert 0 < refused.reset_seconds <= HOUR
        assert (await budget.spend("b")).remaining == 1


async def test_a_redis_that_is_away_allows_nothing(bridge: None) -> None:
    """Goal: never unlimited because nobody counted (INT-8). Method: spend where nothing listens."""
    async with open_redis("redis://127.0.0.1:1/0") as redis:
        budget = Budget(redis, prefix="{tayho}", name="n", most=2, window_seconds=HOUR)
        with pytest.raises(StorageError):
            await budget.spend("a")
