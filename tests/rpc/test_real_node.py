"""Against real EVM nodes (anvil, hardhat): the schemas, the errors and the batches of something nobody here wrote."""

from __future__ import annotations

import pytest
from eth_utils.crypto import keccak

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.errors import EndpointFault, Reverted, RpcRefused, WrongChain
from rpc.methods import CallRequest
from rpc.reads import Call
from rpc.values import Receipt
from tests.custody.oracle import Account
from tests.waiting import until

CHAIN_ID = 31337
# The first account of anvil's public test mnemonic.
ACCOUNT = Account.from_key("0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")
SENDER = bytes.fromhex(ACCOUNT.address[2:])
NOBODY = b"\x42" * 20

# Reverts with Error("no"): PUSH and MSTORE the encoding, then REVERT.
REVERT_DATA = bytes.fromhex("08c379a0") + (32).to_bytes(32, "big") + (2).to_bytes(32, "big") + b"no".ljust(32, b"\0")
REVERTS_ALWAYS = (
    b"".join(
        b"\x7f" + REVERT_DATA[at : at + 32].ljust(32, b"\0") + b"\x61" + at.to_bytes(2, "big") + b"\x52"
        for at in range(0, len(REVERT_DATA), 32)
    )
    + b"\x60"
    + bytes([len(REVERT_DATA)])
    + b"\x5f\xfd"
)
# Emits LOG2(topics 1, 2; data: one word of 5), whatever it is called with.
LOGS_ALWAYS = bytes.fromhex("60055f52600260016020" + "5fa2" + "00")


def deployment(code: bytes) -> bytes:
    """Init code that returns `code`."""
    head = bytes.fromhex("61") + len(code).to_bytes(2, "big") + bytes.fromhex("80600c5f395ff3")
    return head.ljust(12, b"\0") + code


def signed(nonce: int, *, to: bytes | None, data: bytes = b"", value_wei: int = 0, max_fee_wei: int = 10**10) -> bytes:
    transaction = {
        "type": 2,
        "chainId": CHAIN_ID,
        "nonce": nonce,
        "gas": 500_000,
        "maxFeePerGas": max_fee_wei,
        "maxPriorityFeePerGas": 1,
        "value": value_wei,
        "data": data,
    } | ({} if to is None else {"to": to})
    return bytes(ACCOUNT.sign_transaction(transaction).raw_transaction)


async def mined(endpoint: Endpoint, raw: bytes) -> Receipt:
    """Broadcast, and wait for the receipt."""
    transaction_hash = await endpoint.ask(methods.send_raw_transaction(raw))
    assert transaction_hash == keccak(raw)
    asked = methods.transaction_receipt(transaction_hash)

    async def is_mined() -> bool:
        return await endpoint.ask(asked) is not None

    await until(is_mined, what="the transaction to be mined")
    receipt = await endpoint.ask(asked)
    assert receipt is not None
    return receipt


async def test_a_transaction_from_nonce_to_receipt(node_url: str) -> None:
    """Goal: every method of a transaction's way is read as it is. Method: a transfer on a real node."""
    async with Endpoint.open(node_url, chain_id=CHAIN_ID) as node:
        assert (await node.ask(methods.client_version())).startswith(("anvil/", "HardhatNetwork/"))
        assert await node.ask(methods.chain_id()) == CHAIN_ID
        assert await node.ask(methods.block_number()) == 0
        genesis = await node.ask(methods.block_by_number(0))
        assert genesis is not None
        assert await node.ask(methods.block_by_hash(genesis.hash)) == genesis
        assert await node.ask(methods.transaction_count(SENDER, "pending")) == 0
        assert await node.ask(methods.balance(NOBODY, genesis.hash)) == 0
        assert await node.ask(methods.max_priority_fee_per_gas()) > 0
        assert await node.ask(methods.gas_price()) > 0
        request = CallRequest(SENDER, NOBODY, value_wei=5, max_fee_per_gas_wei=10**10, max_priority_fee_per_gas_wei=1)
        # The search of one of them ends one above.
        assert await node.ask(methods.estimate_gas(request)) in {21_000, 21_001}

        receipt = await mined(node, signed(0, to=NOBODY, value_wei=5))
        assert (receipt.status, receipt.type, receipt.sender, receipt.to) == (1, 2, SENDER, NOBODY)
        assert (receipt.gas_used, receipt.block_number, receipt.logs) == (21000, 1, ())
        transaction = await node.ask(methods.transaction_by_hash(receipt.transaction_hash))
        assert transaction is not None
        assert (transaction.nonce, transaction.value_wei, transaction.chain_id) == (0, 5, CHAIN_ID)
        assert transaction.block_hash == receipt.block_hash
        header = await node.ask(methods.block_by_number("latest"))
        assert header is not None
        assert (header.hash, header.parent_hash) == (receipt.block_hash, genesis.hash)
        assert header.base_fee_per_gas_wei is not None
        assert receipt.effective_gas_price_wei == header.base_fee_per_gas_wei + 1
        assert await node.ask(methods.balance(NOBODY, "latest")) == 5
        assert await node.ask(methods.balance(NOBODY, 0)) == 0
        history = await node.ask(methods.fee_history(2, 1, [50]))
        assert history == await node.ask(methods.fee_history(2, "latest", [50]))
        assert history.base_fee_per_gas_wei[1] == header.base_fee_per_gas_wei
        assert history.reward_wei[1] == (1,)


