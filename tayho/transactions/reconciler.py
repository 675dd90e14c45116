"""The reconciler: finds out what became of every open lineage, and ends it when the chain has (TX-5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import TypeAlias
from uuid import UUID

import structlog

from rpc.errors import FinalityViolated, RpcError, RpcRefused
from rpc.truth import ChainTruth, Sight
from rpc.values import Header
from storage.database import Connection, Database, Row
from storage.errors import StorageError
from tayho.contracts.coordination import Coordination, Settlement
from tayho.contracts.custody import Custody, CustodyError
from tayho.kernel.address import Address
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.answers import release_included, tell
from tayho.transactions.errors import LineageDrifted, NoLongerUnsigned, PoolHalted, TransactionError
from tayho.transactions.evidence import EvidenceKeeper
from tayho.transactions.executor import Executor
from tayho.transactions.halts import held_unhalted
from tayho.transactions.observing import observe_no_seconds, observe_nothing
from tayho.transactions.reconcile_rules import (
    Decision,
    OpenLineage,
    Resend,
    decide,
    inclusion_changes,
    view_of,
)
from tayho.transactions.resending import Resending
from tayho.transactions.results import Judged, Results, SettlementRefused, detail_of
from tayho.transactions.sending import Sending
from tayho.transactions.types import (
    Final,
    Happening,
    Lineage,
    Observe,
    ObserveSeconds,
    Persistence,
    Stage,
    TransactionSettings,
    WouldRevert,
)

log = structlog.get_logger("tayho.reconciler")

# What else a tick does, each at the agreed head: watch lanes, find reorganisations, replace fees.
Step: TypeAlias = Callable[[Header], Awaitable[None]]

CLAIM_MAX = 1_000


class Reconciler:
    """Looks after the open lineages of one pool. Every signing process runs one; they share by `check_at`."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        custody: Custody,
        truth: ChainTruth,
        sending: Sending,
        executor: Executor,
        settings: TransactionSettings,
        steps: Sequence[Step] = (),
        results: Results | None = None,
        observe: Observe = observe_nothing,
        observe_seconds: ObserveSeconds = observe_no_seconds,
    ) -> None:
        """`steps` come after the open lineages at every tick, in their order, each told the head.

        Without `results` no kind is asked, and what needs a result is held.
        """
        self._database = database
        self._coordination = coordination
        self._truth = truth
        self._resending = Resending(database, custody, sending, settings, observe, observe_seconds)
        self._executor = executor
        self._settings = settings
        self._evidence = EvidenceKeeper(database, truth, settings, observe)
        self._steps = tuple(steps)
        self._observe = observe
        self._observe_seconds = observe_seconds
        self._results = results or Results(database, coordination, (), settings.instance_id, observe)

    async def tick(self) -> bool:
        """Look at what is due, then take each step; True if more lineages are due. Raises RpcError, StorageError.

        While a halt of the pool is open it does nothing but look whether it still is.
        """
        if await self._executor.halts.look():
            return False
        await self._sign_fillers()
        has_more, failed = False, None
        try:
            has_more = await self._reconcile_due()
        except RpcError as error:
            failed = error
        # Also after a failure: why nothing could be agreed is wanted most while nothing is.
        await self._evidence.turn()
        if failed is not None:
            raise failed
        if self._steps:
            await self._take_steps(await self._truth.heads.head())
        return has_more

    async def _take_steps(self, head: Header) -> None:
        """Each step by itself: what cannot be agreed for one must not keep the others from their work.

        But nothing more is done on a chain that is not ours any more. Raises the first of the steps' errors.
        """
        failed: RpcError | StorageError | TransactionError | None = None
        for each in self._steps:
            try:
                await each(head)
            except (FinalityViolated, PoolHalted):
                raise
            except (RpcError, StorageError, TransactionError) as error:
                failed = failed or error
        if failed is not None:
            raise failed

    async def _reconcile_due(self) -> bool:
        lineages = await self._claim()
        if not lineages:
            return False
        step("reconcile.after_claim")
        sight = await self._look(lineages)
        view = view_of(sight)
        decisions = [decide(lineage, view, self._settings.confirmations) for lineage in lineages]
        await self._finalise(lineages, decisions, sight)
        await self._note_inclusions(lineages, decisions)
        await self._resend(lineages, decisions, sight)
        self._executor.room_made()
        return len(lineages) == CLAIM_MAX

    async def _claim(self) -> list[OpenLineage]:
        settings = self._settings
        async with self._database.connection() as connection:
            rows = await store.CLAIM_OPEN(
                connection,
                settings.chain_id,
                settings.environment,
                settings.role,
                CLAIM_MAX,
                float(settings.reconcile_seconds),
            )
        return [
            OpenLineage(
                lineage_id=first["lineage_id"],
                purpose=first["purpose"],
                job_id=first["job_id"],
                signer=Address(first["signer"]),
                nonce=first["nonce"],
                state=first["state"],
                included_block_number=first["included_block_number"],
                is_unwanted=first["is_unwanted"],
                needs_result=first["needs_result"],
                members=tuple(store.open_member_of(row) for row in members),
            )
            for first, members in (
                (group[0], group)
                for group in (list(rows) for _, rows in groupby(rows, key=lambda row: row["lineage_id"]))
            )
        ]

    async def _look(self, lineages: Sequence[OpenLineage]) -> Sight:
        """The chain as a majority of the voters has it. What they do not agree on leaves its own lineages open."""
        hashes = [tx_hash for lineage in lineages for tx_hash in lineage.tx_hashes]
        signers = sorted({lineage.signer for lineage in lineages})
        sight = await self._truth.look(
            hashes,
            [signer.value for signer in signers],
            confirmations=self._settings.confirmations,
            lookback=self._settings.reorg_lookback_blocks,
        )
        if sight.failures:
            log.warning("not_agreed", kinds=len(sight.failures), first=str(sight.failures[0]))
        return sight

    async def _finalise(self, lineages: Sequence[OpenLineage], decisions: Sequence[Decision], sight: Sight) -> None:
        """End what is final and says what it must; hold what does not."""
        finals = [
            (lineage, decision)
            for lineage, decision in zip(lineages, decisions, strict=True)
            if isinstance(decision, Final)
        ]
        if not finals:
            return
        judged, unread = await self._results.read(finals)
        while judged:
            try:
                await self._end(judged, sight)
                break
            except SettlementRefused as refused:
                # Its own lineage is held; the others end without it.
                unread.append(refused.unread)
                judged = [one for one in judged if one.lineage is not refused.unread.lineage]
        await self._results.hold(unread)

    async def _end(self, judged: Sequence[Judged], sight: Sight) -> None:
        """End lineages and jobs together. Jobs are locked first, in the order that every other path locks."""
        async with self._database.transaction() as tx:
            settled = await self._coordination.settle(
                tx, [_settlement(one.lineage.job_id, one) for one in judged if one.lineage.job_id is not None]
            )
            if not await held_unhalted(tx, self._settings):
                raise PoolHalted
            due = [one for one in judged if one.lineage.job_id is None or one.lineage.job_id in settled]
            rows = await self._end_lineages(tx, due, sight.head.number)
            ended = {row["lineage_id"] for row in rows}
            await self._results.settle(tx, [one for one in due if one.lineage.lineage_id in ended])
            await self._evidence.keep_final(
                tx,
                sight,
                {one.lineage.lineage_id: one.final.receipt for one in due if one.lineage.lineage_id in ended},
            )
        step("reconcile.after_finalise")
        for row in rows:
            self._observe(Happening.ENDED, row["state"], 1)
            self._observe_seconds(Stage.FINAL, row["seconds"])
        log.info("lineages_final", lineages=len(rows), head=sight.head.number)

    async def _end_lineages(self, tx: Connection, due: Sequence[Judged], head_block_number: int) -> Sequence[Row]:
        receipts = [one.final.receipt for one in due]
        rows = await store.FINALISE(
            tx,
            [one.lineage.lineage_id for one in due],
            [one.final.tx_hash for one in due],
            [receipt.block_hash for receipt in receipts],
            [receipt.block_number for receipt in receipts],
            [receipt.transaction_index for receipt in receipts],
            [receipt.succeeded for receipt in receipts],
            [receipt.gas_used for receipt in receipts],
            [receipt.effective_gas_price_wei for receipt in receipts],
            head_block_number,
            [one.is_cancelled for one in due],
        )
        # Of a job that goes on without its lineage: to end it with what became of the lineage would be a lie.
        owned = {row["lineage_id"] for row in rows if not row["is_disowned"]}
        drifted = [one.lineage for one in due if one.lineage.job_id is not None and one.lineage.lineage_id not in owned]
        if drifted:
            raise LineageDrifted(f"lineages {[str(lineage.lineage_id) for lineage in drifted]} changed under us")
        return rows

    async def _note_inclusions(self, lineages: Sequence[OpenLineage], decisions: Sequence[Decision]) -> None:
        changes = inclusion_changes(lineages, decisions)
        if not changes:
            return
        async with self._database.transaction() as tx:
            await store.NOTE_INCLUSION(tx, [lineage_id for lineage_id, _ in changes], [number for _, number in changes])
            included = [lineage_id for lineage_id, number in changes if number is not None]
            applied = await release_included(tx, included)
        step("reconcile.after_note")
        tell(applied, (), self._observe, self._observe_seconds)

    async def _resend(self, lineages: Sequence[OpenLineage], decisions: Sequence[Decision], sight: Sight) -> None:
        """Send what no node shows, lowest nonce first: a node may refuse a gap, never the next in line."""
        unseen = {
            decision.tx_hash: lineage
            for lineage, decision in zip(lineages, decisions, strict=True)
            if isinstance(decision, Resend)
        }
        due = await self._resending.due(unseen, sight)
        if not due:
            return
        answered = await self._resending.send(await self._resending.opened(due))
        async with self._database.transaction() as tx:
            applied = await self._resending.record(tx, answered)
        step("reconcile.after_rebroadcast")
        self._resending.tell(applied, answered)
        for one in answered:
            answer = one.answer
            log.info("resent", tx_hash=f"0x{one.tx_hash.hex()}", reason=answer.reason, detail=answer.detail)

    async def _sign_fillers(self) -> None:
        """Sign the fillers that abandoned nonces left behind; the next tick sends them like any signed lineage."""
        settings = self._settings
        async with self._database.connection() as connection:
            rows = await store.CLAIM_FILLERS(
                connection,
                settings.chain_id,
                settings.environment,
                settings.role,
                CLAIM_MAX,
                float(settings.reconcile_seconds),
            )
        step("reconcile.after_filler_claim")
        for row in rows:
            await self._sign_filler(store.lineage_of(row))

    async def _sign_filler(self, lineage: Lineage) -> None:
        """Sign one. What refuses it now (a market above the ceiling, another replica) must not stop the others."""
        bound = log.bind(signer=str(lineage.signer), nonce=lineage.nonce)
        try:
            signed = await self._executor.sign(lineage)
            if isinstance(signed, WouldRevert):
                bound.error("filler_would_revert", reason=signed.reason)
                return
            await self._executor.persistences.submit(Persistence(None, signed))
        except NoLongerUnsigned:
            bound.info("filler_signed_elsewhere")
        except (TransactionError, CustodyError, RpcRefused) as error:
            bound.warning("filler_unsigned", error=str(error))


def _settlement(job_id: UUID, judged: Judged) -> Settlement:
    detail = detail_of(judged)
    if judged.is_cancelled:
        message = "an operator's cancellation was mined at the nonce: the call took no effect"
        return Settlement(job_id, "dead", {"type": "CancelledOnChain", "message": message, **detail})
    if judged.final.receipt.succeeded:
        return Settlement(job_id, "completed", detail)
    return Settlement(
        job_id, "dead", {"type": "RevertedOnChain", "message": "the transaction was mined and reverted", **detail}
    )
