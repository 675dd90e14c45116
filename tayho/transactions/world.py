"""Is the chain behind the URLs the one that the journal is about: looked at before anything is sent (TX-14)."""

from __future__ import annotations

from collections.abc import Sequence

import structlog
import trio

from rpc.truth import ChainTruth
from rpc.values import Header
from storage.database import Database
from tayho.contracts.coordination import Coordination
from tayho.kernel.address import Address
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.halts import Halts
from tayho.transactions.lanes import lanes_of_pool
from tayho.transactions.types import HaltKind, TransactionSettings
from tayho.transactions.world_rules import (
    Anchor,
    LaneNonces,
    Ours,
    WorldVerdict,
    Wrong,
    ahead_verdict,
    world_verdict,
)

log = structlog.get_logger("tayho.world")

# Longer than two heartbeats of a process that lives.
PROOF_SECONDS = 12
PROOF_LOOK_SECONDS = 0.25

# These two rest on the anchor alone: they end by themselves when it is in the chain again.
_OF_THE_ANCHOR: frozenset[HaltKind] = frozenset({"chain_reset", "chain_unknown"})


class World:
    """The pool's anchor against the chain, at start and before each tick; the fences against it at start."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        truth: ChainTruth,
        halts: Halts,
        settings: TransactionSettings,
        *,
        proof_seconds: float = PROOF_SECONDS,
    ) -> None:
        """`proof_seconds`: how long another process is waited for to say that it lives, where that decides."""
        self._proof_seconds = proof_seconds
        self._database = database
        self._coordination = coordination
        self._truth = truth
        self._halts = halts
        self._settings = settings

    async def at_start(self, fresh: frozenset[Address] = frozenset()) -> None:
        """Judge before this process takes any work; a wrong world halts the pool. Raises RpcError, StorageError.

        The lanes are registered; `fresh` were so just now, by one node's word, and have no past to be compared.
        RpcError also where a lane's nonce is not agreed: unseen is not proven right.
        """
        await self.check()
        if await self._halts.look():
            return
        head = await self._truth.heads.head()
        await self.step(head)
        known = [lane for lane in await self._nonces(head) if lane.signer not in fresh]
        verdict = ahead_verdict(known)
        if isinstance(verdict, Wrong) and not await self._others_beat():
            await self._halts.raise_halt(verdict.kind, verdict.evidence)

    async def _others_beat(self) -> bool:
        """Whether another process of the role says that it lives, now: what it said before is in a backup too."""
        began = trio.current_time()
        with trio.move_on_after(self._proof_seconds):
            while True:
                for one in await self._coordination.live_workers():
                    is_heard_now = one.heartbeat_age_seconds < trio.current_time() - began
                    if is_heard_now and self._settings.role in one.roles:
                        return True
                await trio.sleep(PROOF_LOOK_SECONDS)
        return False

    async def check(self) -> None:
        """Compare the anchor: halt the pool where another block is there, and end such a halt where it is again.

        Raises StorageError. What no majority tells changes nothing.
        """
        anchor = await self.anchor()
        if anchor is None:
            return
        verdict = await self._verdict(anchor)
        if isinstance(verdict, Wrong):
            await self._halts.raise_halt(verdict.kind, verdict.evidence)
        elif isinstance(verdict, Ours):
            for halt in await self._halts.look():
                if halt.kind in _OF_THE_ANCHOR:
                    await self._halts.resolve(halt.halt_id, "gone", self._settings.instance_id)

    async def step(self, head: Header) -> None:
        """Note a deeper anchor where the chain has grown, or the first one. Raises RpcError, StorageError."""
        settings = self._settings
        anchor = await self.anchor()
        deep = max(head.number - settings.reorg_lookback_blocks, 0)
        # Twice as deep at most: so the row is written once in so many blocks, by whoever comes first.
        if anchor is not None and deep < anchor.block_number + max(settings.reorg_lookback_blocks, 1):
            return
        header = await self._truth.heads.header_at(deep)
        if header is None:
            return
        async with self._database.connection() as connection:
            await store.RAISE_ANCHOR(
                connection, settings.chain_id, settings.environment, settings.role, header.number, header.hash
            )
        step("world.after_anchor")

    async def anchor(self) -> Anchor | None:
        """The block by which this pool knows its chain; None until the first start has noted one."""
        settings = self._settings
        async with self._database.connection() as connection:
            row = await store.ANCHOR(connection, settings.chain_id, settings.environment, settings.role)
        return None if row is None else Anchor(row["anchor_block_number"], row["anchor_block_hash"])

    async def _verdict(self, anchor: Anchor) -> WorldVerdict:
        found = await self._truth.hashes_now([anchor.block_number])
        verdict = world_verdict(anchor, found)
        if not isinstance(verdict, Wrong):
            return verdict
        # Only now the nonces, which tell a new beginning from another chain; a look without them still halts.
        return world_verdict(anchor, found, await self._nonces_now())

    async def _nonces_now(self) -> list[LaneNonces]:
        lanes = await lanes_of_pool(self._database, self._settings)
        pending = await self._truth.pending_nonces([lane.signer.value for lane in lanes])
        return [LaneNonces(lane.signer, lane.next_nonce, pending.get(lane.signer.value)) for lane in lanes]

    async def _nonces(self, head: Header) -> Sequence[LaneNonces]:
        lanes = await lanes_of_pool(self._database, self._settings)
        sight = await self._truth.accounts([lane.signer.value for lane in lanes], head, depth=0)
        missing = [lane for lane in lanes if lane.signer.value not in sight.nonces]
        if missing:
            raise sight.failures[0]
        return [LaneNonces(lane.signer, lane.next_nonce, sight.nonces[lane.signer.value]) for lane in lanes]
