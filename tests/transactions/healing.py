"""Replicas over a chain that takes blocks back: what tests of reorganisations and foreign nonces share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from attrs import define, evolve, frozen

from rpc import methods
from rpc.member import Member
from rpc.reads import Call as Question
from rpc.truth import ChainTruth
from rpc.values import Receipt
from storage.connection import Row
from tayho.contracts.custody import Reservation
from tayho.kernel.address import Address
from tayho.kernel.call_hash import call_hash
from tayho.kernel.jobs import Attempt, Ended
from tayho.kinds import Call
from tayho.protocol import abi, artifacts
from tayho.transactions import store
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.executor import signing_request
from tayho.transactions.halts import Halts
from tayho.transactions.reconciler import Reconciler
from tayho.transactions.reorganising import Reorganisations
from tayho.transactions.sending import Sending
from tayho.transactions.superseding import Superseding
from tayho.transactions.types import Fee, TransactionSettings
from tayho.voters import truth_of
from tests.invariants import check_invariants, events_of
from tests.transactions.conftest import Engine
from tests.transactions.test_executor import Kind

CONFIRMATIONS, LOOKBACK = 2, 12
HIGHER = Fee(50 * 10**9, 5 * 10**9)


@frozen
class Replica:
    """One process's reconciler, with the steps that heal."""

    reconciler: Reconciler
    reorganisations: Reorganisations
    halts: Halts
    truth: ChainTruth

    async def tick(self) -> None:
        """As the process does it: after a halt the chain is known anew."""
        if self.halts.is_seen and not await self.halts.look():
            await self.truth.heads.start_over()
        await self.reorganisations.watched(self.reconciler.tick)


@frozen
class Effect:
    """A job whose call records an event of its own on the chain."""

    attempt: Attempt
    event: bytes

    @property
    def job_id(self) -> UUID:
        return self.attempt.job_id


