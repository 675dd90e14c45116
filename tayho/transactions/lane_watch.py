"""The watch over a pool's lanes: what their accounts show, who may take new work, and who else used them (TX-9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from rpc.errors import RpcError
from rpc.truth import AccountsSight, ChainTruth
from rpc.values import Header
from storage.commits import again_if_lost
from storage.database import Connection, Database
from tayho.contracts.coordination import Coordination
from tayho.kernel.address import Address
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.data_fees import DataFees
from tayho.transactions.errors import EstimateAbsurd, LineageDrifted, MarketAbsurd, PoolHalted
from tayho.transactions.halts import Halts
from tayho.transactions.lane_rules import (
    LEAST_NEEDS,
    ROOM_DATA_BYTES,
    AccountView,
    foreign_until,
    forgotten_by_database,
    judge,
    standing_of,
    taken_from_allocated,
)
from tayho.transactions.types import Finding, LaneFacts, TransactionSettings

log = structlog.get_logger("tayho.lanes")

# Pools may lag a moment behind a send; a lost pool is called one only after so many ticks.
POOL_GRACE_TICKS = 2


class LaneWatch:
    """Looks at every lane of the pool at each tick, in a constant number of questions to database and chain."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        truth: ChainTruth,
        halts: Halts,
        settings: TransactionSettings,
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._truth = truth
        self._halts = halts
        self._settings = settings
        # How far this process has itself seen each lane's fence, in each world of the lane.
        self._fences: dict[tuple[Address, int], int] = {}
        self._data_fees = DataFees(truth)
        self._needs = LEAST_NEEDS

    async def step(self, head: Header) -> None:
        """Look at the lanes at the agreed head and act on what is seen. Raises RpcError, StorageError, PoolHalted."""
        facts = await self._read()
        if not facts:
            return
        # No deeper than a reorganisation reaches: a fence that has gone past a nonce never comes back to it.
        depth = max(self._settings.confirmations, self._settings.reorg_lookback_blocks)
        sight = await self._truth.accounts([one.signer.value for one in facts], head, depth=depth)
        if sight.failures:
            log.warning("lanes_not_agreed", kinds=len(sight.failures), first=str(sight.failures[0]))
        views = {one.signer: _view(sight, one.signer) for one in facts}
        await self._halt_if_forgotten(facts, views)
        await self._observe(views)
        await self._ask_needs(facts[0].signer, head)
        await self._change(facts, views)
        await self._pass_foreign(facts, views)

    async def _read(self) -> list[LaneFacts]:
        settings = self._settings
        grace_seconds = float(POOL_GRACE_TICKS * settings.reconcile_seconds)
        async with self._database.connection() as connection:
            rows = await store.LANE_FACTS(
                connection, settings.chain_id, settings.environment, settings.role, grace_seconds
            )
        return [store.lane_facts_of(row) for row in rows]

    async def _halt_if_forgotten(self, facts: Sequence[LaneFacts], views: Mapping[Address, AccountView]) -> None:
        for one in facts:
            fence, place = one.status.next_nonce, (one.signer, one.world)
            seen = self._fences[place] = max(fence, self._fences.get(place, fence))
            latest = views[one.signer].latest_nonce
            if forgotten_by_database(one, views[one.signer], seen):
                evidence = {"signer": str(one.signer), "fence": fence, "latest_nonce": latest, "fence_seen": seen}
                raise PoolHalted(((await self._halts.raise_halt("chain_ahead", evidence)).kind,))

    async def _observe(self, views: Mapping[Address, AccountView]) -> None:
        async with self._database.connection() as connection:
            await store.OBSERVE_LANES(
                connection,
                self._settings.chain_id,
                [signer.value for signer in views],
                [view.latest_nonce for view in views.values()],
                [view.pending_nonce for view in views.values()],
                [view.balance_wei for view in views.values()],
            )
        step("lane.after_observe")

    async def _ask_needs(self, signer: Address, head: Header) -> None:
        """What the chain asks of any lane now. What is not agreed leaves it as it was known, and stops nothing."""
        try:
            self._needs = await self._data_fees.needs(signer, ROOM_DATA_BYTES, head)
        except (RpcError, EstimateAbsurd, MarketAbsurd) as error:
            log.warning("lane_needs_not_agreed", error=str(error))

    async def _change(self, facts: Sequence[LaneFacts], views: Mapping[Address, AccountView]) -> None:
        """Write the new standing of each lane that has one, and its findings, together."""
        decided = [(one, *judge(one, views[one.signer], self._settings.fee_wei_max, self._needs)) for one in facts]
        changed = [(one, standing, found) for one, standing, found in decided if standing != standing_of(one)]
        if not changed:
            return
        standings = [standing for _, standing, _ in changed]
        async with self._database.transaction() as tx:
            rows = await store.CHANGE_LANES_IF_UNCHANGED(
                tx,
                self._settings.chain_id,
                [one.signer.value for one, _, _ in changed],
                [one.status.state for one, _, _ in changed],
                [one.is_low for one, _, _ in changed],
                [one.is_pool_dropped for one, _, _ in changed],
                [one.status.is_delegated for one, _, _ in changed],
                [standing.state for standing in standings],
                [standing.state_reason for standing in standings],
                [standing.is_low for standing in standings],
                [standing.is_pool_dropped for standing in standings],
                [standing.is_delegated for standing in standings],
            )
            ours = {Address(row["signer"]) for row in rows}
            said = [(one.signer, each) for one, _, found in changed if one.signer in ours for each in found]
            await record_findings(tx, self._settings, said)
        step("lane.after_state")

    async def _pass_foreign(self, facts: Sequence[LaneFacts], views: Mapping[Address, AccountView]) -> None:
        """Move fences past what others used for good, and let jobs go whose unsigned nonce was among it."""
        ahead = {one.signer: foreign_until(one, views[one.signer]) for one in facts}
        until = {signer: nonce for signer, nonce in ahead.items() if nonce is not None}
        taken = [one.signer for one in facts if taken_from_allocated(one, views[one.signer])]
        if not until and not taken:
            return
        finals = {signer: views[signer].final_nonce for signer in taken}
        await again_if_lost(lambda: self._pass_in_one(until, finals))

    async def _pass_in_one(self, until: Mapping[Address, int], finals: Mapping[Address, int | None]) -> None:
        settings = self._settings
        async with self._database.transaction() as tx:
            rows = await store.ALLOCATED_BELOW(
                tx, settings.chain_id, [signer.value for signer in finals], list(finals.values())
            )
            reason = "another transaction of the signer used the nonce before anything was signed"
            job_ids = [row["job_id"] for row in rows if row["job_id"] is not None]
            released = await self._coordination.release_lineages(tx, job_ids, reason)
            await lock_unhalted_pool(tx, settings)
            await advance_fences(tx, settings, until)
            due = [row["lineage_id"] for row in rows if row["job_id"] is None or row["job_id"] in released]
            ended = await store.SUPERSEDE_OPEN(tx, due, reason, ["allocated"]) if due else []
            if len({row["lineage_id"] for row in ended}) != len(due):
                # A job that was let go must not own signed bytes.
                raise LineageDrifted("a lineage was signed or ended while its nonce was found used")
        step("lane.after_foreign")


