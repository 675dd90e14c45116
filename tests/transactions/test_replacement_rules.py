"""What `bump` offers is what real nodes take as a replacement, and not a wei more than the strictest asks (TX-7)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.errors import RpcRefused
from rpc.reads import Call as Question
from tayho.custody.local_signer import LocalSigner
from tayho.custody.module import SigningPolicy, parse_signer_keys
from tayho.custody.types import Reservation, SigningRequest
from tayho.kernel.call_hash import call_hash
from tayho.local.anvil import Chain, anvil
from tayho.local.development import PUBLIC_ACCOUNTS
from tayho.local.process import running
from tayho.transactions.executor import signing_request
from tayho.transactions.fees import bump
from tayho.transactions.types import DYNAMIC, LEGACY, Fee, FeeCapped, Market
from tests.coordination.conftest import CHAIN_ID
from tests.services import hardhat
from tests.transactions.conftest import FEE_WEI_MAX, SIGNERS, any_call

GWEI = 10**9
CHEAP = Market(0, 0, 1)
# Neither field is a multiple of ten: rounded down, a tenth more is one wei too little.
OLD = {DYNAMIC: Fee(3 * GWEI + 7, GWEI + 3), LEGACY: Fee(3 * GWEI + 7, 3 * GWEI + 7)}


class Pool:
    """A node's pool, with one signer's transaction at nonce 0 in it."""

    def __init__(self, node: Endpoint) -> None:
        self.node = node
        self._signer = LocalSigner(
            parse_signer_keys(json.dumps(dict(PUBLIC_ACCOUNTS))), SigningPolicy(frozenset({CHAIN_ID}), FEE_WEI_MAX)
        )

    async def send(self, fee: Fee, transaction_type: int) -> bytes:
        request = signing_request(CHAIN_ID, SIGNERS[0], 0, any_call(), 30_000, fee, transaction_type)
        signed = self._signer.sign(request, _reserved(request))
        return await self.node.ask(methods.send_raw_transaction(signed.raw.reveal()))

    async def act(self, method: str, *params: Any) -> None:
        await self.node.ask(Question(method, params, lambda _: None, is_write=True))


def _reserved(request: SigningRequest) -> Reservation:
    call = call_hash(request.chain_id, request.to, request.value_wei, request.data)
    return Reservation(request.chain_id, request.signer, request.nonce, call)


@pytest.fixture(params=["anvil", "hardhat"])
async def pool(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pool]:
    served = anvil(tmp_path, Chain()) if request.param == "anvil" else running(hardhat.prepare(tmp_path))
    async with served as node, Endpoint.open(node.service.url, chain_id=CHAIN_ID) as endpoint:
        found = Pool(endpoint)
        await found.act("evm_setAutomine", False)
        yield found


def _next(fee: Fee, transaction_type: int, basis_points: int = 1_000) -> Fee:
    new = bump(fee, CHEAP, bump_basis_points=basis_points, fee_wei_max=FEE_WEI_MAX, transaction_type=transaction_type)
    assert isinstance(new, Fee)
    return new


@pytest.mark.parametrize("transaction_type", [DYNAMIC, LEGACY])
async def test_a_node_takes_each_bump_up_to_the_ceiling(pool: Pool, transaction_type: int) -> None:
    """Goal: no bump is ever "replacement underpriced". Method: a real pool with blocks held back; bump by the default
    basis points until capped, each sent; then let a block come, and see the last one mined."""
    fee = OLD[transaction_type]
    sent = await pool.send(fee, transaction_type)
    bumps = 0
    while not isinstance(
        new := bump(fee, CHEAP, bump_basis_points=1_250, fee_wei_max=FEE_WEI_MAX, transaction_type=transaction_type),
        FeeCapped,
    ):
        fee, bumps = new, bumps + 1
        sent = await pool.send(fee, transaction_type)
    assert bumps == 29
    await pool.act("evm_mine")
    receipt = await pool.node.ask(methods.transaction_receipt(sent))
    assert receipt is not None
    assert receipt.succeeded


@pytest.mark.parametrize(
    "less",
    [{"max_fee_per_gas_wei": 1}, {"max_priority_fee_per_gas_wei": 1}],
    ids=["max fee", "tip"],
)
async def test_one_wei_less_on_either_field_is_refused(less: dict[str, int], tmp_path: Path) -> None:
    """Goal: the rise is the least that the strictest node takes, rounded up, on both fields. Method: hardhat, at
    exactly its tenth: one wei less on one field is refused, the whole is taken."""
    async with (
        running(hardhat.prepare(tmp_path)) as node,
        Endpoint.open(node.service.url, chain_id=CHAIN_ID) as endpoint,
    ):
        pool = Pool(endpoint)
        await pool.act("evm_setAutomine", False)
        await pool.send(OLD[DYNAMIC], DYNAMIC)
        new = _next(OLD[DYNAMIC], DYNAMIC)
        short = evolve(new, **{name: getattr(new, name) - wei for name, wei in less.items()})
        with pytest.raises(RpcRefused, match=r"(?i)replacement transaction underpriced"):
            await pool.send(short, DYNAMIC)
        await pool.send(new, DYNAMIC)


async def test_one_wei_less_of_a_gas_price_is_refused(tmp_path: Path) -> None:
    """Goal: the same for a legacy transaction's one price. Method: hardhat, one wei less, then the whole."""
    async with (
        running(hardhat.prepare(tmp_path)) as node,
        Endpoint.open(node.service.url, chain_id=CHAIN_ID) as endpoint,
    ):
        pool = Pool(endpoint)
        await pool.act("evm_setAutomine", False)
        await pool.send(OLD[LEGACY], LEGACY)
        price_wei = _next(OLD[LEGACY], LEGACY).max_fee_per_gas_wei
        with pytest.raises(RpcRefused, match=r"(?i)replacement transaction underpriced"):
            await pool.send(Fee(price_wei - 1, price_wei - 1), LEGACY)
        await pool.send(Fee(price_wei, price_wei), LEGACY)
