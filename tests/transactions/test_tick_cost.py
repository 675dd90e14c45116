"""What a tick costs in questions to a node does not grow with what is open (TX-5)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest
from attrs import define

from rpc.errors import RpcError
from rpc.reads import Call as Question
from rpc.reads import Reads
from tayho.kernel.ids import new_id
from tayho.transactions.lane_watch import LaneWatch
from tayho.transactions.reconciler import Reconciler
from tayho.transactions.reorganising import Reorganisations
from tayho.transactions.replacing.rounds import Replacing
from tayho.transactions.sending import Sending
from tayho.transactions.superseding import Superseding
from tayho.transactions.world import World
from tayho.voters import truth_of
from tests.transactions.conftest import ENVIRONMENT, ROLE, SIGNERS, Engine

pytestmark = pytest.mark.services
T = TypeVar("T")
OPEN = 1_000
FAR_AHEAD = 10_000
ROUND_TRIPS_MAX = 20


@define
class Counting:
    """The node, every account of which is far ahead in every pool: nothing has to be sent again."""

    node: Reads
    shown: str = "node"
    round_trips: int = 0

    async def ask(self, call: Question[T]) -> T:
        (answer,) = await self.ask_many([call])
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        self.round_trips += 1
        answers = await self.node.ask_many(calls)
        return [
            FAR_AHEAD if call.method == "eth_getTransactionCount" and call.params[1] == "pending" else answer  # pyright: ignore[reportReturnType]
            for call, answer in zip(calls, answers, strict=True)
        ]


async def open_lineages(engine: Engine, first: int, count: int) -> None:
    """So many fillers that are out, spread over the lanes from a nonce on; nobody will ever open their seals."""
    async with engine.plane.database.transaction() as tx:
        for signer in SIGNERS:
            await tx.execute(
                "UPDATE transactions.lanes SET next_nonce = next_nonce + $2 WHERE signer = $1", signer.value, count
            )
        nonces = [first + place // len(SIGNERS) for place in range(count)]
        ids = [new_id() for _ in nonces]
        await tx.execute(
            """
            INSERT INTO transactions.lineages
                (lineage_id, purpose, chain_id, signer, nonce, call_hash, environment, role, to_address, value_wei,
                 call_data, state)
            SELECT a.lineage_id, 'filler', $1, a.signer, a.nonce, sha256('call'), $2, $3, a.signer, 0, '', 'allocated'
            FROM unnest($4::uuid[], $5::bytea[], $6::bigint[]) AS a (lineage_id, signer, nonce)
            """,
            engine.settings.chain_id,
            ENVIRONMENT,
            ROLE,
            ids,
            [SIGNERS[place % len(SIGNERS)].value for place in range(count)],
            nonces,
        )
        await tx.execute(
            """
            INSERT INTO transactions.members
                (tx_hash, lineage_id, chain_id, signer, nonce, call_hash, member_number, gas_limit,
                 max_fee_per_gas_wei, max_priority_fee_per_gas_wei, key_id, cipher_nonce, ciphertext, state)
            SELECT a.tx_hash, l.lineage_id, l.chain_id, l.signer, l.nonce, l.call_hash, 1, 21000, 2, 1, 'test',
                substr(a.tx_hash, 1, 12), a.tx_hash, 'signed'
            FROM unnest($1::uuid[], $2::bytea[]) AS a (lineage_id, tx_hash)
            JOIN transactions.lineages AS l USING (lineage_id)
            """,
            ids,
            [os.urandom(32) for _ in ids],
        )
        await tx.execute("UPDATE transactions.lineages SET state = 'signed' WHERE state = 'allocated'")
        await tx.execute("UPDATE transactions.members SET state = 'broadcast' WHERE state = 'signed'")
        await tx.execute("UPDATE transactions.lineages SET state = 'broadcast' WHERE state = 'signed'")


async def round_trips_of_a_tick(engine: Engine) -> int:
    """Of a reconciler with every step that a process has, after one tick in which it learned what it keeps."""
    node = Counting(engine.node)
    database, coordination, settings = engine.plane.database, engine.plane.coordination, engine.settings
    executor, truth = engine.executor, truth_of([node])
    custody, sending = executor._custody, Sending(executor._sending._broadcaster)  # pyright: ignore[reportPrivateUsage]
    reconciler = Reconciler(
        database,
        coordination,
        custody,
        truth,
        sending,
        executor,
        settings,
        [
            Reorganisations(database, coordination, truth, executor.halts, settings).step,
            Superseding(database, coordination, truth, settings).step,
            LaneWatch(database, coordination, truth, executor.halts, settings).step,
            Replacing(database, coordination, custody, truth, node, executor.fee_market, sending, settings).step,
            World(database, coordination, truth, executor.halts, settings).step,
        ],
    )
    await reconciler.tick()
    node.round_trips = 0
    await reconciler.tick()
    return node.round_trips


async def test_a_thousand_open_lineages_cost_no_more_round_trips_than_ten(engine: Engine) -> None:
    """Goal: the reconciler of a busy pool asks no more often than that of a quiet one. Method: count what one endpoint
    is asked in one whole tick, with ten open lineages and with a thousand."""
    await open_lineages(engine, 1_000, 10)
    few = await round_trips_of_a_tick(engine)
    await open_lineages(engine, 2_000, OPEN - 10)
    many = await round_trips_of_a_tick(engine)
    assert few == many, (few, many)
    assert few < ROUND_TRIPS_MAX