@define
class Healing:
    """An engine whose replicas look back as far as a test can reorganise."""

    engine: Engine
    settings: TransactionSettings

    @classmethod
    def of(cls, engine: Engine, **changes: Any) -> Healing:
        changed = {"confirmations": CONFIRMATIONS, "reorg_lookback_blocks": LOOKBACK, **changes}
        return cls(engine, evolve(engine.settings, **changed))

    def replica(self, *voters: Member, name: str = "one") -> Replica:
        """A process that begins now, asking the node alone or these voters."""
        engine, settings = self.engine, evolve(self.settings, instance_id=name)
        database, coordination = engine.plane.database, engine.plane.coordination
        truth = truth_of(voters or [engine.node])
        halts = Halts(database, settings)
        reorganisations = Reorganisations(database, coordination, truth, halts, settings)
        reconciler = Reconciler(
            database,
            coordination,
            engine.executor._custody,  # pyright: ignore[reportPrivateUsage]
            truth,
            Sending(Broadcaster(engine.node, "node")),
            engine.executor,
            settings,
            steps=[reorganisations.step, Superseding(database, coordination, truth, settings).step],
        )
        return Replica(reconciler, reorganisations, halts, truth)

    async def sent(self, count: int, key: str = "key") -> list[Effect]:
        """So many jobs whose transactions are out, and mined one by one where the node does so."""
        effects = [Effect(attempt, os.urandom(32)) for attempt in await self.engine.attempts(count, key)]
        for one in effects:
            job = await self.engine.job(one.attempt)
            assert await self.engine.executor.execute(Kind(self.call(one.event)), job, one.attempt) == Ended()
        return effects

    async def completed(self, replica: Replica, count: int, key: str = "key") -> list[Effect]:
        """So many jobs that the chain has ended, `CONFIRMATIONS` below the head."""
        effects = await self.sent(count, key)
        await self.mine(CONFIRMATIONS)
        await replica.tick()
        assert await self.states(effects) == ["completed"] * count
        return effects

    def call(self, event: bytes) -> Call:
        return Call(self.engine.contract, abi.encode_call(artifacts.load("Counter"), "record", [event]))

    async def mine(self, blocks: int) -> None:
        await self.ask("anvil_mine", hex(blocks))

    async def reorganise(self, depth: int, raw: Sequence[str] = ()) -> None:
        """Replace the last blocks by as many others, with these transactions in the first; then one more on top."""
        await self.ask("anvil_reorg", depth, [[one, 0] for one in raw])
        await self.mine(1)

    async def ask(self, method: str, *params: object) -> Any:
        return await self.engine.node.ask(Question(method, params, lambda answer: answer, is_write=True))

    async def head(self) -> int:
        return await self.engine.node.ask(methods.block_number())

    async def settle(
        self, replica: Replica, effects: Sequence[Effect], *, turns: int = 8, foreign: Sequence[bytes] = ()
    ) -> None:
        """Let chain and replica go on until every job has ended; then each took effect once, and all holds."""
        for _ in range(turns):
            await replica.tick()
            await self.mine(1)
            if set(await self.states(effects)) == {"completed"}:
                break
        assert await self.states(effects) == ["completed"] * len(effects)
        recorded = await events_of(self.engine.node, self.engine.contract)
        assert [recorded[one.event] for one in effects] == [1] * len(effects)
        await check_invariants(self.engine.plane.database, self.engine.node, self.engine.contract, foreign=foreign)

    async def states(self, effects: Sequence[Effect]) -> list[str]:
        return [await self.engine.plane.state(one.job_id) for one in effects]

    async def rows(self, sql: str, *arguments: object) -> list[Row]:
        async with self.engine.plane.database.connection() as connection:
            return await connection.fetch(sql, *arguments)

    async def lineage(self, effect: Effect) -> Row:
        """The first one of the job."""
        rows = await self.rows(
            "SELECT * FROM transactions.lineages WHERE job_id = $1 ORDER BY lineage_id", effect.job_id
        )
        return rows[0]

    async def members(self, effect: Effect) -> list[Row]:
        """Those of the job's first lineage, in order."""
        return await self.rows(
            "SELECT * FROM transactions.members WHERE lineage_id = $1 ORDER BY member_number",
            (await self.lineage(effect))["lineage_id"],
        )

    async def events(self, effect: Effect) -> list[str]:
        rows = await self.rows(
            "SELECT kind FROM transactions.events WHERE job_id = $1 ORDER BY event_id", effect.job_id
        )
        return [row["kind"] for row in rows]

    async def receipt(self, effect: Effect) -> Receipt:
        found = [
            await self.engine.node.ask(methods.transaction_receipt(row["tx_hash"]))
            for row in await self.members(effect)
        ]
        (receipt,) = [one for one in found if one is not None]
        return receipt

    async def take_back(self, effect: Effect) -> None:
        """Let the block of the job's receipt go, and no block below it."""
        receipt = await self.receipt(effect)
        canonical = receipt.block_hash
        # The node mines by itself: a block between the question for the head and the reorganisation would spare it.
        while canonical == receipt.block_hash:
            await self.reorganise(await self.head() - receipt.block_number + 1)
            block = await self.engine.node.ask(methods.block_by_number(receipt.block_number))
            assert block is not None
            canonical = block.hash

    async def raw_of(self, effect: Effect, member_number: int = 1) -> str:
        """The bytes as the journal keeps them, opened."""
        (row,) = [one for one in await self.members(effect) if one["member_number"] == member_number]
        async with self.engine.plane.database.connection() as connection:
            (sealed,) = await store.SEALED_MEMBERS(connection, [row["tx_hash"]])
        custody = self.engine.executor._custody  # pyright: ignore[reportPrivateUsage]
        return f"0x{(await custody.unseal(*store.sealed_of(sealed))).reveal().hex()}"

    async def add_member(
        self, effect: Effect, *, fee: Fee = HIGHER, gas_limit: int = 100_000, is_cancellation: bool = False
    ) -> bytes:
        """Another member at the nonce of the job's first lineage, signed and journalled, in no node: its hash."""
        row = await self.lineage(effect)
        signer, numbers = Address(row["signer"]), [one["member_number"] for one in await self.members(effect)]
        call = Call(signer, b"", 0) if is_cancellation else Call(Address(row["to_address"]), row["call_data"])
        custody = self.engine.executor._custody  # pyright: ignore[reportPrivateUsage]
        hash_ = call_hash(row["chain_id"], call.to, call.value_wei, call.data)
        signed = await custody.sign_and_seal(
            signing_request(row["chain_id"], signer, row["nonce"], call, gas_limit, fee),
            Reservation(row["chain_id"], signer, row["nonce"], hash_),
        )
        await self.rows(
            "INSERT INTO transactions.members (tx_hash, lineage_id, chain_id, signer, nonce, call_hash, member_number,"
            " is_cancellation, gas_limit, max_fee_per_gas_wei, max_priority_fee_per_gas_wei, key_id, cipher_nonce,"
            " ciphertext, state) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 'signed')",
            signed.tx_hash,
            row["lineage_id"],
            row["chain_id"],
            signer.value,
            row["nonce"],
            row["call_hash"],
            max(numbers) + 1,
            is_cancellation,
            gas_limit,
            fee.max_fee_per_gas_wei,
            fee.max_priority_fee_per_gas_wei,
            signed.sealed.key_id,
            signed.sealed.cipher_nonce,
            signed.sealed.ciphertext,
        )
        return signed.tx_hash