async def lock_unhalted_pool(tx: Connection, settings: TransactionSettings) -> None:
    """Lock the pool against allocations and halts until `tx` ends. Raises PoolHalted."""
    pool = await store.LOCK_POOL(tx, settings.chain_id, settings.environment, settings.role)
    if pool is not None and pool["is_halted"]:
        raise PoolHalted


async def advance_fences(tx: Connection, settings: TransactionSettings, until: Mapping[Address, int]) -> None:
    """Move each fence up to where the chain has come, with a row for each nonce skipped and a finding a lane.

    The caller holds the pool, so that no allocation runs.
    """
    if not until:
        return
    rows = await store.ADVANCE_FENCES(tx, settings.chain_id, [signer.value for signer in until], list(until.values()))
    said = [
        (Address(row["signer"]), Finding("foreign_nonce", {"from": row["fence"], "to": row["until"] - 1}))
        for row in rows
    ]
    await record_findings(tx, settings, said)


async def record_findings(
    tx: Connection, settings: TransactionSettings, said: Sequence[tuple[Address, Finding]]
) -> None:
    """Write findings down and tell them."""
    if not said:
        return
    await store.RECORD_FINDINGS(
        tx,
        settings.chain_id,
        [signer.value for signer, _ in said],
        [finding.kind for _, finding in said],
        [dict(finding.detail) for _, finding in said],
        settings.instance_id,
    )
    for signer, finding in said:
        log.warning("lane_finding", signer=str(signer), kind=finding.kind, **finding.detail)


def _view(sight: AccountsSight, signer: Address) -> AccountView:
    account = signer.value
    return AccountView(
        latest_nonce=sight.nonces.get(account),
        final_nonce=sight.final_nonces.get(account),
        pending_nonce=sight.pending_nonces.get(account),
        balance_wei=sight.balances_wei.get(account),
        code=sight.codes.get(account),
    )
