"""One attempt of a job that goes on chain: allocate, sign, persist, broadcast, in that order (TX-2, TX-3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import structlog
import trio

from nursery.coalesce import Coalescer
from rpc import methods
from rpc.gathering import GatheredReads
from rpc.reads import Reads
from storage.commits import isolating
from storage.database import Database
from tayho.contracts.coordination import Coordination
from tayho.contracts.custody import Custody, Reservation, SigningRefused, SigningRequest, UnknownSigner
from tayho.kernel.address import Address
from tayho.kernel.jobs import (
    Attempt,
    Ended,
    Job,
    NotActionable,
    Outcome,
    Postponed,
    RequestRefused,
    StaleAttempt,
)
from tayho.kernel.opaque import Opaque
from tayho.kernel.steps import step
from tayho.kinds import Call, OnChainKind, Revalidation, needs_result, revert_reason_of
from tayho.transactions import store
from tayho.transactions.blocking import BlockedLanes
from tayho.transactions.errors import MarketAboveCeiling, NoLaneOpen, PoolHalted
from tayho.transactions.fee_market import FeeMarket
from tayho.transactions.halts import Halts
from tayho.transactions.journal import Journal
from tayho.transactions.observing import observe_no_seconds, observe_nothing
from tayho.transactions.pool_signers import PoolSigners
from tayho.transactions.sending import Sending
from tayho.transactions.simulation import Foreseen, Simulations
from tayho.transactions.types import (
    DYNAMIC,
    Allocation,
    Answer,
    Fee,
    Lineage,
    Mark,
    Observe,
    ObserveSeconds,
    Persistence,
    SignedMember,
    Simulated,
    TransactionSettings,
    WouldRevert,
)

log = structlog.get_logger("tayho.transactions")

BATCH_MAX = 200
QUEUED_MAX = 2_000
# A handler waits this long for a lane before it gives its slot back: room comes with every block.
ROOM_SECONDS = 15
ROOM_LOOK_SECONDS = 1
MARKET_DELAY_SECONDS = 10
HALT_DELAY_SECONDS = 10
# Another replica holds the key; BullMQ hands the job to whoever asks first.
ELSEWHERE_DELAY_SECONDS = 2
TAKEN_DELAY_SECONDS = 10
BLOCKED_DELAY_SECONDS = 1


# What a call is checked with where its gas and the market's fee are not known.
PROBE_GAS = 21_000
PROBE_FEE = Fee(1, 0)


def signing_request(
    chain_id: int,
    signer: Address,
    nonce: int,
    call: Call,
    gas_limit: int,
    fee: Fee,
    transaction_type: int = DYNAMIC,
) -> SigningRequest:
    """The transaction as custody is asked for it."""
    return SigningRequest(
        chain_id=chain_id,
        signer=signer,
        nonce=nonce,
        to=call.to,
        value_wei=call.value_wei,
        data=call.data,
        gas_limit=gas_limit,
        max_fee_per_gas_wei=fee.max_fee_per_gas_wei,
        max_priority_fee_per_gas_wei=fee.max_priority_fee_per_gas_wei,
        transaction_type=transaction_type,
    )


class Executor:
    """Carries one pool's jobs from a current attempt to `confirming`."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        custody: Custody,
        reads: Reads,
        sending: Sending,
        settings: TransactionSettings,
        signers: tuple[Address, ...],
        observe: Observe = observe_nothing,
        observe_seconds: ObserveSeconds = observe_no_seconds,
        agreed: Callable[[], Awaitable[Reads]] | None = None,
    ) -> None:
        """`agreed` gives reads by a majority, for what ends a job for good; None where one endpoint decides alone."""
        self._database = database
        self._custody = custody
        self._agreed = agreed
        self._reads = GatheredReads(reads)
        self.fee_market = FeeMarket(reads)
        self._simulations = Simulations(self._reads, self.fee_market, signers)
        self._sending = sending
        self._settings = settings
        self._signers = signers
        self.pool_signers = PoolSigners(signers)
        self.journal = Journal(database, coordination, settings, observe, observe_seconds, self.pool_signers)
        self.halts = Halts(database, settings)
        self.blocked = BlockedLanes(database, coordination, settings, signers)
        bounds = {"items_max": BATCH_MAX, "queued_max": QUEUED_MAX}
        self._allocations = Coalescer(isolating(self.journal.allocate_many), name="allocations", **bounds)
        self.persistences = Coalescer(isolating(self.journal.persist_many), name="persistences", **bounds)
        self._marks = Coalescer(isolating(self.journal.mark_many), name="marks", **bounds)
        self._room = trio.Event()

    async def run(self) -> None:
        """Serve what gathers concurrent attempts, their reads and their commits, until cancelled."""
        async with trio.open_nursery() as gathering:
            for each in (self._reads, self._allocations, self.persistences, self._marks):
                gathering.start_soon(each.run)

    def room_made(self) -> None:
        """Tell the handlers that wait for a lane that one may have room again."""
        self._room.set()
        self._room = trio.Event()

    async def execute(self, kind: OnChainKind, job: Job, attempt: Attempt) -> Outcome:
        """Resume the job's lineage where it stands, or begin one.

        Raises StaleAttempt, PoolHalted, RpcError, CustodyError, StorageError. Whatever is raised, nothing that was
        persisted is ever discarded.
        """
        self.halts.refuse()
        lineage = await self.journal.live_lineage(job.job_id) if job.has_live_lineage else None
        if lineage is not None and lineage.state == "allocated" and await self.journal.is_taken(lineage):
            # Signed for it, the bytes could never be mined. It is let go when that cannot be reorganised any more.
            return Postponed(
                f"nonce {lineage.nonce} of {lineage.signer} was used by somebody else", TAKEN_DELAY_SECONDS
            )
        if lineage is None or lineage.state == "allocated":
            revalidation = await self._revalidate(kind, job)
            if isinstance(revalidation, NotActionable):
                return await self._give_up(attempt, lineage, revalidation.reason)
        foreseen: Foreseen | None = None
        if lineage is None:
            begun = await self._begin(kind, job, attempt)
            if not isinstance(begun, tuple):
                return begun
            lineage, foreseen = begun
        match lineage.state:
            case "allocated":
                try:
                    signed = await self.sign(lineage, foreseen)
                except SigningRefused as error:
                    # Deterministic: kept, the nonce would block its lane for ever.
                    return await self._give_up(attempt, lineage, str(error))
                if isinstance(signed, WouldRevert):
                    return await self._would_revert(kind, attempt, lineage, signed)
                await self.persistences.submit(Persistence(attempt, signed))
                return await self._send(attempt, lineage, signed.tx_hash, signed.raw)
            case "signed":
                return await self._send(attempt, lineage, *await self._unsealed(lineage))
            case "broadcast":
                return await self._look_before_sending(attempt, lineage)
            case _:
                raise StaleAttempt(attempt)

    async def _revalidate(self, kind: OnChainKind, job: Job) -> Revalidation:
        """What the kind says; that nothing is wanted any more, only where it says so of a majority's answers too.

        One endpoint that lies, or lags behind what others show, would lose the job.
        """
        found = await kind.revalidate(job, self._reads)
        if isinstance(found, NotActionable) and self._agreed is not None:
            return await kind.revalidate(job, await self._agreed())
        return found

    async def _foresee(self, call: Call) -> Foreseen | WouldRevert:
        """Simulate with the signers in turn. A revert for all of them is believed of a majority alone."""
        self._simulations.keep_to(self.pool_signers.serving)
        foreseen = await self._simulations.with_any(call, self._settings.fee_wei_max)
        if isinstance(foreseen, Foreseen) or self._agreed is None:
            return foreseen
        return await self._simulations.by(await self._agreed()).with_any(call, self._settings.fee_wei_max)

    async def _simulate_surely(self, sender: Address, call: Call) -> Simulated | WouldRevert:
        """As a majority sees it, where there is one to ask."""
        simulations = self._simulations if self._agreed is None else self._simulations.by(await self._agreed())
        found = await simulations.with_signer(sender, call, self._settings.fee_wei_max)
        return found.simulated if isinstance(found, Foreseen) else found

    async def _begin(self, kind: OnChainKind, job: Job, attempt: Attempt) -> tuple[Lineage, Foreseen] | Outcome:
        """Take a nonce only for a call that would succeed and that custody would sign: once taken, it must be used."""
        call = await kind.call(job)
        foreseen = await self._foresee_signable(call)
        if isinstance(foreseen, WouldRevert):
            return NotActionable(_told(kind, foreseen))
        await self.blocked.reopen_where(partial(self._simulate, call=call))
        lineage = await self._allocate(Allocation(attempt, call, foreseen.signer, needs_result(kind)))
        if lineage is None:
            return Postponed("no lane of the pool has room")
        if lineage.signer != foreseen.signer:
            self._simulations.fall_in_step(lineage.signer)
        return lineage, foreseen

    async def _allocate(self, allocation: Allocation) -> Lineage | None:
        """Take a nonce of a lane that has room; None where none had for ROOM_SECONDS."""
        room = self._room
        # Most find room at once, and need no clock.
        with suppress(NoLaneOpen):
            return await self._allocations.submit(allocation)
        with trio.move_on_after(ROOM_SECONDS):
            while True:
                with trio.move_on_after(ROOM_LOOK_SECONDS):
                    await room.wait()
                room = self._room
                with suppress(NoLaneOpen):
                    return await self._allocations.submit(allocation)
        return None

    async def _foresee_signable(self, call: Call) -> Foreseen | WouldRevert:
        """Simulate. What custody would not sign is refused for that, whatever the chain says of it, or cannot say.

        Raises RequestRefused, and as `_foresee`.
        """
        foreseen: Foreseen | WouldRevert | Exception
        try:
            foreseen = await self._foresee(call)
        except Exception as error:  # noqa: BLE001 - raised below, where custody does not refuse the call for good
            foreseen = error
        if isinstance(foreseen, Foreseen):
            simulated = foreseen.simulated
            await self._refuse_unsignable(call, simulated.gas_limit, simulated.fee, simulated.transaction_type)
        else:
            await self._refuse_unsignable(call, PROBE_GAS, PROBE_FEE)
        if isinstance(foreseen, Exception):
            raise foreseen
        return foreseen

    async def _refuse_unsignable(self, call: Call, gas_limit: int, fee: Fee, transaction_type: int = DYNAMIC) -> None:
        """Raise RequestRefused for what no attempt could ever sign."""
        refusals = await self._custody.refusals(
            signing_request(self._settings.chain_id, self._signers[0], 0, call, gas_limit, fee, transaction_type)
        )
        if refusals:
            raise RequestRefused("; ".join(str(refusal) for refusal in refusals))

    async def _would_revert(
        self, kind: OnChainKind, attempt: Attempt, lineage: Lineage, reverted: WouldRevert
    ) -> Outcome:
        """Give the job up where the call reverts for everybody, and the lane where it does so for its signer alone."""
        reason = _told(kind, reverted)
        if isinstance(await self._foresee(lineage.call), WouldRevert):
            return await self._give_up(attempt, lineage, reason)
        # Once more, after the others: not a revert of a moment ago is compared with a success of now.
        if isinstance(await self._simulate_surely(lineage.signer, lineage.call), Simulated):
            return Postponed(f"{lineage.signer} {reason}, and a moment later it does not")
        await self.blocked.block(attempt, lineage, f"the call reverts for this signer alone ({reverted.reason})")
        return Postponed(f"lane {lineage.signer} is blocked: {reason} for its signer alone", BLOCKED_DELAY_SECONDS)

    async def _simulate(self, sender: Address, call: Call) -> Simulated | WouldRevert:
        found = await self._simulations.with_signer(sender, call, self._settings.fee_wei_max)
        return found.simulated if isinstance(found, Foreseen) else found

    async def sign(self, lineage: Lineage, foreseen: Foreseen | None = None) -> SignedMember | WouldRevert:
        """Simulate with the lineage's own signer, sign at the reserved nonce, seal. Nothing leaves the process yet.

        `foreseen` is this attempt's own simulation; made with that signer and at a recent block, it is not made again.
        """
        if foreseen is not None and foreseen.holds_for(lineage.signer, trio.current_time()):
            simulated: Simulated | WouldRevert = foreseen.simulated
        else:
            simulated = await self._simulate(lineage.signer, lineage.call)
        if isinstance(simulated, WouldRevert) and self._agreed is not None:
            simulated = await self._simulate_surely(lineage.signer, lineage.call)
        if isinstance(simulated, WouldRevert):
            return simulated
        signed = await self._custody.sign_and_seal(
            signing_request(
                lineage.chain_id,
                lineage.signer,
                lineage.nonce,
                lineage.call,
                simulated.gas_limit,
                simulated.fee,
                simulated.transaction_type,
            ),
            Reservation(lineage.chain_id, lineage.signer, lineage.nonce, lineage.call_hash),
        )
        step("journal.after_sign")
        return SignedMember(
            lineage=lineage,
            tx_hash=signed.tx_hash,
            raw=signed.raw,
            gas_limit=simulated.gas_limit,
            fee=simulated.fee,
            key_id=signed.sealed.key_id,
            cipher_nonce=signed.sealed.cipher_nonce,
            ciphertext=signed.sealed.ciphertext,
            transaction_type=simulated.transaction_type,
        )

    async def _look_before_sending(self, attempt: Attempt, lineage: Lineage) -> Outcome:
        """A node took these bytes once: only if it shows them no more are they sent again (TX-3)."""
        tx_hash = lineage.active_tx_hash
        if tx_hash is not None and await self._reads.ask(methods.transaction_by_hash(tx_hash)) is not None:
            answer = Answer("already_known", "found by its hash", "already_known")
            await self._marks.submit(Mark(attempt, tx_hash, self._sending.endpoint, answer))
            return Ended()
        return await self._send(attempt, lineage, *await self._unsealed(lineage))

    async def _unsealed(self, lineage: Lineage) -> tuple[bytes, Opaque]:
        async with self._database.connection() as connection:
            rows = await store.SEALED_MEMBERS(connection, [lineage.active_tx_hash])
        sealed, binding = store.sealed_of(rows[0])
        return binding.tx_hash, await self._custody.unseal(sealed, binding)

    async def _send(self, attempt: Attempt, lineage: Lineage, tx_hash: bytes, raw: Opaque) -> Outcome:
        """Send once. Whatever the node says, the attempt is over and the bytes are the reconciler's (TX-4)."""
        self.halts.refuse()
        answer = await self._sending.submit(tx_hash, lineage.signer, lineage.nonce, raw)
        await self._marks.submit(Mark(attempt, tx_hash, self._sending.endpoint, answer))
        if not answer.is_out:
            log.warning(
                "transaction_not_out_yet",
                job_id=str(attempt.job_id),
                tx_hash=f"0x{tx_hash.hex()}",
                answer=answer.reason,
                detail=answer.detail,
            )
        return Ended()

    async def _give_up(self, attempt: Attempt, lineage: Lineage | None, reason: str) -> Outcome:
        """The chain asks for nothing any more. An unsigned nonce is given back; signed bytes never come here."""
        if lineage is None:
            return NotActionable(reason)
        await self.journal.abandon_unsigned(attempt, lineage, {"reason": reason})
        return Ended()


def _told(kind: OnChainKind, reverted: WouldRevert) -> str:
    """Why the call would revert, by the name that the kind has for it (TX-11)."""
    return f"would revert: {revert_reason_of(kind, reverted.data) or reverted.reason}"


async def execute_or_postpone(executor: Executor, kind: OnChainKind, job: Job, attempt: Attempt) -> Outcome:
    """`execute`, with what is no fault of the job as postponements: a market above the ceiling, a halted pool, a key
    that another replica holds."""
    try:
        return await executor.execute(kind, job, attempt)
    except MarketAboveCeiling as error:
        return Postponed(str(error), MARKET_DELAY_SECONDS)
    except PoolHalted as error:
        return Postponed(str(error), HALT_DELAY_SECONDS)
    except UnknownSigner as error:
        # While keys change, a nonce may have been taken by a replica that holds another set of them.
        return Postponed(str(error), ELSEWHERE_DELAY_SECONDS)
