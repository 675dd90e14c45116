"""Proofs against a real node: a block of every type of transaction, and accounts that are there or not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from eth_utils.crypto import keccak

from rpc import methods, proofs
from rpc.ballots import Agreed, Vote
from rpc.block_proofs import proven_block
from rpc.endpoint import Endpoint
from rpc.errors import RpcRefused
from rpc.projections import voted
from rpc.proof_errors import ProofRefuted
from rpc.proven import ProvenReads
from rpc.provenance import Refutation
from rpc.reads import Call
from rpc.receipt_checks import Claim, ReceiptChecks
from rpc.transaction_bytes import contract_address
from rpc.values import Header, Receipt
from tayho.custody.recovery import recovered
from tayho.local.anvil import Chain, anvil
from tests.rpc.proven_world import Majority
from tests.rpc.test_real_node import ACCOUNT, CHAIN_ID, LOGS_ALWAYS, NOBODY, SENDER, deployment
from tests.waiting import until

FEES = {"maxFeePerGas": 10**10, "maxPriorityFeePerGas": 2}
BLOB = b"\0" * 4096 * 32


def signed(nonce: int, fields: dict[str, Any], blobs: Sequence[bytes] | None = None) -> bytes:
    base = {"chainId": CHAIN_ID, "nonce": nonce, "gas": 200_000, "value": 0}
    return bytes(ACCOUNT.sign_transaction(base | fields, blobs=blobs).raw_transaction)


def of_every_type_but_blobs() -> list[bytes]:
    """Types 0, 1, 2 and 4, a creation, and one that fails."""
    to = {"to": NOBODY}
    access = {"accessList": [{"address": "0x" + NOBODY.hex(), "storageKeys": ["0x" + "01" * 32]}]}
    wish = ACCOUNT.sign_authorization({"chainId": CHAIN_ID, "address": "0x" + NOBODY.hex(), "nonce": 5})
    return [
        signed(0, to | {"gasPrice": 10**10, "value": 5}),
        signed(1, to | access | {"gasPrice": 10**10, "type": 1}),
        signed(2, FEES | {"data": deployment(LOGS_ALWAYS), "type": 2}),
        signed(3, FEES | {"data": bytes.fromhex("fe"), "type": 2}),
        signed(4, to | FEES | access | {"type": 4, "authorizationList": [wish]}),
    ]


def with_a_blob(nonce: int) -> bytes:
    return signed(nonce, FEES | {"to": NOBODY, "type": 3, "maxFeePerBlobGas": 10**10}, [BLOB])


def mine() -> Call[object]:
    return Call("evm_mine", (), lambda answer: answer)


async def mined(endpoint: Endpoint, raws: Sequence[bytes]) -> Header:
    """The header of a block of these transactions."""
    for raw in raws:
        await endpoint.ask(methods.send_raw_transaction(raw))
    await endpoint.ask(mine())
    header = await endpoint.ask(methods.block_by_number("latest"))
    assert header is not None
    return header


async def test_a_block_of_every_type_is_proven(tmp_path: Path) -> None:
    """Goal: RPC-11 on a real node, whatever it adds to its answers. Method: blocks of each type, and with events."""
    async with (
        anvil(tmp_path, Chain(mines=False)) as node,
        Endpoint.open(node.service.url, chain_id=CHAIN_ID) as endpoint,
    ):
        reads = ProvenReads([endpoint], Majority, recovered)
        raws = of_every_type_but_blobs()
        header = await mined(endpoint, raws)
        proven = await reads.receipts(header.hash, [bytes(keccak(raw)) for raw in raws])
        receipts = [receipt for receipt in proven.value.values() if receipt is not None]
        assert [(receipt.type, receipt.status) for receipt in receipts] == [(0, 1), (1, 1), (2, 1), (2, 0), (4, 1)]
        assert (proven.by, proven.refuted) == (endpoint.shown, ())
        logger = receipts[2].contract_address
        assert logger is not None

        raw = signed(6, FEES | {"to": logger, "type": 2})
        proven = await reads.receipts((await mined(endpoint, [raw])).hash, [bytes(keccak(raw))])
        (receipt,) = proven.value.values()
        assert receipt is not None
        assert (len(receipt.logs), proven.by) == (1, endpoint.shown)


async def test_a_block_with_blobs_is_not_a_lie(tmp_path: Path) -> None:
    """Goal: anvil hashes blob transactions with their blobs; it is voted on, not accused.

    Method: a block of one; its receipts root, which has no blobs in it, comes out all the same.
    """
    async with (
        anvil(tmp_path, Chain(mines=False)) as node,
        Endpoint.open(node.service.url, chain_id=CHAIN_ID) as endpoint,
    ):
        header = await mined(endpoint, [with_a_blob(0)])
        proofs.verify_header(header)
        receipts = await endpoint.ask(methods.block_receipts(header.hash)) or ()
        proofs.verify_receipts(header, receipts)
        refuted: list[Refutation] = []
        reads = ProvenReads([endpoint], Majority, recovered, refuted.append)
        proven = await reads.receipts(header.hash, [receipts[0].transaction_hash])
        assert (list(proven.value.values()), proven.by, refuted) == ([receipts[0]], None, [])
        assert "which this node may make over blobs too" in proven.reasons[0]


async def test_accounts_of_a_real_node_are_proven(node_url: str) -> None:
    """Goal: nonce, balance, storage and absence. Method: a sender, a contract that stored a word, and nobody."""
    # PUSH1 9, PUSH1 3, SSTORE in the constructor; no code.
    stores = bytes.fromhex("60096003555f5ff3")
    async with Endpoint.open(node_url, chain_id=CHAIN_ID) as endpoint:
        # A node that mines at once may answer a send before its block is the latest: the block after it tells as much.
        raws = [signed(0, FEES | {"data": stores, "type": 2}), signed(1, FEES | {"to": NOBODY, "value": 7, "type": 2})]
        header = await mined(endpoint, raws)
        reads = ProvenReads([endpoint], Majority, recovered)
        nonce = await reads.nonce(SENDER, header.hash)
        assert (nonce.value, nonce.by) == (2, endpoint.shown)
        balance = await reads.balance_wei(NOBODY, header.hash)
        assert (balance.value, balance.by) == (7, endpoint.shown)
        nothing = await reads.account(b"\x99" * 20, header.hash, [1])
        assert (nothing.value.nonce, nothing.value.balance_wei, nothing.by) == (0, 0, endpoint.shown)
        contract = await reads.account(contract_address(SENDER, 0), header.hash, [3, 4])
        assert [(item.slot, item.value) for item in contract.value.storage] == [(3, 9), (4, 0)]


async def test_a_block_of_either_node_is_proven(node_url: str) -> None:
    """Goal: what two implementations tell of a block hashes alike. Method: blocks with a transfer, a creation that logs
    and a failure, on each node: header, transactions and receipts, which one of them gives one by one only; the
    receipt is proven, and a forgery of it refuted. Then as the reconciler asks: where the method is served."""
    async with Endpoint.open(node_url, chain_id=CHAIN_ID) as endpoint:
        raws = [
            signed(0, FEES | {"to": NOBODY, "value": 7, "type": 2}),
            signed(1, FEES | {"data": deployment(LOGS_ALWAYS), "type": 2}),
            signed(2, FEES | {"data": bytes.fromhex("fe"), "type": 2}),
        ]
        claims: list[Claim] = []
        for raw in raws:
            name = bytes(keccak(raw))
            # Hardhat answers the send of a failing transaction with its failure.
            with suppress(RpcRefused):
                await endpoint.ask(methods.send_raw_transaction(raw))
            receipt = await _mined(endpoint, name)
            full = await endpoint.ask(methods.block_in_full(receipt.block_hash))
            assert full is not None
            proven = proven_block(full, [receipt], {name}, recovered)
            proven.check(name, voted(receipt))
            with pytest.raises(ProofRefuted, match=r"status|contractAddress"):
                proven.check(name, evolve(voted(receipt), status=1 - (receipt.status or 0)))
            vote = Vote(endpoint.shown, receipt, 0)
            claims.append(Claim(name, Agreed(receipt, (vote,), ()), voted(receipt), full.header))
        checked = await ReceiptChecks([endpoint], recovered).check(claims)
        is_served = "anvil" in (await endpoint.ask(methods.client_version()))
        assert len(checked.proven_by) == (len(raws) if is_served else 0), checked.reasons
        assert checked.refutations == []


async def _mined(endpoint: Endpoint, name: bytes) -> Receipt:
    """The receipt, once the block that was made for it is there."""
    found: list[Receipt] = []

    async def is_there() -> bool:
        receipt = await endpoint.ask(methods.transaction_receipt(name))
        found.extend([] if receipt is None else [receipt])
        return bool(found)

    await until(is_there, what=f"0x{name.hex()} to be mined")
    return found[0]
