"""The journal: allocate, persist, mark and abandon, each one transaction for many jobs, each fenced (TX-1, TX-2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import structlog
from attrs import evolve

from storage.database import Connection, Database
from tayho.contracts.coordination import Coordination
from tayho.kernel.call_hash import call_hash
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, StaleAttempt
from tayho.kernel.json_document import Json
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.answers import apply_answers, note_answers, tell
from tayho.transactions.errors import LineageDrifted, NoLaneOpen, NoLongerUnsigned, PoolHalted
from tayho.transactions.fillers import filler_call_hash
from tayho.transactions.halts import held_unhalted
from tayho.transactions.observing import observe_no_seconds, observe_nothing
from tayho.transactions.pool_signers import PoolSigners
from tayho.transactions.round_robin import by_preference, choose_lanes
from tayho.transactions.types import (
    Allocation,
    Answered,
    LaneStatus,
    Lineage,
    Mark,
    Observe,
    ObserveSeconds,
    Persistence,
    SignedMember,
    TransactionSettings,
)

log = structlog.get_logger("tayho.transactions")

# As many as a log line shows.
LOGGED_TOGETHER = 100


class Journal:
    """Every change of lanes, lineages and members that an attempt makes."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        settings: TransactionSettings,
        observe: Observe = observe_nothing,
        observe_seconds: ObserveSeconds = observe_no_seconds,
        signers: PoolSigners | None = None,
    ) -> None:
        """`signers` are those whose keys are here: without them every lane of the pool is taken for one."""
        self._signers = signers
        self._database = database
        self._coordination = coordination
        self._settings = settings
        self._observe = observe
        self._observe_seconds = observe_seconds

    async def live_lineage(self, job_id: UUID) -> Lineage | None:
        async with self._database.connection() as connection:
            row = await store.LIVE_OF_JOB(connection, job_id)
        return None if row is None else store.lineage_of(row)

    async def is_taken(self, lineage: Lineage) -> bool:
        """Whether the chain was last seen beyond the lineage's nonce, which nothing of ours was signed for."""
        async with self._database.connection() as connection:
            latest = await store.LATEST_OF_LANE(connection, lineage.chain_id, lineage.signer.value)
        return latest is not None and latest > lineage.nonce

    async def allocate_many(self, allocations: Sequence[Allocation]) -> Sequence[Lineage | Exception]:
        """A lineage for each current attempt that a lane has room for; else StaleAttempt or NoLaneOpen in its place.

        Of a halted pool PoolHalted in every place, and nothing is changed.

        Locks in the order job, pool, lane, like every other path, so that no two of them deadlock.
        """
        settings = self._settings
        async with self._database.transaction() as tx:
            lanes, cursor, is_halted = await self._lock_lanes(tx, allocations)
            if is_halted:
                return [PoolHalted() for _ in allocations]
            signers, moved = choose_lanes(lanes, cursor, settings.lane_depth, len(allocations))
            # The fence is taken only for those that will get a nonce: `has_live_lineage` without one would be a lie.
            served = allocations[: len(signers)]
            signers = by_preference(signers, [one.preferred for one in served])
            held = await self._coordination.hold_for_lineage_if_current(tx, [one.attempt for one in served])
            pairs = [(one, signer) for one, signer in zip(served, signers, strict=True) if one.attempt.job_id in held]
            lineages = {
                one.attempt.job_id: Lineage(
                    lineage_id=new_id(),
                    purpose="call",
                    job_id=one.attempt.job_id,
                    chain_id=settings.chain_id,
                    signer=signer,
                    nonce=-1,
                    call=one.call,
                    call_hash=call_hash(settings.chain_id, one.call.to, one.call.value_wei, one.call.data),
                    state="allocated",
                )
                for one, signer in pairs
            }
            nonces = await self._insert(tx, list(lineages.values()), [one.needs_result for one, _ in pairs])
            if len(nonces) != len(lineages):
                # Without this a job would say that it owns a nonce, and own none.
                raise LineageDrifted("a lane closed under its own lock")
            await store.MOVE_CURSOR(tx, settings.chain_id, settings.environment, settings.role, moved)
        step("journal.after_allocate")
        results: list[Lineage | Exception] = []
        for place, one in enumerate(allocations):
            lineage = lineages.get(one.attempt.job_id)
            if place >= len(served):
                results.append(NoLaneOpen())
            elif lineage is None:
                results.append(StaleAttempt(one.attempt))
            else:
                results.append(evolve(lineage, nonce=nonces[lineage.lineage_id]))
        return results

    async def _lock_lanes(
        self, tx: Connection, allocations: Sequence[Allocation]
    ) -> tuple[list[LaneStatus], int, bool]:
        settings = self._settings
        await self._coordination.lock_if_current(tx, [one.attempt for one in allocations])
        pool = await store.LOCK_POOL(tx, settings.chain_id, settings.environment, settings.role)
        if pool is None:
            return [], 0, False
        await store.LOCK_LANES_OF_POOL(tx, settings.chain_id, settings.environment, settings.role)
        rows = await store.LANES_OF_POOL(tx, settings.chain_id, settings.environment, settings.role)
        lanes = [store.lane_of(row) for row in rows]
        usable = lanes if self._signers is None else self._signers.usable(lanes)
        return usable, pool["cursor_position"], pool["is_halted"]

    async def _insert(
        self, tx: Connection, lineages: Sequence[Lineage], need_results: Sequence[bool]
    ) -> Mapping[UUID, int]:
        if not lineages:
            return {}
        settings = self._settings
        rows = await store.ALLOCATE(
            tx,
            settings.chain_id,
            settings.environment,
            settings.role,
            [lineage.lineage_id for lineage in lineages],
            [lineage.job_id for lineage in lineages],
            [lineage.signer.value for lineage in lineages],
            [lineage.call_hash for lineage in lineages],
            [lineage.call.to.value for lineage in lineages],
            [lineage.call.value_wei for lineage in lineages],
            [lineage.call.data for lineage in lineages],
            [lineage.call.gas_limit_min for lineage in lineages],
            need_results,
        )
        return {row["lineage_id"]: row["nonce"] for row in rows}

    async def persist_many(self, persistences: Sequence[Persistence]) -> Sequence[Exception | None]:
        """Write the signed bytes of each current attempt; StaleAttempt in the place of the others (I4, I6).

        Of a halted pool PoolHalted in every place: the bytes are forgotten, and no node ever has them.
        """
        attempts = [one.attempt for one in persistences if one.attempt is not None]
        async with self._database.transaction() as tx:
            current = await self._coordination.lock_if_current(tx, attempts) if attempts else frozenset[UUID]()
            if not await held_unhalted(tx, self._settings):
                return [PoolHalted() for _ in persistences]
            written = await self._write_members(
                tx, [one.member for one in persistences if one.attempt is None or one.attempt.job_id in current]
            )
        step("journal.after_persist")
        results: list[Exception | None] = []
        for one in persistences:
            if one.member.lineage.lineage_id in written:
                results.append(None)
            else:
                results.append(StaleAttempt(one.attempt) if one.attempt is not None else NoLongerUnsigned())
        return results

    async def _write_members(self, tx: Connection, members: Sequence[SignedMember]) -> frozenset[UUID]:
        if not members:
            return frozenset()
        rows = await store.PERSIST(
            tx,
            [member.lineage.lineage_id for member in members],
            [member.tx_hash for member in members],
            [member.gas_limit for member in members],
            [member.fee.max_fee_per_gas_wei for member in members],
            [member.fee.max_priority_fee_per_gas_wei for member in members],
            [member.key_id for member in members],
            [member.cipher_nonce for member in members],
            [member.ciphertext for member in members],
            float(self._settings.reconcile_seconds),
            [member.transaction_type for member in members],
            [member.is_cancellation for member in members],
        )
        return frozenset(row["lineage_id"] for row in rows)

    async def mark_many(self, marks: Sequence[Mark]) -> Sequence[Exception | None]:
        """Record what the node answered, and end the attempt as `confirming` with it, whatever that was.

        The bytes are in the journal, so they are the reconciler's, which sends them until a receipt ends the lineage:
        another attempt could only send the same bytes, and spend the job's budget on it. StaleAttempt in the place of
        those whose attempt is not current: of them only the answer is kept.
        """
        answered = [Answered(one.tx_hash, one.endpoint, one.answer) for one in marks]
        sent_by = self._settings.instance_id
        async with self._database.transaction() as tx:
            confirmed = await self._coordination.confirm_if_current(tx, [one.attempt for one in marks])
            current = [told for one, told in zip(marks, answered, strict=True) if one.attempt.job_id in confirmed]
            applied = await apply_answers(tx, current, sent_by)
            await note_answers(tx, answered, sent_by)
        step("journal.after_mark")
        tell(applied, answered, self._observe, self._observe_seconds)
        _log_those_out(marks)
        return [None if one.attempt.job_id in confirmed else StaleAttempt(one.attempt) for one in marks]

    async def abandon_unsigned(self, attempt: Attempt, lineage: Lineage, reason: Mapping[str, Json]) -> None:
        """Give an unsigned allocation up: the nonce is released or filled, and the job ends `not_actionable` (TX-3).

        Raises StaleAttempt when the attempt is not current, PoolHalted.
        """
        async with self._database.transaction() as tx:
            if not await self._coordination.release_lineage_if_current(tx, attempt, reason):
                raise StaleAttempt(attempt)
            if not await held_unhalted(tx, self._settings):
                raise PoolHalted
            row = await store.ABANDON_UNSIGNED(
                tx,
                lineage.lineage_id,
                str(reason.get("reason", "")),
                new_id(),
                filler_call_hash(lineage.chain_id, lineage.signer),
            )
            if row is None:
                raise StaleAttempt(attempt)
        step("journal.after_abandon")


def _log_those_out(marks: Sequence[Mark]) -> None:
    """One line for many: a line of its own costs as much as a tenth of a transaction's way through here."""
    sent = [f"{one.attempt.job_id} 0x{one.tx_hash.hex()}" for one in marks if one.answer.is_out]
    for first in range(0, len(sent), LOGGED_TOGETHER):
        together = sent[first : first + LOGGED_TOGETHER]
        log.info("transactions_out", count=len(together), sent=together)