async def test_contracts_events_and_reverts(node_url: str) -> None:
    """Goal: code, events and reverts are read as they are. Method: two small contracts on a real node."""
    async with Endpoint.open(node_url, chain_id=CHAIN_ID) as node:
        logger = (await mined(node, signed(0, to=None, data=deployment(LOGS_ALWAYS)))).contract_address
        reverter = (await mined(node, signed(1, to=None, data=deployment(REVERTS_ALWAYS)))).contract_address
        assert logger is not None
        assert reverter is not None
        assert await node.ask(methods.code(logger, "latest")) == LOGS_ALWAYS
        assert await node.ask(methods.code(NOBODY, "latest")) == b""
        assert await node.ask(methods.call(CallRequest(SENDER, logger), "latest")) == b""

        receipt = await mined(node, signed(2, to=logger))
        (event,) = receipt.logs
        assert (event.address, event.data) == (logger, (5).to_bytes(32, "big"))
        assert event.topics == ((1).to_bytes(32, "big"), (2).to_bytes(32, "big"))
        topics = [[(1).to_bytes(32, "big")]]
        assert await node.ask(methods.logs((0, 3), addresses=[logger], topics=topics)) == (event,)
        assert await node.ask(methods.logs(receipt.block_hash)) == (event,)
        assert await node.ask(methods.logs((0, 2))) == ()

        for call in (
            methods.call(CallRequest(SENDER, reverter), "latest"),
            methods.estimate_gas(CallRequest(SENDER, reverter)),
        ):
            with pytest.raises(Reverted) as caught:
                await node.ask(call)
            assert (caught.value.data, caught.value.reason) == (REVERT_DATA, "no")
        failed = await mined(node, signed(3, to=reverter))
        assert (failed.status, failed.succeeded, failed.reverted) == (0, False, True)


async def test_refusals_of_a_real_node(node_url: str) -> None:
    """Goal: what a node refuses is a refusal, no fault. Method: transactions and blocks it must refuse."""
    async with Endpoint.open(node_url, chain_id=CHAIN_ID) as node:
        raw = signed(0, to=NOBODY)
        await mined(node, raw)
        refused: list[Call[bytes] | Call[int]] = [
            methods.send_raw_transaction(raw),
            methods.send_raw_transaction(b"\x02\x01"),
            methods.send_raw_transaction(signed(1, to=NOBODY, max_fee_wei=1)),
            methods.balance(SENDER, 10**6),
            methods.balance(SENDER, b"\x07" * 32),
        ]
        for call in refused:
            with pytest.raises(RpcRefused) as caught:
                await node.ask(call)
            assert type(caught.value) is RpcRefused
            assert caught.value.message
        assert await node.ask(methods.block_by_number(10**6)) is None
        assert await node.ask(methods.transaction_by_hash(b"\x07" * 32)) is None
        assert await node.ask(methods.transaction_receipt(b"\x07" * 32)) is None


async def test_a_batch_of_a_real_node(node_url: str) -> None:
    """Goal: batches of any outcome, in order. Method: 120 mixed questions in batches of 50."""
    async with Endpoint.open(node_url, chain_id=CHAIN_ID, batch_items_max=50) as node:
        mixed = [methods.block_number(), methods.balance(SENDER, 10**6), methods.transaction_receipt(b"\x07" * 32)]
        outcomes = await node.ask_many(mixed * 40)
    assert outcomes[0::3] == [0] * 40
    assert all(type(outcome) is RpcRefused for outcome in outcomes[1::3])
    assert outcomes[2::3] == [None] * 40


async def test_a_real_node_of_another_chain(node_url: str) -> None:
    """Goal: RPC-6 on a real node. Method: expect mainnet."""
    async with Endpoint.open(node_url, chain_id=1) as node:
        with pytest.raises(WrongChain, match="serves chain id 31337, expected 1"):
            await node.ask(methods.block_number())


async def test_an_answer_too_large_for_us(node_url: str) -> None:
    """Goal: our bound holds for a real node, which then still works. Method: a bound below one block."""
    async with Endpoint.open(node_url, chain_id=CHAIN_ID, body_bytes_max=500) as node:
        with pytest.raises(EndpointFault, match="larger than 500 bytes"):
            await node.ask(methods.block_by_number("latest"))
        assert await node.ask(methods.block_number()) == 0
