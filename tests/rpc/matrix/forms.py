"""Values in one form that all three sides write alike: JSON, hex in lower case, big numbers as decimal strings."""

from __future__ import annotations

from rpc.quantities import as_data
from rpc.values import Header, Receipt


def of_receipt(receipt: Receipt | None) -> object:
    """What decisions rest on; None stays None."""
    if receipt is None:
        return None
    return {
        "blockHash": as_data(receipt.block_hash),
        "blockNumber": receipt.block_number,
        "index": receipt.transaction_index,
        "status": receipt.status,
        "from": as_data(receipt.sender),
        "to": None if receipt.to is None else as_data(receipt.to),
        "contractAddress": None if receipt.contract_address is None else as_data(receipt.contract_address),
        "gasUsed": str(receipt.gas_used),
        "cumulativeGasUsed": str(receipt.cumulative_gas_used),
        "effectiveGasPrice": str(receipt.effective_gas_price_wei),
        "type": receipt.type,
        "logs": [
            [as_data(event.address), [as_data(topic) for topic in event.topics], as_data(event.data), event.log_index]
            for event in receipt.logs
        ],
    }


def of_header(header: Header | None) -> object:
    """The fields that all three sides show."""
    if header is None:
        return None
    return {
        "hash": as_data(header.hash),
        "parentHash": as_data(header.parent_hash),
        "number": header.number,
        "timestamp": header.timestamp_seconds,
        "gasUsed": str(header.gas_used),
        "gasLimit": str(header.gas_limit),
        "baseFeePerGas": str(header.base_fee_per_gas_wei),
        "stateRoot": as_data(header.state_root),
        "receiptsRoot": as_data(header.receipts_root),
        "miner": as_data(header.miner),
    }


def of_finality(receipt: Receipt) -> object:
    """A transaction that is final."""
    return {"blockHash": as_data(receipt.block_hash), "status": receipt.status}
