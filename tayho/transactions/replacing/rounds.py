"""Replacement at the same nonce: higher fees for what is stuck, and an operator's cancellation (TX-7, TX-10)."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from rpc import methods
from rpc.reads import Call as Question
from rpc.reads import Reads
from rpc.truth import ChainTruth
from rpc.values import Header, Transaction
from storage.commits import again_if_lost
from storage.database import Database
from tayho.contracts.coordination import Coordination
from tayho.contracts.custody import Custody
from tayho.kernel.address import Address
from tayho.kernel.opaque import Opaque
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.errors import PoolHalted
from tayho.transactions.fee_market import FeeMarket
from tayho.transactions.halts import held_unhalted
from tayho.transactions.observing import observe_no_seconds, observe_nothing
from tayho.transactions.replacing.cancelling import cancel_unsigned
from tayho.transactions.replacing.rules import decide, underpriced
from tayho.transactions.replacing.signing import sign_renewals
from tayho.transactions.replacing.types import Candidate, Keep, Limits, Release, Renewal, Replace, Sight
from tayho.transactions.resending import Resending
from tayho.transactions.sending import Sending
from tayho.transactions.types import (
    Fee,
    Happening,
    Lineage,
    Observe,
    ObserveSeconds,
    Outgoing,
    TransactionSettings,
)

log = structlog.get_logger("tayho.replacing")

CANDIDATES_MAX = 500


class Replacing:
    """Replaces what is stuck in one pool. Every replica does it at each tick: the journal takes one of two.

    Nothing leaves the nonce of its lineage, whatever a node answers: a replacement that comes too late is harmless.
    """

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        custody: Custody,
        truth: ChainTruth,
        reads: Reads,
        fee_market: FeeMarket,
        sending: Sending,
        settings: TransactionSettings,
        observe: Observe = observe_nothing,
        observe_seconds: ObserveSeconds = observe_no_seconds,
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._custody = custody
        self._truth = truth
        self._reads = reads
        self._fee_market = fee_market
        self._resending = Resending(database, custody, sending, settings, observe, observe_seconds)
        self._settings = settings
        self._observe = observe
        self._limits = Limits(settings.fee_bump_basis_points, settings.fee_wei_max, settings.replacements_max)

    async def step(self, head: Header) -> None:
        """One round over the pool, in a few requests however many lanes there are.

        Raises RpcError, StorageError, PoolHalted, MarketAbsurd.
        """
        unsigned, candidates = await self._candidates()
        for lineage in unsigned:
            await cancel_unsigned(self._database, self._coordination, self._settings, lineage)
        if not candidates:
            return
        sight = await self._look(candidates, head)
        decided = [(candidate, decide(candidate, sight, self._limits)) for candidate in candidates]
        await self._change_holds([(one, act) for one, act in decided if isinstance(act, (Keep, Release))])
        renewals = await sign_renewals(
            self._custody, self._reads, [(one, act) for one, act in decided if isinstance(act, Replace)], head
        )
        if renewals:
            step("replace.after_sign")
            await self._send(await again_if_lost(lambda: self._persist(renewals)))

    async def _candidates(self) -> tuple[list[Lineage], list[Candidate]]:
        """The allocations whose end an operator wishes, and the signed lineages that may want another transaction."""
        settings = self._settings
        async with self._database.connection() as connection:
            rows = await store.WANTING_REPLACEMENT(
                connection,
                settings.chain_id,
                settings.environment,
                settings.role,
                float(settings.stuck_seconds),
                CANDIDATES_MAX,
            )
        unsigned = [store.lineage_of(row) for row in rows if row["state"] == "allocated"]
        return unsigned, [store.candidate_of(row) for row in rows if row["state"] != "allocated"]

    async def _look(self, candidates: Sequence[Candidate], head: Header) -> Sight:
        """What a majority has of every member and of the nonces: a nonce that may be used is never signed again."""
        hashes = [tx_hash for one in candidates for tx_hash in one.tx_hashes]
        signers = sorted({one.lineage.signer for one in candidates})
        settings = self._settings
        seen = await self._truth.look(
            hashes,
            [signer.value for signer in signers],
            confirmations=settings.confirmations,
            lookback=settings.reorg_lookback_blocks,
            head=head,
        )
        return Sight(
            market=await self._fee_market.at(head),
            receipts=seen.receipts,
            nonces={Address(account): nonce for account, nonce in seen.nonces.items()},
            incumbents=await self._incumbents(underpriced(candidates)),
        )

    async def _incumbents(self, refused: Sequence[Candidate]) -> dict[bytes, Fee]:
        """What sits at the nonces, by the active hash, where a node shows it. One node's word: it may cost us the
        ceiling, and no more."""
        questions: list[Question[Transaction | None]] = []
        owners: list[Candidate] = []
        for one in refused:
            about = [methods.transaction_of_sender(one.lineage.signer.value, one.lineage.nonce)]
            about += [methods.transaction_by_hash(tx_hash) for tx_hash in one.tx_hashes]
            questions += about
            owners += [one] * len(about)
        found: dict[bytes, Fee] = {}
        for one, answer in zip(owners, await self._reads.ask_many(questions) if questions else (), strict=True):
            if isinstance(answer, Transaction) and answer.is_pending:
                found.setdefault(one.active.tx_hash, _fee_of(answer))
        return found

    async def _change_holds(self, changes: Sequence[tuple[Candidate, Keep | Release]]) -> None:
        if not changes:
            return
        async with self._database.connection() as connection:
            rows = await store.CHANGE_HOLDS(
                connection,
                [one.lineage.lineage_id for one, _ in changes],
                [one.hold for one, _ in changes],
                [act.hold if isinstance(act, Keep) else None for _, act in changes],
                [act.reason for _, act in changes],
                [isinstance(act, Keep) and act.pays_the_market for _, act in changes],
            )
        step("hold.after_change")
        changed = {row["lineage_id"] for row in rows}
        for one, act in changes:
            if one.lineage.lineage_id not in changed:
                continue
            bound = log.bind(lineage_id=str(one.lineage.lineage_id), signer=str(one.lineage.signer))
            what = Happening.HELD if isinstance(act, Keep) else Happening.RELEASED
            self._observe(what, act.hold if isinstance(act, Keep) else str(one.hold), 1)
            if isinstance(act, Keep):
                bound.warning("lineage_held", nonce=one.lineage.nonce, hold=act.hold, reason=act.reason)
            else:
                bound.info("lineage_released", nonce=one.lineage.nonce, hold=one.hold, reason=act.reason)

    async def _persist(self, renewals: Sequence[Renewal]) -> list[Renewal]:
        """Write the signed bytes of each whose member number is still free; the others were replaced elsewhere (I4)."""
        members = [renewal.member for renewal in renewals]
        async with self._database.transaction() as tx:
            if not await held_unhalted(tx, self._settings):
                raise PoolHalted
            await store.PERMIT_REPLACE(tx)
            await store.LOCK_REPLACEABLE(tx, [member.lineage.lineage_id for member in members])
            rows = await store.PERSIST_REPLACEMENTS(
                tx,
                [member.lineage.lineage_id for member in members],
                [renewal.candidate.active.member_number + 1 for renewal in renewals],
                [member.tx_hash for member in members],
                [member.transaction_type for member in members],
                [member.is_cancellation for member in members],
                [member.gas_limit for member in members],
                [member.fee.max_fee_per_gas_wei for member in members],
                [member.fee.max_priority_fee_per_gas_wei for member in members],
                [member.key_id for member in members],
                [member.cipher_nonce for member in members],
                [member.ciphertext for member in members],
                [renewal.cause for renewal in renewals],
                float(self._settings.reconcile_seconds),
            )
        step("replace.after_persist")
        written = {row["lineage_id"] for row in rows}
        for renewal in renewals:
            is_ours = renewal.member.lineage.lineage_id in written
            self._observe(Happening.REPLACED, renewal.cause, int(is_ours))
            log.info(
                "lineage_replaced" if is_ours else "replaced_elsewhere",
                lineage_id=str(renewal.member.lineage.lineage_id),
                nonce=renewal.member.lineage.nonce,
                cause=renewal.cause,
                replaces=f"0x{renewal.candidate.active.tx_hash.hex()}",
                tx_hash=f"0x{renewal.member.tx_hash.hex()}",
                max_fee_per_gas_wei=renewal.member.fee.max_fee_per_gas_wei,
            )
        return [renewal for renewal in renewals if renewal.member.lineage.lineage_id in written]

    async def _send(self, renewals: Sequence[Renewal]) -> None:
        """Send the new bytes; where a node refuses them, the old ones again: one of both must be in a pool (TX-7)."""
        new = [_outgoing(one.member.tx_hash, one.member.lineage, one.member.raw) for one in renewals]
        answered = await self._resending.send(new)
        refused = {one.tx_hash for one in answered if one.answer.kind == "refused"}
        replaced = [one.candidate.active.tx_hash for one in renewals if one.member.tx_hash in refused]
        old = await self._resending.send(await self._resending.opened(replaced))
        # Of two members' words the newer one's holds, so it comes last.
        told = [*old, *answered]
        async with self._database.transaction() as tx:
            applied = await self._resending.record(tx, told)
        step("replace.after_send")
        self._resending.tell(applied, told)


def _outgoing(tx_hash: bytes, lineage: Lineage, raw: Opaque) -> Outgoing:
    return Outgoing(tx_hash, lineage.signer, lineage.nonce, raw)


def _fee_of(transaction: Transaction) -> Fee:
    price_wei = transaction.gas_price_wei or 0
    max_fee_wei, tip_wei = transaction.max_fee_per_gas_wei, transaction.max_priority_fee_per_gas_wei
    return Fee(price_wei if max_fee_wei is None else max_fee_wei, price_wei if tip_wei is None else tip_wei)
