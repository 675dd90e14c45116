"""Blocked lanes: a signer without its role on the chain, found by one attempt and tried again by later ones (TX-9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import structlog
import trio

from storage.commits import again_if_lost
from storage.database import Database
from tayho.contracts.coordination import Coordination
from tayho.kernel.address import Address
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, StaleAttempt
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.fillers import filler_call_hash
from tayho.transactions.lane_watch import lock_unhalted_pool, record_findings
from tayho.transactions.types import Finding, Lineage, Simulated, TransactionSettings, WouldRevert

log = structlog.get_logger("tayho.lanes")

PROBE_SECONDS = 60


class BlockedLanes:
    """Closes a lane whose signer may not do what another signer may, and opens it when it may."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        settings: TransactionSettings,
        signers: Sequence[Address],
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._settings = settings
        self._signers = frozenset(signers)
        self.next_probe_at = float("-inf")

    async def block(self, attempt: Attempt, lineage: Lineage, reason: str) -> None:
        """Close the lineage's lane, give its unsigned nonce up, and leave the attempt without one: all or nothing.

        Raises StaleAttempt, PoolHalted, StorageError.
        """
        await again_if_lost(lambda: self._block_in_one(attempt, lineage, reason))

    async def reopen_where(self, simulate: Callable[[Address], Awaitable[Simulated | WouldRevert]]) -> None:
        """Try a blocked signer of ours with the call at hand, at most once a minute; one that may now is open again.

        Raises what `simulate` raises.
        """
        now = trio.current_time()
        if now < self.next_probe_at or len(self._signers) < 2:
            return
        self.next_probe_at = now + PROBE_SECONDS
        settings = self._settings
        async with self._database.connection() as connection:
            rows = await store.BLOCKED_LANES(connection, settings.chain_id, settings.environment, settings.role)
        for signer in (Address(row["signer"]) for row in rows):
            if signer in self._signers and isinstance(await simulate(signer), Simulated):
                await self._reopen(signer)

    async def _reopen(self, signer: Address) -> None:
        settings = self._settings
        async with self._database.transaction() as tx:
            if await store.REOPEN_BLOCKED(tx, settings.chain_id, signer.value):
                await record_findings(tx, settings, [(signer, Finding("unblocked", {}))])
        step("lane.after_reopen")

    async def _block_in_one(self, attempt: Attempt, lineage: Lineage, reason: str) -> None:
        settings = self._settings
        async with self._database.transaction() as tx:
            if not await self._coordination.let_go_of_lineage_if_current(tx, attempt):
                raise StaleAttempt(attempt)
            await lock_unhalted_pool(tx, settings)
            blocked = await store.BLOCK_LANE(tx, settings.chain_id, lineage.signer.value, reason)
            row = await store.ABANDON_UNSIGNED(
                tx,
                lineage.lineage_id,
                f"its lane is blocked: {reason}",
                new_id(),
                filler_call_hash(lineage.chain_id, lineage.signer),
            )
            if row is None:
                raise StaleAttempt(attempt)
            if blocked:
                await record_findings(tx, settings, [(lineage.signer, Finding("blocked", {"reason": reason}))])
        step("lane.after_block")
