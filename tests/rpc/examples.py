"""Honest JSON of a node, for tests to spoil."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

HASH = "0x" + "ab" * 32
BLOCK_HASH = "0x" + "cd" * 32
ADDRESS = "0x" + "11" * 20


def log(**changes: Any) -> dict[str, Any]:
    return {
        "address": ADDRESS,
        "topics": ["0x" + "01" * 32, "0x" + "02" * 32],
        "data": "0x1234",
        "blockNumber": "0x10",
        "blockHash": BLOCK_HASH,
        "transactionHash": HASH,
        "transactionIndex": "0x1",
        "logIndex": "0x3",
        "removed": False,
    } | changes


def receipt(**changes: Any) -> dict[str, Any]:
    return {
        "transactionHash": HASH,
        "transactionIndex": "0x1",
        "blockHash": BLOCK_HASH,
        "blockNumber": "0x10",
        "from": ADDRESS,
        "to": "0x" + "22" * 20,
        "contractAddress": None,
        "gasUsed": "0x5208",
        "cumulativeGasUsed": "0xa410",
        "effectiveGasPrice": "0x3b9aca07",
        "status": "0x1",
        "type": "0x2",
        "logs": [log(), log(logIndex="0x4")],
        "logsBloom": "0x" + "00" * 256,
    } | changes


def block(**changes: Any) -> dict[str, Any]:
    transactions: list[str] = []
    return {
        "number": "0x10",
        "hash": BLOCK_HASH,
        "parentHash": "0x" + "ef" * 32,
        "timestamp": "0x65f0c0de",
        "baseFeePerGas": "0x7",
        "gasLimit": "0x1c9c380",
        "gasUsed": "0x5208",
        "receiptsRoot": "0x" + "0a" * 32,
        "stateRoot": "0x" + "0b" * 32,
        "transactionsRoot": "0x" + "0c" * 32,
        "logsBloom": "0x" + "00" * 256,
        "miner": ADDRESS,
        "sha3Uncles": "0x" + "0d" * 32,
        "difficulty": "0x0",
        "extraData": "0x0102",
        "mixHash": "0x" + "0e" * 32,
        "nonce": "0x" + "00" * 8,
        "withdrawalsRoot": "0x" + "0f" * 32,
        "blobGasUsed": "0x20000",
        "excessBlobGas": "0x0",
        "parentBeaconBlockRoot": "0x" + "1a" * 32,
        "requestsHash": "0x" + "1b" * 32,
        "transactions": transactions,
    } | changes


def transaction(**changes: Any) -> dict[str, Any]:
    return {
        "hash": HASH,
        "type": "0x2",
        "from": ADDRESS,
        "to": None,
        "nonce": "0x5",
        "value": "0xde0b6b3a7640000",
        "gas": "0x5208",
        "input": "0x60",
        "chainId": "0x7a69",
        "gasPrice": "0x3b9aca07",
        "maxFeePerGas": "0x77359400",
        "maxPriorityFeePerGas": "0x1",
        "blockHash": BLOCK_HASH,
        "blockNumber": "0x10",
        "transactionIndex": "0x1",
    } | changes


def fee_history(**changes: Any) -> dict[str, Any]:
    return {
        "oldestBlock": "0xf",
        "baseFeePerGas": ["0x7", "0x8", "0x9"],
        "gasUsedRatio": [0, Decimal("0.5")],
        "reward": [["0x1", "0x2"], ["0x1", "0x3"]],
    } | changes


def account_proof(**changes: Any) -> dict[str, Any]:
    return {
        "address": ADDRESS,
        "nonce": "0x1",
        "balance": "0x10",
        "codeHash": "0x" + "0a" * 32,
        "storageHash": "0x" + "0b" * 32,
        "accountProof": ["0x01"],
        "storageProof": [{"key": "0x" + "00" * 31 + "07", "value": "0x8", "proof": ["0x02", "0x03"]}],
    } | changes


def without(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != name}
