"""A chain without base fees is served, from the job to its final receipt (TX-8)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from rpc import methods
from rpc.reads import Call as Question
from tayho.kernel.address import Address
from tayho.kernel.jobs import Ended
from tayho.local.anvil import Chain, prepare
from tayho.transactions.fees import bump
from tayho.transactions.types import LEGACY, Fee, Market
from tests.coordination.conftest import CHAIN_ID
from tests.services.chain import LocalChain
from tests.services.launch import launched
from tests.transactions.conftest import FEE_WEI_MAX, Engine, any_call
from tests.transactions.test_executor import Kind

GWEI = 10**9


@pytest.fixture(scope="module")
def chain() -> Iterator[LocalChain]:
    """A node whose blocks have no base fee. The reference counter needs a later fork and is not on it."""
    with launched(partial(prepare, chain=Chain(chain_id=CHAIN_ID, hardfork="berlin"))) as server:
        yield LocalChain(server, Address(b"\x77" * 20))


async def _members(engine: Engine) -> list[Any]:
    async with engine.plane.database.connection() as connection:
        return list(
            await connection.fetch(
                "SELECT tx_hash, transaction_type, max_fee_per_gas_wei, max_priority_fee_per_gas_wei, is_cancellation"
                " FROM transactions.members ORDER BY nonce"
            )
        )


async def test_a_job_is_carried_through_with_a_gas_price(engine: Engine) -> None:
    """Goal: without EIP-1559 a job is signed as type 0 at the market's price, journaled as such, unsealed, mined and
    made final. Method: a real node before London; the pool forgets the transaction once, so the journal's bytes are
    sent too; the transaction as the node has it."""
    header = await engine.node.ask(methods.block_by_number("latest"))
    assert header is not None
    assert header.base_fee_per_gas_wei is None
    await engine.node.ask(Question("evm_setAutomine", (False,), lambda _: None, is_write=True))
    (attempt,) = await engine.attempts(1)
    assert await engine.executor.execute(Kind(any_call()), await engine.job(attempt), attempt) == Ended()
    (member,) = await _members(engine)
    assert (member["transaction_type"], member["is_cancellation"]) == (0, False)
    assert member["max_fee_per_gas_wei"] == member["max_priority_fee_per_gas_wei"]
    await engine.node.ask(Question("anvil_dropAllTransactions", (), lambda _: None, is_write=True))
    await engine.node.ask(Question("evm_setAutomine", (True,), lambda _: None, is_write=True))
    await engine.tick_and_mine(4)
    transaction = await engine.node.ask(methods.transaction_by_hash(member["tx_hash"]))
    assert transaction is not None
    assert (transaction.type, transaction.chain_id) == (0, CHAIN_ID)
    assert transaction.gas_price_wei == member["max_fee_per_gas_wei"] == await engine.node.ask(methods.gas_price())
    job = await engine.plane.coordination.inspect(attempt.job_id)
    assert job is not None
    assert job.state == "completed"


def test_a_legacy_bump_is_one_price() -> None:
    """Goal: type 0 is replaced by its own rule. Method: a price below the market and one above."""
    policy = {"bump_basis_points": 1_250, "fee_wei_max": FEE_WEI_MAX, "transaction_type": LEGACY}
    assert bump(Fee(GWEI, GWEI), Market(None, 3 * GWEI, 1), **policy) == Fee(3 * GWEI, 3 * GWEI)
    assert bump(Fee(GWEI, GWEI), Market(None, 1, 1), **policy) == Fee(1_125_000_000, 1_125_000_000)
