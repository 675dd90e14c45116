"""Reads over several endpoints of one chain: the best first, a second when it is slow, the next when it fails.

It stands on its own:

    async with ReadPool.open(["https://one.example", "https://two.example"], chain_id=1) as pool:
        head = await pool.ask(methods.block_number())
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TypeVar

import trio

from nursery.groups import unwrapped
from nursery.periodic import every
from rpc import methods
from rpc.board import CircuitBoard
from rpc.circuit import CircuitRules
from rpc.coalescing import SharedQuestions
from rpc.endpoint import BODY_BYTES_MAX, Endpoint
from rpc.errors import DeadlinePassed, EndpointFault, RpcError
from rpc.health import DISSENT_DOUBT, LIE_DOUBT, Health
from rpc.hedge import Race
from rpc.hedging import HedgeBudget, HedgeDelays, HedgeRules
from rpc.many_endpoints import BatchOverMembers
from rpc.member import GuardedEndpoint, Member
from rpc.member_status import HedgeSeen, MemberStatus
from rpc.method_traits import METHOD_CLASSES, MethodClass, traits_of
from rpc.observation import Observation
from rpc.reads import Call
from rpc.refusals import most_telling
from rpc.roster import Roster
from rpc.urls import shown_url

T = TypeVar("T")

# How many endpoints one question's deadline is divided over. A fourth that hangs beside three others is another fault
# than a pool is for, and heavy reads need longer than a third.
_TRIES_IN_DEADLINE: dict[MethodClass, int] = {"light": 3, "state": 3, "heavy": 2}
# Of the time that is left, so that the last endpoint's silence is told as its fault before the deadline cuts all off.
_PATIENCE = 0.95


class ReadPool:
    """Endpoints of one chain, asked as one. Implements `rpc.reads.Reads`; writes are refused.

    Whatever its endpoints do, a question ends within its deadline.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        background: trio.Nursery,
        *,
        circuits: CircuitRules,
        hedges: HedgeRules,
        deadline_seconds: float,
        on_hedge: Callable[[HedgeSeen], None] | None,
    ) -> None:
        self._board = CircuitBoard(len(endpoints), circuits)
        self._delays = HedgeDelays(hedges)
        self._budget = HedgeBudget(hedges)
        members = [
            GuardedEndpoint(place, endpoint, self._board, Health(), self._delays, self._budget)
            for place, endpoint in enumerate(endpoints)
        ]
        self._roster = Roster(members, self._board)
        self._background = background
        self._shared = SharedQuestions(background)
        self._deadline_seconds = deadline_seconds
        self._on_hedge = on_hedge

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        urls: Sequence[str],
        *,
        chain_id: int,
        cooldown_milliseconds: int = 30_000,
        deadline_seconds: float = 10,
        head_poll_seconds: float | None = 4,
        hedges: HedgeRules | None = None,
        in_flight_max: int = 32,
        batch_items_max: int = 50,
        body_bytes_max: int = BODY_BYTES_MAX,
        observer: Callable[[Observation], None] | None = None,
        on_hedge: Callable[[HedgeSeen], None] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> AsyncGenerator[ReadPool]:
        """A pool over `urls`, best known first. It waits for none of them: one that is down is admitted when it is up.

        `cooldown_milliseconds`: how long an endpoint that failed is left alone. `deadline_seconds`: for each `ask` and
        each `ask_many` as a whole. `head_poll_seconds`: how often each endpoint is asked for its head, about the
        chain's block time; None for never, and then a circuit waits for a caller to be probed. `in_flight_max`,
        `batch_items_max`, `body_bytes_max`, `tls`: of each endpoint, see Endpoint.open. `observer` hears of every
        question to an endpoint, `on_hedge` of every race that had a hedge.

        Raises ValueError without a URL, EndpointUrlRefused for one that cannot be used.
        """
        if not urls:
            raise ValueError("a pool needs at least one URL: give it RPC_READ_URLS")
        async with AsyncExitStack() as opened:
            endpoints = [
                await opened.enter_async_context(
                    Endpoint.open(
                        url,
                        chain_id=chain_id,
                        deadline_seconds=deadline_seconds,
                        body_bytes_max=body_bytes_max,
                        batch_items_max=batch_items_max,
                        in_flight_max=in_flight_max,
                        number=number,
                        observer=observer,
                        tls=tls,
                    )
                )
                for url, number in _numbers(urls)
            ]
            with unwrapped():
                async with trio.open_nursery() as background:
                    pool = cls(
                        endpoints,
                        background,
                        circuits=CircuitRules(cooldown_milliseconds / 1000),
                        hedges=hedges or HedgeRules(),
                        deadline_seconds=deadline_seconds,
                        on_hedge=on_hedge,
                    )
                    pool.watch_heads(head_poll_seconds)
                    yield pool
                    background.cancel_scope.cancel()

    @property
    def members(self) -> Sequence[Member]:
        """The endpoints in the order they were given, for whoever must ask each of them."""
        return self._roster.members

    async def ask(self, call: Call[T]) -> T:
        """The first valid answer.

        Raises:
            ValueError: a write. It goes through the one endpoint for writes (RPC-1).
            RpcRefused: an endpoint refused, and no other would have done better; Reverted: the EVM did.
            EndpointFault: no endpoint gave an answer within the deadline.
        """
        _refuse_write(call)
        return await self._shared.ask(call, self._ask)

    async def ask_many(self, calls: Sequence[Call[T]]) -> list[T | RpcError]:
        """The answers in the order asked; where no endpoint had one, the most telling error in its place.

        The best endpoint is asked for all; what it could not tell goes to the next, and so on. Raises ValueError for
        a write.
        """
        for call in calls:
            _refuse_write(call)
        if not calls:
            return []
        # One order for all: split over several endpoints, one batch would speak of several heads.
        hardest = max(calls, key=lambda call: METHOD_CLASSES.index(traits_of(call.method).work))
        now = trio.current_time()
        self._budget.sent()
        members = self._roster.in_order(hardest.method, now)
        return await BatchOverMembers(calls, members, now + self._deadline_seconds).run()

    def status(self) -> Sequence[MemberStatus]:
        """How every endpoint stands now, in the order they were given."""
        return self._roster.status(trio.current_time())

    def quantile_seconds(self, method: str, share: float) -> float | None:
        """How long that share of the recent answers took at most, over all endpoints; None while there are none."""
        return self._delays.quantile(method, share)

    def note_dissent(self, shown: str) -> None:
        """A quorum decided against what the member of this name said. For a while it is asked later than others."""
        self._doubt(shown, DISSENT_DOUBT)

    def note_lie(self, shown: str) -> None:
        """A proof refuted what the member of this name said."""
        self._doubt(shown, LIE_DOUBT)

    def _doubt(self, shown: str, weight: float) -> None:
        for member in self._roster.members:
            if member.shown == shown:
                member.dissents += 1
                member.health.doubt.add(weight, trio.current_time())

    def watch_heads(self, period_seconds: float | None) -> None:
        """Ask every endpoint for its head from now on. Its circuit is probed so too, at nobody's cost."""
        if period_seconds is None:
            return
        for member in self._roster.members:
            look = partial(self._look, member, period_seconds)
            task = partial(every, period_seconds, look, jitter=0.2)
            self._background.start_soon(task, name=f"head of {member.shown}")

    async def _look(self, member: GuardedEndpoint, period_seconds: float) -> None:
        try:
            member.health.head = await member.ask(methods.block_number(), max(period_seconds, 1.0))
        except RpcError:
            # Its circuit and its score have it; there is nobody to tell.
            member.health.head = None

    async def _ask(self, call: Call[T]) -> T:
        traits = traits_of(call.method)
        now = trio.current_time()
        contenders = self._roster.in_order(call.method, now)
        deadline = now + self._deadline_seconds
        tries = _TRIES_IN_DEADLINE[traits.work]
        race = Race(
            call,
            contenders,
            patience_seconds=lambda left: _PATIENCE * (deadline - trio.current_time()) / min(left + 1, tries),
            hedge_seconds=self._delays.seconds(call.method, now) if traits.may_hedge else None,
            may_hedge=lambda: self._may_hedge(traits.work),
        )
        self._budget.sent()
        try:
            with trio.move_on_at(deadline):
                value = await race.run()
                self._probe_beside(call)
                return value
        finally:
            self._learn(race)
        late = EndpointFault(contenders[0].shown, DeadlinePassed(self._deadline_seconds, "endpoints"), call.method)
        raise most_telling([*race.errors, late])

    def _probe_beside(self, call: Call[T]) -> None:
        """Ask an endpoint that may be back the same question beside: its answer decides, and the caller waits for none.

        Only once the caller has his answer: had every live endpoint failed, the probe would have been his last hope.
        """
        for member in self._roster.waiting_for_probe(traits_of(call.method).work, trio.current_time()):
            self._background.start_soon(self._probe, member, call, name=f"probe of {member.shown}")

    async def _probe(self, member: GuardedEndpoint, call: Call[object]) -> None:
        try:
            await member.ask(call, self._deadline_seconds)
        except RpcError:
            # Its circuit has it.
            return

    def _may_hedge(self, work: MethodClass) -> bool:
        now = trio.current_time()
        return self._budget.take(now, is_strained=self._board.any_open(work, now))

    def _learn(self, race: Race[T]) -> None:
        """What a race taught that no single leg could know: who was overtaken."""
        winner, hedge = race.winner, race.hedge
        if hedge is not None:
            first = race.legs[race.legs.index(hedge) - 1].member
            first.hedges_fired += 1
            hedge.member.hedges_won += hedge is winner
            if self._on_hedge is not None:
                self._on_hedge(HedgeSeen(race.call.method, first.shown, hedge.member.shown, won=hedge is winner))
        if winner is None:
            return
        for leg in race.legs:
            if not leg.has_ended and leg.started <= winner.started:
                leg.member.overtaken(race.call.method, trio.current_time() - leg.started)


def _numbers(urls: Sequence[str]) -> list[tuple[str, int]]:
    """Each URL with its number among those that are shown alike."""
    seen: Counter[str] = Counter()
    numbers: list[tuple[str, int]] = []
    for url in urls:
        seen[shown_url(url)] += 1
        numbers.append((url, seen[shown_url(url)]))
    return numbers


def _refuse_write(call: Call[object]) -> None:
    if call.is_write:
        raise ValueError(f"{call.method} is a write: ask it of the endpoint for writes, never of a pool")
