"""From the values of `rpc.values` back to canonical JSON: what evidence keeps of an answer, never a voter's own body.

`render(schemas.x(document))` says what `document` said, in one form for each value: quantities without leading zeros,
bytes in lower case, members that are None left out (but `to`), the bloom of a receipt made from its logs. Reading it
again gives an equal value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import NoneType
from typing import Any, TypeAlias, cast

from rpc.bloom import logs_bloom
from rpc.quantities import as_data, as_quantity
from rpc.values import AccountProof, FeeHistory, Header, Log, Receipt, StorageProof, Transaction

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
_Names: TypeAlias = Mapping[str, str | Callable[[object], Json]]

# The creation of a contract: the member must be there, saying so.
_TOLD_AS_NULL = frozenset({"to"})


def render(value: object) -> Json:
    """A value of ours as JSON. An int becomes a QUANTITY, bytes become DATA, a Decimal a JSON number.

    Raises TypeError for a value of another type: nothing foreign is ever rendered.
    """
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    if isinstance(value, Decimal):
        # The nodes' own ratios are 64-bit floats, so the shortest form that reads back is theirs.
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, tuple | list):
        return [render(item) for item in cast("list[object]", value)]
    names = _MEMBERS.get(type(value))
    if names is None:
        raise TypeError(f"no value of a chain is a {type(value).__name__}")
    return _members(value, names)


def rendered(value: object) -> str:
    """Canonical text of a value of ours: members in the order of their names, no blanks, ASCII. Raises as `render`."""
    return json.dumps(render(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _members(value: object, names: _Names) -> dict[str, Json]:
    members: dict[str, Json] = {}
    for name, attribute in names.items():
        member = render(getattr(value, attribute)) if isinstance(attribute, str) else attribute(value)
        if member is not None or name in _TOLD_AS_NULL:
            members[name] = member
    return members


def _bloom(value: object) -> Json:
    return as_data(logs_bloom(cast("Receipt", value).logs))


def _slot(value: object) -> Json:
    return as_data(cast("StorageProof", value).slot.to_bytes(32, "big"))


_HEADER: _Names = {
    "number": "number",
    "hash": "hash",
    "parentHash": "parent_hash",
    "sha3Uncles": "uncles_hash",
    "miner": "miner",
    "stateRoot": "state_root",
    "transactionsRoot": "transactions_root",
    "receiptsRoot": "receipts_root",
    "logsBloom": "logs_bloom",
    "difficulty": "difficulty",
    "gasLimit": "gas_limit",
    "gasUsed": "gas_used",
    "timestamp": "timestamp_seconds",
    "extraData": "extra_data",
    "mixHash": "mix_hash",
    "nonce": "nonce",
    "baseFeePerGas": "base_fee_per_gas_wei",
    "withdrawalsRoot": "withdrawals_root",
    "blobGasUsed": "blob_gas_used",
    "excessBlobGas": "excess_blob_gas",
    "parentBeaconBlockRoot": "parent_beacon_block_root",
    "requestsHash": "requests_hash",
}

_LOG: _Names = {
    "address": "address",
    "topics": "topics",
    "data": "data",
    "logIndex": "log_index",
    "removed": "removed",
    "transactionHash": "transaction_hash",
    "transactionIndex": "transaction_index",
    "blockHash": "block_hash",
    "blockNumber": "block_number",
}

_RECEIPT: _Names = {
    "transactionHash": "transaction_hash",
    "transactionIndex": "transaction_index",
    "blockHash": "block_hash",
    "blockNumber": "block_number",
    "type": "type",
    "status": "status",
    "root": "post_state_root",
    "from": "sender",
    "to": "to",
    "contractAddress": "contract_address",
    "gasUsed": "gas_used",
    "cumulativeGasUsed": "cumulative_gas_used",
    "effectiveGasPrice": "effective_gas_price_wei",
    "logs": "logs",
    "logsBloom": _bloom,
}

_TRANSACTION: _Names = {
    "hash": "hash",
    "type": "type",
    "from": "sender",
    "to": "to",
    "nonce": "nonce",
    "value": "value_wei",
    "gas": "gas_limit",
    "input": "input",
    "chainId": "chain_id",
    "gasPrice": "gas_price_wei",
    "maxFeePerGas": "max_fee_per_gas_wei",
    "maxPriorityFeePerGas": "max_priority_fee_per_gas_wei",
    "blockHash": "block_hash",
    "blockNumber": "block_number",
    "transactionIndex": "transaction_index",
}

_FEE_HISTORY: _Names = {
    "oldestBlock": "oldest_block",
    "baseFeePerGas": "base_fee_per_gas_wei",
    "gasUsedRatio": "gas_used_ratio",
    "reward": "reward_wei",
}

_STORAGE_PROOF: _Names = {"key": _slot, "value": "value", "proof": "nodes"}

_ACCOUNT_PROOF: _Names = {
    "address": "address",
    "nonce": "nonce",
    "balance": "balance_wei",
    "codeHash": "code_hash",
    "storageHash": "storage_root",
    "accountProof": "nodes",
    "storageProof": "storage",
}

_MEMBERS: Mapping[type, _Names] = {
    Header: _HEADER,
    Log: _LOG,
    Receipt: _RECEIPT,
    Transaction: _TRANSACTION,
    FeeHistory: _FEE_HISTORY,
    StorageProof: _STORAGE_PROOF,
    AccountProof: _ACCOUNT_PROOF,
}


def _as_it_is(value: Any) -> Json:
    return value


# By the exact type: a bool is an int to Python, and none to a chain.
_WRITERS: Mapping[type, Callable[[Any], Json]] = {
    NoneType: _as_it_is,
    bool: _as_it_is,
    str: _as_it_is,
    int: as_quantity,
    bytes: as_data,
}
