"""Gauges read from their sources before a scrape: cheap questions, each of which may fail alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from attrs import frozen

from rpc.member_status import MemberStatus
from storage.errors import StorageError
from tayho.coordination.types import Backlog, RoleAges
from tayho.intents.types import LineLook
from tayho.observability import Metrics
from tayho.observability.transaction_instruments import LaneGauges
from tayho.transactions.module import LaneLine, PoolLook
from tayho.transactions.types import Halt, LaneStatus


class Pool(Protocol):
    """What is looked at of the database."""

    @property
    def pool_size(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def idle(self) -> int: ...


@frozen
class Lanes:
    """What a signing process asks of its pool."""

    lanes: Callable[[], Awaitable[Sequence[LaneStatus]]]
    open_lineages: Callable[[], Awaitable[int]]
    halts: Callable[[], Awaitable[Sequence[Halt]]]
    # The lanes with what only a person or a scrape asks for, and the open lineages by state and hold.
    pool: Callable[[], Awaitable[PoolLook]] | None = None


@frozen
class Gauges:
    """The sources, and the instruments that show them."""

    metrics: Metrics
    pool: Pool
    is_draining: Callable[[], bool]
    backlog: Callable[[], Awaitable[Backlog]]
    ages: Callable[[], Awaitable[Sequence[RoleAges]]]
    endpoints: Callable[[], Sequence[MemberStatus]]
    # None where no role signs.
    lanes: Lanes | None
    # None where no intents are relayed.
    line: Callable[[], Awaitable[LineLook]] | None = None

    async def refresh(self) -> None:
        """Bring every gauge up to date. A source that is away makes its gauges NaN, and a gauge of its own 1."""
        self.metrics.show_draining(draining=self.is_draining())
        self.metrics.show_database_pool(size_max=self.pool.pool_size, open_now=self.pool.size, idle=self.pool.idle)
        self.metrics.show_endpoints(self.endpoints())
        await self._refresh("outbox", self._outbox, self.metrics.forget_outbox)
        await self._refresh("ages", self._ages, self.metrics.forget_ages)
        if self.lanes is not None:
            await self._refresh("lanes", self._lanes, self._forget_lanes)
        if self.line is not None:
            await self._refresh("line", self._line, self.metrics.intents.forget_line)

    async def _refresh(self, source: str, read: Callable[[], Awaitable[None]], forget: Callable[[], None]) -> None:
        fresh = False
        try:
            await read()
            fresh = True
        except StorageError:
            # Told by the gauge; the reason stands in /readyz and in the log of whoever works with the source.
            pass
        finally:
            # Also where a deadline cut the question off: an old value must not pass for a present one.
            if not fresh:
                forget()
            self.metrics.show_refreshed(source, failed=not fresh)

    async def _outbox(self) -> None:
        backlog = await self.backlog()
        self.metrics.show_outbox(
            rows=backlog.rows, unpublished=backlog.unpublished, oldest_due_seconds=backlog.oldest_due_seconds
        )

    async def _ages(self) -> None:
        ages = await self.ages()
        self.metrics.show_ages((one.role, one.waiting_seconds, one.running_seconds) for one in ages)

    async def _lanes(self) -> None:
        if self.lanes is None:
            return
        lanes = await self.lanes.lanes()
        open_lineages = await self.lanes.open_lineages()
        halts = await self.lanes.halts()
        self.metrics.forget_lanes()
        for lane in lanes:
            self.metrics.show_lane(lane.signer, in_flight=lane.in_flight, next_nonce=lane.next_nonce, state=lane.state)
        self.metrics.show_lineages_open(open_lineages)
        self.metrics.show_halts_open(len(halts))
        if self.lanes.pool is not None:
            found = await self.lanes.pool()
            self.metrics.transactions.show({lane.signer: _gauges_of(lane) for lane in found.lanes}, found.lineages)

    async def _line(self) -> None:
        if self.line is not None:
            found = await self.line()
            self.metrics.intents.show_line(waiting=found.waiting, oldest_seconds=found.oldest_seconds)

    def _forget_lanes(self) -> None:
        self.metrics.forget_lanes()
        self.metrics.forget_lineages()
        self.metrics.forget_halts()
        self.metrics.transactions.forget()


def _gauges_of(lane: LaneLine) -> LaneGauges:
    return LaneGauges(
        latest_nonce=lane.latest_nonce,
        pending_nonce=lane.pending_nonce,
        balance_wei=lane.balance_wei,
        held=lane.held,
        oldest_open_seconds=lane.oldest_open_seconds,
    )
