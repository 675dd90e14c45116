"""The users of the demo: they sign, and submit to whichever engine is next."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import trio

from nursery.groups import unwrapped
from tayho.client import EngineClient, Intent, IntentDomain, IntentProgress, Taken, sign_intent
from tayho.client.actions import claim, place_order, withdraw
from tayho.demo.types import Wishes
from tayho.demo.world import DEPOSIT_WEI, User

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# Of the wishes, one in so many; the rest are orders for another day.
DUE_EVERY, CLAIM_EVERY, HOPELESS_EVERY = 10, 20, 100
AT_ONCE = 16
VALID_SECONDS = 1_800
FAR_SECONDS = 30 * 24 * 60 * 60
CLAIM_WEI = 10**14
# An engine that still starts, or that is killed, is asked again for so long.
CALL_SECONDS = 120.0


def wishes_of(count: int) -> Wishes:
    """What so many intents ask for. One at least is hopeless, one is due and one a claim, where there are four."""
    hopeless, claims, due = (max(count // every, 1) for every in (HOPELESS_EVERY, CLAIM_EVERY, DUE_EVERY))
    return Wishes(count - due - claims - hopeless, due, claims, hopeless)


def intents_of(wishes: Wishes, users: Sequence[User], market: bytes) -> list[tuple[Intent, User]]:
    """The intents, spread over the users and mixed, so that no batch is of one sort."""
    now = int(time.time())
    until, far = now + VALID_SECONDS, now + FAR_SECONDS

    def order(user: User, not_before: int) -> Intent:
        return place_order(user.account, market, size=1, not_before=not_before, deadline=until)

    def payment(user: User) -> Intent:
        return claim(user.account, recipient=user.account, amount_wei=CLAIM_WEI, deadline=until, market=market)

    def too_much(user: User) -> Intent:
        return withdraw(user.account, recipient=user.account, amount_wei=2 * DEPOSIT_WEI, deadline=until, market=market)

    makers: list[tuple[int, Callable[[User], Intent]]] = [
        (wishes.orders, lambda user: order(user, far)),
        (wishes.orders_due, lambda user: order(user, 0)),
        (wishes.claims, payment),
        (wishes.hopeless, too_much),
    ]
    # Each sort spread evenly over the whole: by where its n-th would stand in a row of its own.
    placed = sorted(
        (((number + 0.5) / count, sort) for sort, (count, _) in enumerate(makers) for number in range(count)),
    )
    chosen = [users[place % len(users)] for place in range(len(placed))]
    return [(makers[sort][1](user), user) for (_, sort), user in zip(placed, chosen, strict=True)]


class Crowd:
    """Users before several engines."""

    def __init__(self, engines: Sequence[EngineClient], domain: IntentDomain) -> None:
        self._engines = engines
        self._domain = domain

    async def submit_all(self, intents: Sequence[tuple[Intent, User]], hear: Callable[[Taken], None]) -> None:
        """Sign and submit, AT_ONCE at a time. Raises EngineError."""

        async def submit(engine: EngineClient, one: tuple[Intent, User]) -> Taken:
            intent, user = one
            return await engine.submit(sign_intent(intent, self._domain, user.key))

        await self._each(intents, submit, hear)

    async def ask_all(self, taken: Sequence[Taken]) -> list[IntentProgress]:
        """What the engines say of each now. Raises EngineError."""
        told: list[IntentProgress] = []

        async def ask(engine: EngineClient, one: Taken) -> IntentProgress:
            return await engine.status(one.id)

        await self._each(taken, ask, told.append)
        return told

    async def _each(
        self,
        items: Sequence[Item],
        ask: Callable[[EngineClient, Item], Awaitable[Answer]],
        hear: Callable[[Answer], None],
    ) -> None:
        """Ask for each item, of the engines in turn."""
        waiting = iter(enumerate(items))

        async def work() -> None:
            # One iterator for all: each takes what is next.
            for number, item in waiting:
                hear(await ask(self._engines[number % len(self._engines)], item))

        with unwrapped():
            async with trio.open_nursery() as askers:
                for _ in range(AT_ONCE):
                    askers.start_soon(work)


@asynccontextmanager
async def crowd(urls: Sequence[str], domain: IntentDomain) -> AsyncGenerator[Crowd]:
    """Users of the engines at these addresses."""
    async with AsyncExitStack() as opened:
        engines = [
            await opened.enter_async_context(EngineClient.open(url, domain, call_seconds=CALL_SECONDS)) for url in urls
        ]
        yield Crowd(engines, domain)
