"""A lane that takes no new nonce: drained, waited for, undrained (OPS-7)."""

from __future__ import annotations

from collections.abc import Callable

import trio

from storage.commits import again_if_lost
from storage.database import Connection, Database
from storage.rows import value_from
from tayho.contracts.coordination import Coordination
from tayho.kernel.address import Address
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.errors import LaneUnknown, SignerRetired
from tayho.transactions.rotating.types import LaneDrained, LaneLeft, LaneNow, LeftLine

LOOK_SECONDS = 1
LINES_MAX = 20


class SignerDrains:
    """The lanes of one (chain, environment), as an operator closes them. Needs a database alone.

    Each may raise LaneUnknown, and StoreUnavailable with nothing done, and CommitUnknown: asking again is right.
    """

    def __init__(self, database: Database, coordination: Coordination, chain_id: int, environment: str) -> None:
        self._database = database
        self._coordination = coordination
        self._chain_id = chain_id
        self._environment = environment

    async def lane(self, signer: Address) -> LaneNow:
        """The lane as it stands. Raises LaneUnknown."""
        async with self._database.connection() as connection:
            return await self._found(connection, signer)

    async def drain(self, signer: Address, actor: str, reason: str) -> LaneDrained:
        """Let no replica take a new nonce of the signer. What is open goes on: sent, bumped, filled, finalised.

        Raises SignerRetired.
        """

        async def once() -> LaneDrained:
            async with self._database.transaction() as tx:
                lane = await self._held(tx, signer)
                if lane.state == "retired":
                    raise SignerRetired(signer)
                is_new = lane.state != "draining"
                if is_new:
                    await self._record(tx, "signer_drain", actor, reason, lane)
                    why = f"drained by {actor}: {reason}" if reason else f"drained by {actor}"
                    await store.DRAIN_LANE(tx, self._chain_id, signer.value, why)
            step("rotation.after_drain")
            return LaneDrained(lane, changed=is_new)

        return await again_if_lost(once)

    async def undrain(self, signer: Address, actor: str, reason: str) -> LaneDrained:
        """Let the lane take nonces again. Raises SignerRetired."""

        async def once() -> LaneDrained:
            async with self._database.transaction() as tx:
                lane = await self._held(tx, signer)
                if lane.state == "retired":
                    raise SignerRetired(signer)
                is_drained = lane.state == "draining"
                if is_drained:
                    await self._record(tx, "signer_undrain", actor, reason, lane)
                    await store.UNDRAIN_LANE(tx, self._chain_id, signer.value)
            step("rotation.after_undrain")
            return LaneDrained(lane, changed=is_drained)

        return await again_if_lost(once)

    async def left(self, signer: Address) -> LaneLeft:
        """What of the lane is not final."""
        async with self._database.connection() as connection:
            rows = await store.LEFT_OF_LANE(connection, self._chain_id, signer.value, LINES_MAX)
        return LaneLeft(rows[0]["lineages"] if rows else 0, tuple(value_from(LeftLine, row) for row in rows))

    async def await_final(
        self, signer: Address, seconds: float, on_look: Callable[[LaneLeft], None] = lambda _: None
    ) -> LaneLeft:
        """What is left once nothing is, or the time is up. `on_look` is told each look."""
        left = await self.left(signer)
        with trio.move_on_after(seconds):
            while left.lineages:
                on_look(left)
                await trio.sleep(LOOK_SECONDS)
                left = await self.left(signer)
        return left

    async def _held(self, tx: Connection, signer: Address) -> LaneNow:
        """The lane, its pool locked against allocations until `tx` ends."""
        lane = await self._found(tx, signer)
        await store.LOCK_POOL(tx, self._chain_id, lane.environment, lane.role)
        return await self._found(tx, signer)

    async def _found(self, connection: Connection, signer: Address) -> LaneNow:
        row = await store.LANE_NOW(connection, self._chain_id, signer.value)
        if row is None or row["environment"] != self._environment:
            raise LaneUnknown(signer)
        return store.lane_now_of(row)

    async def _record(self, tx: Connection, action: str, actor: str, reason: str, lane: LaneNow) -> None:
        detail = {"signer": str(lane.signer), "role": lane.role, "fence": lane.next_nonce, "reason": reason}
        await self._coordination.record_act(tx, action, actor, detail)
