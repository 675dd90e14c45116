"""Whether a signer may leave its pool, and the handing over of its place (OPS-7)."""

from __future__ import annotations

from rpc.errors import NoQuorum
from rpc.truth import ChainTruth
from rpc.values import Header
from storage.commits import again_if_lost
from storage.connection import Row
from storage.database import Connection, Database
from storage.rows import value_from
from tayho.contracts.coordination import Coordination
from tayho.kernel.address import Address
from tayho.kernel.json_document import Json
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.errors import LaneUnknown, NonceUnsettled, PoolHalted, PoolUnknown, SignerTaken
from tayho.transactions.rotating.checks import record_check, record_request
from tayho.transactions.rotating.rules import is_done, missing_of_signer, refusal_of_rotation
from tayho.transactions.rotating.types import (
    CheckDone,
    CheckSeen,
    LaneNow,
    Rotated,
    RotationFacts,
    SignerFacts,
    Subject,
)
from tayho.transactions.types import TransactionSettings


class SignerRotation:
    """What an operator may do to the membership of one pool, `settings` being its.

    Each may raise RpcError, StorageError; CommitUnknown where the answer was lost: asking again is right.
    """

    def __init__(
        self, database: Database, coordination: Coordination, truth: ChainTruth, settings: TransactionSettings
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._truth = truth
        self._settings = settings
        self._pool = (settings.chain_id, settings.environment, settings.role)

    async def retire_check(self, signer: Address, actor: str) -> CheckDone:
        """Examine whether the signer may be retired, and write down what was found, with its time.

        It changes nothing else. Raises LaneUnknown.
        """
        detail: dict[str, Json] = {"signer": str(signer), "role": self._settings.role}
        await record_request(self._database, self._coordination, "signer_retire_check", actor, detail)
        # The chain first: what PostgreSQL says afterwards can only be more than what was so when the chain was asked.
        head, nonces = await self._look(signer)
        facts = await self._facts(signer, head, nonces)
        told: dict[str, Json] = {
            "nonces": {"latest": facts.latest_nonce, "final": facts.final_nonce, "pending": facts.pending_nonce},
            "lookback_blocks": facts.lookback_blocks,
        }
        subject = Subject(signer=signer, nonce_fence=facts.lane.next_nonce)
        where = self._settings.chain_id, self._settings.environment
        return await record_check(self._database, where, subject, head, missing_of_signer(facts), told, actor)

    async def rotate(self, old: Address, new: Address, actor: str, reason: str = "") -> Rotated:
        """Hand the place of `old` to `new`, in one transaction: `old` is retired for ever, and `new` may take nonces.

        Raises RotationRefused (CheckMissing, StillOpen, LaneNotDraining, SignerTaken, SignerRetired, NonceUnsettled,
        LaneUnknown, PoolUnknown), PoolHalted.
        """
        return await self._admit(old, new, actor, reason)

    async def widen(self, new: Address, actor: str, reason: str = "") -> Rotated:
        """Give `new` a place beside the others. Raises SignerTaken, SignerRetired, NonceUnsettled, PoolUnknown."""
        return await self._admit(None, new, actor, reason)

    async def _admit(self, old: Address | None, new: Address, actor: str, reason: str) -> Rotated:
        settings = self._settings
        async with self._database.connection() as connection:
            before = await self._seen(connection, old, new)
        if (done := _done(before)) is not None:
            # Its account may be in use by now: nothing of it has to be settled any more.
            return done
        nonce = await self._settled_nonce(new)

        async def once() -> Rotated:
            async with self._database.transaction() as tx:
                facts = await self._held(tx, old, new)
                refusal = refusal_of_rotation(new, facts, settings.environment, settings.role)
                if refusal is not None:
                    raise refusal
                if (done := _done(facts)) is not None:
                    return done
                await self._record(tx, facts, new, nonce, actor, reason)
                if facts.old is not None:
                    await store.RETIRE_LANE(tx, settings.chain_id, facts.old.signer.value, f"its place is {new}'s")
                if not await store.ADMIT_LANE(tx, *self._entry(new, nonce)):
                    # Registered by another pool's first start meanwhile, under that pool's lock.
                    raise SignerTaken(new, settings.environment, "another role")
                if facts.old is not None and facts.check is not None:
                    await store.HAND_OVER(
                        tx, settings.chain_id, facts.old.signer.value, new.value, facts.check.check_id, actor
                    )
            step("rotation.after_rotate")
            return Rotated(new, nonce, changed=True, old=old)

        return await again_if_lost(once)

    def _entry(self, new: Address, nonce: int) -> tuple[object, ...]:
        settings = self._settings
        return settings.chain_id, new.value, settings.environment, settings.role, nonce

    async def _record(
        self, tx: Connection, facts: RotationFacts, new: Address, nonce: int, actor: str, reason: str
    ) -> None:
        detail: dict[str, Json] = {"role": self._settings.role, "new": str(new), "fence": nonce, "reason": reason}
        if facts.old is None:
            await self._coordination.record_act(tx, "signer_pool_add", actor, detail)
        else:
            await self._coordination.record_act(
                tx, "signer_pool_rotate", actor, detail | {"old": str(facts.old.signer)}
            )

    async def _held(self, tx: Connection, old: Address | None, new: Address) -> RotationFacts:
        """What decides, the pool locked until `tx` ends: no nonce is taken meanwhile, and no halt raised."""
        settings = self._settings
        pool = await store.LOCK_POOL(tx, *self._pool)
        if pool is None:
            raise PoolUnknown(settings.environment, settings.role)
        if pool["is_halted"]:
            raise PoolHalted
        await store.LOCK_LANES_OF_POOL(tx, *self._pool)
        return await self._seen(tx, old, new)

    async def _seen(self, connection: Connection, old: Address | None, new: Address) -> RotationFacts:
        settings = self._settings
        taken = await store.LANE_NOW(connection, settings.chain_id, new.value)
        entrant = None if taken is None else store.lane_now_of(taken)
        if old is None:
            return RotationFacts(None, entrant, None, 0)
        row = await store.LANE_NOW(connection, settings.chain_id, old.value)
        if row is None:
            raise LaneUnknown(old)
        return RotationFacts(
            old=store.lane_now_of(row),
            new=entrant,
            check=_check_of(await store.NEWEST_CHECK(connection, settings.chain_id, old.value)),
            open_lineages=await store.OPEN_OF_LANE(connection, settings.chain_id, old.value),
        )

    async def _settled_nonce(self, signer: Address) -> int:
        """The account's next nonce, agreed, with nothing of it in the nodes' pools."""
        head, nonces = await self._look(signer)
        latest, _, pending = nonces
        if head is None or latest is None or pending is None:
            raise NonceUnsettled(signer, "its nonce is not agreed by a majority of RPC_READ_URLS")
        if pending > latest:
            raise NonceUnsettled(signer, f"{pending - latest} of its transactions wait in the nodes' pools")
        return latest

    async def _look(self, signer: Address) -> tuple[Header | None, tuple[int | None, int | None, int | None]]:
        """The agreed head, and the account's nonces at it, as deep as a reorganisation reaches, and in the pools."""
        try:
            head = await self._truth.heads.head()
        except NoQuorum:
            return None, (None, None, None)
        sight = await self._truth.accounts([signer.value], head, depth=self._settings.reorg_lookback_blocks)
        account = signer.value
        nonces = sight.nonces, sight.final_nonces, sight.pending_nonces
        latest, final, pending = (found.get(account) for found in nonces)
        return head, (latest, final, pending)

    async def _facts(
        self, signer: Address, head: Header | None, nonces: tuple[int | None, int | None, int | None]
    ) -> SignerFacts:
        settings = self._settings
        deep = -1 if head is None else head.number - settings.reorg_lookback_blocks
        async with self._database.connection() as connection:
            lane = await self._own_lane(connection, signer)
            halts = await store.OPEN_HALTS(connection, *self._pool)
            open_lineages = await store.OPEN_OF_LANE(connection, settings.chain_id, signer.value)
            revivable = await store.REVIVABLE_OF_LANE(connection, settings.chain_id, signer.value, deep)
        latest, final, pending = nonces
        return SignerFacts(
            lane=lane,
            is_halted=bool(halts),
            lookback_blocks=settings.reorg_lookback_blocks,
            open_lineages=open_lineages,
            revivable_lineages=0 if revivable is None else revivable["lineages"],
            revivable_block_number_max=None if revivable is None else revivable["block_number_max"],
            head_block_number=None if head is None else head.number,
            latest_nonce=latest,
            final_nonce=final,
            pending_nonce=pending,
        )

    async def _own_lane(self, connection: Connection, signer: Address) -> LaneNow:
        row = await store.LANE_NOW(connection, self._settings.chain_id, signer.value)
        if row is None:
            raise LaneUnknown(signer)
        lane = store.lane_now_of(row)
        if (lane.environment, lane.role) != (self._settings.environment, self._settings.role):
            raise SignerTaken(signer, lane.environment, lane.role)
        return lane


def _done(facts: RotationFacts) -> Rotated | None:
    """What an earlier call did whose answer was lost, or None."""
    if facts.old is None or facts.new is None or not is_done(facts):
        return None
    return Rotated(facts.new.signer, facts.new.next_nonce, changed=False, old=facts.old.signer)


def _check_of(row: Row | None) -> CheckSeen | None:
    return None if row is None else value_from(CheckSeen, row)
