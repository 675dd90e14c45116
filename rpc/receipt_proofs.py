"""Whether receipts and transactions are those of a block, by the two roots of its header.

The receipts root covers type, outcome, cumulative gas and events, by place in the block. Which transaction stands in a
place, who sent it, where to and at what price, only the transactions root and the signature tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rpc.block_transactions import BLOB, LEGACY, SET_CODE, OtherTransaction, SignedTransaction
from rpc.bloom import joined, logs_bloom
from rpc.proof_errors import ProofRefuted, Unprovable
from rpc.quantities import as_data
from rpc.rlp_items import Rlp, encode, integer
from rpc.transaction_bytes import contract_address, recovery_bit, signed_bytes, signing_digest, transaction_hash
from rpc.trie import root_of
from rpc.values import Header, Log, Receipt

Recover: TypeAlias = Callable[[bytes, int, int, int], bytes]
"""From (digest, recovery bit, r, s) the address of the key that signed. Raises ValueError for no signature.

Handed in, because key cryptography is not this package's: `tayho.custody` has one.
"""


def receipts_root(receipts: Sequence[Receipt]) -> bytes:
    """The root that these receipts make, with blooms of our own. Raises Unprovable for a type that we do not know."""
    return _receipts_root(receipts, _blooms(receipts))


def transactions_root(transactions: Sequence[SignedTransaction | OtherTransaction]) -> bytes:
    """The root that these transactions make. Raises Unprovable for a type that we do not know."""
    return _list_root([signed_bytes(transaction) for transaction in transactions])


def verify_receipts(header: Header, receipts: Sequence[Receipt]) -> None:
    """Return when these are the block's receipts, all of them and in order. The header must be verified itself.

    Proven then: type, outcome, cumulative and own gas, every event with its indices, the bloom where told. Not yet
    proven: what `verify_receipt` looks at. Raises ProofRefuted, or Unprovable for a type that we do not know.
    """
    subject = f"receipts of block {header.number} 0x{header.hash.hex()}"
    blooms = _blooms(receipts)
    _require(subject, "receiptsRoot", header.receipts_root, _receipts_root(receipts, blooms))
    cumulative = log_index = 0
    for place, (receipt, bloom) in enumerate(zip(receipts, blooms, strict=True)):
        one = f"receipt {place} of block {header.number} 0x{header.hash.hex()}"
        _require_place(one, header, place, receipt)
        _require(one, "gasUsed", receipt.cumulative_gas_used - cumulative, receipt.gas_used)
        if receipt.status is not None:
            _require(one, "root", None, receipt.post_state_root)
        for event in receipt.logs:
            _require_log(one, receipt, log_index, event)
            log_index += 1
        if receipt.logs_bloom is not None:
            _require(one, "logsBloom", bloom, receipt.logs_bloom)
        cumulative = receipt.cumulative_gas_used
    _require(subject, "the gas used", header.gas_used, cumulative)
    _require(subject, "the bloom", header.logs_bloom, joined(blooms))


def verify_transactions(header: Header, transactions: Sequence[SignedTransaction | OtherTransaction]) -> None:
    """Return when these are the block's transactions, all of them and in order. The header must be verified itself.

    Proven then: their hashes, and every signed field. Raises ProofRefuted, or Unprovable for a type we do not know
    and where a list with blob transactions does not make the root.
    """
    subject = f"transactions of block {header.number} 0x{header.hash.hex()}"
    root = transactions_root(transactions)
    for place, transaction in enumerate(transactions):
        one = f"transaction {place} of block {header.number} 0x{header.hash.hex()}"
        _require(one, "transactionIndex", place, transaction.index)
        _require(one, "blockHash", header.hash, transaction.block_hash)
        _require(one, "hash", transaction_hash(transaction), transaction.hash)
    if root != header.transactions_root and any(transaction.type == BLOB for transaction in transactions):
        # Anvil 1.7.1 makes its root over blob transactions with their blobs, which nobody tells. It is not accused for
        # that: a liar could as well have told nothing.
        raise Unprovable(f"{subject} do not make its transactionsRoot, which this node may make over blobs too")
    _require(subject, "transactionsRoot", header.transactions_root, root)


def verify_receipt(
    header: Header, receipt: Receipt, transaction: SignedTransaction | OtherTransaction, recover: Recover
) -> None:
    """Return when what the receipts root does not cover follows from the transaction and its signature too.

    Transaction hash, sender, recipient, created contract, price. `receipt` and `transaction` are of one place, each
    verified with its block. Raises ProofRefuted, or Unprovable where the signature names no sender.
    """
    subject = f"receipt of transaction 0x{transaction.hash.hex()}"
    _require(subject, "transactionHash", transaction.hash, receipt.transaction_hash)
    _require(subject, "type", transaction.type, receipt.type)
    if isinstance(transaction, OtherTransaction):
        raise Unprovable(f"{subject} is of type {transaction.type}, whose sender we cannot recover")
    sender = sender_of(transaction, recover)
    _require(subject, "from", sender, receipt.sender)
    _require(subject, "to", transaction.to, receipt.to)
    _require(subject, "effectiveGasPrice", _price_wei(header, transaction), receipt.effective_gas_price_wei)
    created = contract_address(sender, transaction.nonce) if transaction.to is None else None
    # Some nodes name no contract where the creation failed.
    if receipt.succeeded or receipt.contract_address is not None:
        _require(subject, "contractAddress", created, receipt.contract_address)


def sender_of(transaction: SignedTransaction, recover: Recover) -> bytes:
    """Who signed it. Raises ProofRefuted where another sender was told, Unprovable where the signature is none."""
    try:
        sender = recover(signing_digest(transaction), recovery_bit(transaction), transaction.r, transaction.s)
    except ValueError as error:
        raise Unprovable(f"transaction 0x{transaction.hash.hex()} is not signed: {error}") from error
    _require(f"transaction 0x{transaction.hash.hex()}", "from", sender, transaction.sender)
    return sender


def _blooms(receipts: Sequence[Receipt]) -> list[bytes]:
    return [logs_bloom(receipt.logs) for receipt in receipts]


def _receipts_root(receipts: Sequence[Receipt], blooms: Sequence[bytes]) -> bytes:
    return _list_root([_receipt_bytes(receipt, bloom) for receipt, bloom in zip(receipts, blooms, strict=True)])


def _receipt_bytes(receipt: Receipt, bloom: bytes) -> bytes:
    """EIP-2718 and EIP-658; before Byzantium the state root in the outcome's place."""
    if receipt.type > SET_CODE:
        raise Unprovable(f"receipt of transaction 0x{receipt.transaction_hash.hex()} is of type {receipt.type}")
    outcome = receipt.post_state_root if receipt.status is None else integer(receipt.status)
    if outcome is None:
        raise Unprovable(f"receipt of transaction 0x{receipt.transaction_hash.hex()} has neither status nor root")
    events: list[Rlp] = [[event.address, list(event.topics), event.data] for event in receipt.logs]
    encoded = encode([outcome, integer(receipt.cumulative_gas_used), bloom, events])
    return encoded if receipt.type == LEGACY else bytes([receipt.type]) + encoded


