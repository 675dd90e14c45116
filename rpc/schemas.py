"""From parsed JSON to the values of `rpc.values`: every field by its own schema, or Unreadable.

Sources: execution-apis `schemas/`, and facts/rpc.md 2.4 for the fields of a receipt. A field that every node gives is
required; the few that the schema leaves optional, or that old chains lack, are named where they are read.
"""

from __future__ import annotations

from decimal import Decimal

from rpc.foreign_text import printable
from rpc.members import Members, array_of, boolean
from rpc.quantities import Unreadable, address20, bloom256, data, excerpt, hash32, quantity, uint64, uint256
from rpc.values import AccountProof, FeeHistory, Header, Log, Receipt, StorageProof, Transaction

_TOPICS_MAX = 4
_UNKNOWN_MEMBERS_MAX = 8
_UNKNOWN_NAME_CHARACTERS_MAX = 40
# What a node tells of a block beside its header.
_BESIDE_THE_HEADER = frozenset({"hash", "size", "totalDifficulty", "transactions", "uncles", "withdrawals"})
_HEADER_MEMBERS = frozenset(
    {
        *("parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot", "logsBloom"),
        *("difficulty", "number", "gasLimit", "gasUsed", "timestamp", "extraData", "mixHash", "nonce", "baseFeePerGas"),
        *("withdrawalsRoot", "blobGasUsed", "excessBlobGas", "parentBeaconBlockRoot", "requestsHash"),
    }
)
_TYPE_MAX = 0x7F  # EIP-2718


def header(document: object) -> Header:
    """A block as eth_getBlockBy… gives it, without its transactions."""
    block = Members.of(document, "block")
    return Header(
        number=block.read("number", uint64),
        hash=block.read("hash", hash32),
        parent_hash=block.read("parentHash", hash32),
        timestamp_seconds=block.read("timestamp", uint64),
        # Absent before London.
        base_fee_per_gas_wei=block.read_if_there("baseFeePerGas", uint256),
        gas_limit=block.read("gasLimit", uint64),
        gas_used=block.read("gasUsed", uint64),
        receipts_root=block.read("receiptsRoot", hash32),
        state_root=block.read("stateRoot", hash32),
        transactions_root=block.read("transactionsRoot", hash32),
        logs_bloom=block.read("logsBloom", bloom256),
        miner=block.read("miner", address20),
        # Needed for the block's hash alone: a node that leaves one out is believed by vote, never by proof.
        uncles_hash=block.read_if_there("sha3Uncles", hash32),
        difficulty=block.read_if_there("difficulty", uint256),
        extra_data=block.read_if_there("extraData", data),
        mix_hash=block.read_if_there("mixHash", hash32),
        nonce=block.read_if_there("nonce", _block_nonce),
        # Each absent before its fork: Shanghai, Cancun, Cancun, Cancun, Prague.
        withdrawals_root=block.read_if_there("withdrawalsRoot", hash32),
        blob_gas_used=block.read_if_there("blobGasUsed", uint64),
        excess_blob_gas=block.read_if_there("excessBlobGas", uint64),
        parent_beacon_block_root=block.read_if_there("parentBeaconBlockRoot", hash32),
        requests_hash=block.read_if_there("requestsHash", hash32),
        unknown_members=_unknown_members(block),
    )


def _block_nonce(value: object) -> bytes:
    return data(value, 8)


def _unknown_members(block: Members) -> tuple[str, ...]:
    unknown = sorted(set(block.values) - _HEADER_MEMBERS - _BESIDE_THE_HEADER)
    return tuple(printable(name, _UNKNOWN_NAME_CHARACTERS_MAX) for name in unknown[:_UNKNOWN_MEMBERS_MAX])


def log(document: object) -> Log:
    """An event of a mined transaction."""
    event = Members.of(document, "log")
    topics = event.read("topics", array_of(hash32))
    if len(topics) > _TOPICS_MAX:
        raise Unreadable(f"log.topics: the EVM has no event with {len(topics)} topics")
    return Log(
        address=event.read("address", address20),
        topics=topics,
        data=event.read("data", data),
        log_index=event.read("logIndex", uint64),
        # The schema leaves it optional; a node that does not speak of it has not removed it.
        removed=event.read_if_there("removed", boolean) or False,
        transaction_hash=event.read("transactionHash", hash32),
        transaction_index=event.read("transactionIndex", uint64),
        block_hash=event.read("blockHash", hash32),
        block_number=event.read("blockNumber", uint64),
    )


def receipt(document: object) -> Receipt:
    """The receipt of a mined transaction, whose logs belong to it and to its block."""
    members = Members.of(document, "receipt")
    status = members.read_if_there("status", _status)
    # Some nodes send a root of any content beside the status: it is read only where it takes the status's place.
    post_state_root = members.read_if_there("root", hash32) if status is None else None
    if status is None and post_state_root is None:
        raise Unreadable("receipt.status is missing")
    parsed = Receipt(
        transaction_hash=members.read("transactionHash", hash32),
        transaction_index=members.read("transactionIndex", uint64),
        block_hash=members.read("blockHash", hash32),
        block_number=members.read("blockNumber", uint64),
        status=status,
        post_state_root=post_state_root,
        sender=members.read("from", address20),
        to=members.read_or_none("to", address20),
        # The schema leaves it optional: some nodes give it for creations only.
        contract_address=members.read_if_there("contractAddress", address20),
        gas_used=members.read("gasUsed", uint64),
        cumulative_gas_used=members.read("cumulativeGasUsed", uint64),
        effective_gas_price_wei=members.read("effectiveGasPrice", uint256),
        logs=members.read("logs", array_of(log)),
        type=members.read("type", _transaction_type),
        logs_bloom=members.read_if_there("logsBloom", bloom256),
    )
    _require_one_story(parsed)
    return parsed