def _list_root(items: Sequence[bytes]) -> bytes:
    return root_of({encode(integer(place)): item for place, item in enumerate(items)})


def _price_wei(header: Header, transaction: SignedTransaction) -> int:
    """What a unit of gas cost (EIP-1559)."""
    if transaction.gas_price_wei is not None:
        return transaction.gas_price_wei
    maximum, tip = transaction.max_fee_per_gas_wei, transaction.max_priority_fee_per_gas_wei
    if maximum is None or tip is None or header.base_fee_per_gas_wei is None:
        raise Unprovable(f"transaction 0x{transaction.hash.hex()} has no price that follows from its block")
    return min(maximum, header.base_fee_per_gas_wei + tip)


def _require_place(subject: str, header: Header, place: int, told: Receipt) -> None:
    _require(subject, "transactionIndex", place, told.transaction_index)
    _require(subject, "blockHash", header.hash, told.block_hash)
    _require(subject, "blockNumber", header.number, told.block_number)


def _require_log(subject: str, receipt: Receipt, log_index: int, event: Log) -> None:
    one = f"{subject}, log {log_index}"
    _require(one, "logIndex", log_index, event.log_index)
    _require(one, "transactionIndex", receipt.transaction_index, event.transaction_index)
    _require(one, "transactionHash", receipt.transaction_hash, event.transaction_hash)
    _require(one, "blockHash", receipt.block_hash, event.block_hash)
    _require(one, "blockNumber", receipt.block_number, event.block_number)
    if event.removed:
        raise ProofRefuted(one, "removed", "false", "true")


def _require(subject: str, what: str, expected: bytes | int | None, found: bytes | int | None) -> None:
    if expected != found:
        raise ProofRefuted(subject, what, _shown(expected), _shown(found))


def _shown(value: bytes | int | None) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else as_data(value)