def _require_one_story(parsed: Receipt) -> None:
    """Refuse a receipt whose parts contradict each other: mixed from two transactions, or of two blocks."""
    if parsed.gas_used > parsed.cumulative_gas_used:
        raise Unreadable("receipt: gasUsed exceeds cumulativeGasUsed")
    place = (parsed.transaction_hash, parsed.transaction_index, parsed.block_hash, parsed.block_number)
    for event in parsed.logs:
        if (event.transaction_hash, event.transaction_index, event.block_hash, event.block_number) != place:
            raise Unreadable(f"receipt: log {event.log_index} belongs to another transaction or block")
    require_distinct(parsed.logs)


def require_distinct(events: tuple[Log, ...]) -> None:
    """Refuse one event given twice: counted twice, it would be money twice."""
    if len({(event.block_hash, event.log_index) for event in events}) != len(events):
        raise Unreadable("one log is given twice")


def transaction(document: object) -> Transaction:
    """A pending or mined transaction of any type."""
    members = Members.of(document, "transaction")
    kind = members.read("type", _transaction_type)
    parsed = Transaction(
        hash=members.read("hash", hash32),
        type=kind,
        sender=members.read("from", address20),
        to=members.read_or_none("to", address20),
        nonce=members.read("nonce", uint64),
        value_wei=members.read("value", uint256),
        gas_limit=members.read("gas", uint64),
        input=members.read("input", data),
        # Absent in legacy transactions signed before EIP-155.
        chain_id=members.read_if_there("chainId", uint256),
        # Some nodes leave it out while a type 2 transaction is pending.
        gas_price_wei=members.read_if_there("gasPrice", uint256),
        max_fee_per_gas_wei=members.read_if_there("maxFeePerGas", uint256),
        max_priority_fee_per_gas_wei=members.read_if_there("maxPriorityFeePerGas", uint256),
        block_hash=_block_hash_or_none(members),
        block_number=members.read_if_there("blockNumber", uint64),
        transaction_index=members.read_if_there("transactionIndex", uint64),
    )
    if kind >= 2 and (parsed.max_fee_per_gas_wei is None or parsed.max_priority_fee_per_gas_wei is None):
        raise Unreadable("transaction: type 2 without its fee limits")
    if (parsed.block_hash is None) != (parsed.block_number is None):
        raise Unreadable("transaction: blockHash and blockNumber contradict each other")
    if parsed.block_hash is not None and parsed.transaction_index is None:
        raise Unreadable("transaction: mined but without an index")
    return parsed


def _block_hash_or_none(members: Members) -> bytes | None:
    """The hash of the block. All zeros names no block: infura sends it with a pending transaction (infura#30)."""
    block_hash = members.read_if_there("blockHash", hash32)
    return block_hash if block_hash is not None and any(block_hash) else None


def fee_history(document: object, percentiles: int) -> FeeHistory:
    """The answer of eth_feeHistory to a question with so many percentiles; its rows must match each other."""
    members = Members.of(document, "fee history")
    parsed = FeeHistory(
        oldest_block=members.read("oldestBlock", uint64),
        base_fee_per_gas_wei=members.read("baseFeePerGas", array_of(uint256)),
        gas_used_ratio=members.read("gasUsedRatio", array_of(_ratio)),
        # Without percentiles nodes give null, an empty array, or nothing.
        reward_wei=members.read("reward", array_of(array_of(uint256))) if percentiles else (),
    )
    blocks = len(parsed.gas_used_ratio)
    if len(parsed.base_fee_per_gas_wei) != blocks + 1:
        raise Unreadable(f"fee history: {blocks} ratios but {len(parsed.base_fee_per_gas_wei)} base fees")
    if percentiles and [len(row) for row in parsed.reward_wei] != [percentiles] * blocks:
        raise Unreadable(f"fee history: reward is not {blocks} rows of {percentiles}")
    return parsed


def account_proof(document: object) -> AccountProof:
    """The answer of eth_getProof."""
    members = Members.of(document, "account proof")
    return AccountProof(
        address=members.read("address", address20),
        nonce=members.read("nonce", uint64),
        balance_wei=members.read("balance", uint256),
        code_hash=members.read("codeHash", hash32),
        storage_root=members.read("storageHash", hash32),
        nodes=members.read("accountProof", array_of(data)),
        storage=members.read("storageProof", array_of(_storage_proof)),
    )


def _storage_proof(document: object) -> StorageProof:
    members = Members.of(document, "storage proof")
    return StorageProof(
        slot=members.read("key", _slot),
        value=members.read("value", uint256),
        nodes=members.read("proof", array_of(data)),
    )


def _slot(value: object) -> int:
    """A storage slot: nodes write it as a quantity, as 32 bytes, or as it was asked."""
    if isinstance(value, str) and len(value) == 66:
        return int.from_bytes(data(value, 32), "big")
    return uint256(value)


def _status(value: object) -> int:
    """0 reverted, 1 succeeded (EIP-658)."""
    return quantity(value, 1)


def _transaction_type(value: object) -> int:
    number = quantity(value, 8)
    if number > _TYPE_MAX:
        raise Unreadable(f"no transaction type is {number}")
    return number


def _ratio(value: object) -> Decimal:
    """A JSON number from 0 to 1. Whole numbers come as int, fractions as Decimal; true is an int in Python."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Unreadable(f"expected a number, found {excerpt(value)}")
    if not 0 <= value <= 1:
        raise Unreadable("a ratio is from 0 to 1")
    return Decimal(value)
