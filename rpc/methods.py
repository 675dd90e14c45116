"""The JSON-RPC methods we use, each as a function from typed arguments to a `Call` with a strict reader.

Where an answer names what it is about (a block its number, a receipt its transaction), the reader refuses an answer
about something else: a node or a proxy that mixes up answers must not make us believe a wrong value (RPC-8).
All builders raise ValueError for arguments of a wrong length or sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, TypeVar

from attrs import frozen

from rpc import schemas
from rpc.block_transactions import BlockInFull, OtherTransaction, SignedTransaction
from rpc.block_transactions import block_in_full as block_in_full_of
from rpc.block_transactions import block_transactions as block_transactions_of
from rpc.foreign_text import printable
from rpc.members import array_of, text
from rpc.quantities import Unreadable, as_data, as_quantity, data, hash32, uint64, uint256
from rpc.reads import Call
from rpc.values import AccountProof, FeeHistory, Header, Log, Receipt, Transaction

__all__ = [
    "BlockRef",
    "BlockTag",
    "Call",
    "CallRequest",
    "account_proof",
    "balance",
    "block_by_hash",
    "block_by_number",
    "block_in_full",
    "block_number",
    "block_receipts",
    "block_transactions",
    "call",
    "chain_id",
    "client_version",
    "code",
    "estimate_gas",
    "fee_history",
    "gas_price",
    "logs",
    "max_priority_fee_per_gas",
    "send_raw_transaction",
    "transaction_by_hash",
    "transaction_count",
    "transaction_receipt",
]

T = TypeVar("T")

BlockTag: TypeAlias = Literal["latest", "pending", "safe", "finalized", "earliest"]
BlockRef: TypeAlias = int | bytes | BlockTag
"""A block by number, by hash (EIP-1898; refused by the node when no longer canonical), or by tag."""

_ADDRESS_BYTES = 20
_HASH_BYTES = 32
_CLIENT_VERSION_CHARACTERS_MAX = 200


@frozen
class CallRequest:
    """A message to run without sending it: what eth_call and eth_estimateGas take. None leaves it to the node."""

    sender: bytes
    to: bytes | None
    data: bytes = b""
    value_wei: int = 0
    gas_limit: int | None = None
    max_fee_per_gas_wei: int | None = None
    max_priority_fee_per_gas_wei: int | None = None
    nonce: int | None = None

    def params(self) -> dict[str, str]:
        """The JSON object of the request."""
        quantities = {
            "gas": self.gas_limit,
            "maxFeePerGas": self.max_fee_per_gas_wei,
            "maxPriorityFeePerGas": self.max_priority_fee_per_gas_wei,
            "nonce": self.nonce,
        }
        return {
            "from": as_data(self.sender, _ADDRESS_BYTES),
            **({} if self.to is None else {"to": as_data(self.to, _ADDRESS_BYTES)}),
            "data": as_data(self.data),
            "value": as_quantity(self.value_wei),
            **{name: as_quantity(number) for name, number in quantities.items() if number is not None},
        }


def chain_id() -> Call[int]:
    """The chain's id (EIP-155)."""
    return Call("eth_chainId", (), uint256)


def client_version() -> Call[str]:
    """The node's name and version, made printable."""
    return Call("web3_clientVersion", (), lambda answer: printable(text(answer), _CLIENT_VERSION_CHARACTERS_MAX))


def block_number() -> Call[int]:
    """The height of the node's head. Some nodes answer a height whose block they do not have yet."""
    return Call("eth_blockNumber", (), uint64)


def block_by_number(block: int | Literal["latest", "safe", "finalized", "earliest"]) -> Call[Header | None]:
    """The header at a height or tag; None where the node has none (yet). There is always a latest block."""

    def parse(answer: object) -> Header | None:
        if answer is None and block == "latest":
            raise Unreadable("null for the latest block")
        header = _or_none(answer, schemas.header)
        if header is not None and isinstance(block, int) and header.number != block:
            raise Unreadable(f"asked for block {block}, got block {header.number}")
        return header

    return Call("eth_getBlockByNumber", (_block(block), False), parse)


def block_by_hash(block_hash: bytes) -> Call[Header | None]:
    """The header of a block; None where the node does not know it, or no longer."""

    def parse(answer: object) -> Header | None:
        header = _or_none(answer, schemas.header)
        if header is not None:
            _require_about(block_hash, header.hash, "block")
        return header

    return Call("eth_getBlockByHash", (as_data(block_hash, _HASH_BYTES), False), parse)


def block_transactions(block_hash: bytes) -> Call[tuple[SignedTransaction | OtherTransaction, ...] | None]:
    """A block's transactions in order, with all that was signed; None where the node does not know the block."""

    def parse(answer: object) -> tuple[SignedTransaction | OtherTransaction, ...] | None:
        transactions = _or_none(answer, block_transactions_of)
        _require_in_block(block_hash, transactions or ())
        return transactions

    return Call("eth_getBlockByHash", (as_data(block_hash, _HASH_BYTES), True), parse)


def block_in_full(block_hash: bytes) -> Call[BlockInFull | None]:
    """A block's header and transactions; None where the node does not know the block."""

    def parse(answer: object) -> BlockInFull | None:
        block = _or_none(answer, block_in_full_of)
        if block is not None:
            _require_about(block_hash, block.header.hash, "block")
            _require_in_block(block_hash, block.transactions)
        return block

    return Call("eth_getBlockByHash", (as_data(block_hash, _HASH_BYTES), True), parse)


def block_receipts(block_hash: bytes) -> Call[tuple[Receipt, ...] | None]:
    """The receipts of a block's transactions in order; None where the node does not know the block.

    Not every node serves it, and some refuse its size.
    """

    def parse(answer: object) -> tuple[Receipt, ...] | None:
        receipts = _or_none(answer, array_of(schemas.receipt))
        for place, receipt in enumerate(receipts or ()):
            _require_about(block_hash, receipt.block_hash, "receipts of block")
            _require_place(place, receipt.transaction_index, "receipt")
        return receipts

    # By plain hash: EIP-1898's form is optional here, and the block's own hash in the answer is checked anyway.
    return Call("eth_getBlockReceipts", (as_data(block_hash, _HASH_BYTES),), parse)


def account_proof(address: bytes, slots: Sequence[int], block: BlockRef) -> Call[AccountProof]:
    """Nonce, balance, code hash and storage at `slots` of an account after `block`, with the trie nodes to prove them.

    Prove the answer with `rpc.proofs.verify_account`. Not every node serves it, and few for old blocks.
    """

    def parse(answer: object) -> AccountProof:
        proof = schemas.account_proof(answer)
        _require_about(address, proof.address, "account")
        if (told := [item.slot for item in proof.storage]) != list(slots):
            raise Unreadable(f"asked for {len(slots)} storage slots, got {len(told)}, or others")
        return proof

    keys = [as_data(slot.to_bytes(32, "big")) for slot in slots]
    return Call("eth_getProof", (as_data(address, _ADDRESS_BYTES), keys, _block(block)), parse)


def transaction_by_hash(transaction_hash: bytes) -> Call[Transaction | None]:
    """A transaction, pending or mined; None where the node does not know it (which says nothing about others)."""

    def parse(answer: object) -> Transaction | None:
        transaction = _or_none(answer, schemas.transaction)
        if transaction is not None:
            _require_about(transaction_hash, transaction.hash, "transaction")
        return transaction

    return Call("eth_getTransactionByHash", (as_data(transaction_hash, _HASH_BYTES),), parse)


def transaction_of_sender(sender: bytes, nonce: int) -> Call[Transaction | None]:
    """What the node has of the sender at the nonce, pending or mined. Not every client serves it, nor from its pool."""

    def parse(answer: object) -> Transaction | None:
        transaction = _or_none(answer, schemas.transaction)
        if transaction is not None:
            _require_about(sender, transaction.sender, "sender")
        return transaction

    return Call("eth_getTransactionBySenderAndNonce", (as_data(sender, _ADDRESS_BYTES), as_quantity(nonce)), parse)


def transaction_receipt(transaction_hash: bytes) -> Call[Receipt | None]:
    """The receipt of a mined transaction; None is the ordinary answer while it is not mined."""

    def parse(answer: object) -> Receipt | None:
        receipt = _or_none(answer, schemas.receipt)
        if receipt is not None:
            _require_about(transaction_hash, receipt.transaction_hash, "receipt")
        return receipt

    return Call("eth_getTransactionReceipt", (as_data(transaction_hash, _HASH_BYTES),), parse)


def transaction_count(address: bytes, block: BlockRef) -> Call[int]:
    """The account's next nonce after `block`; with "pending", after what the node's own pool holds."""
    return Call("eth_getTransactionCount", (as_data(address, _ADDRESS_BYTES), _block(block)), uint64)


def balance(address: bytes, block: BlockRef) -> Call[int]:
    """The account's balance in wei."""
    return Call("eth_getBalance", (as_data(address, _ADDRESS_BYTES), _block(block)), uint256)


def code(address: bytes, block: BlockRef) -> Call[bytes]:
    """The account's code; empty for an account without."""
    return Call("eth_getCode", (as_data(address, _ADDRESS_BYTES), _block(block)), data)


def estimate_gas(request: CallRequest, block: BlockRef = "latest") -> Call[int]:
    """Gas the message would use. Answered with Reverted when it would revert."""
    return Call("eth_estimateGas", (request.params(), _block(block)), uint64)


def call(request: CallRequest, block: BlockRef) -> Call[bytes]:
    """What the message would return. Answered with Reverted when it would revert."""
    return Call("eth_call", (request.params(), _block(block)), data)


def max_priority_fee_per_gas() -> Call[int]:
    """The tip the node suggests, in wei per gas. Public nodes suggest anything: bound it."""
    return Call("eth_maxPriorityFeePerGas", (), uint256)


def gas_price() -> Call[int]:
    """The gas price the node suggests, in wei. On a chain with base fees it is one with a tip."""
    return Call("eth_gasPrice", (), uint256)


def fee_history(block_count: int, newest: int | BlockTag, percentiles: Sequence[int]) -> Call[FeeHistory]:
    """Base fees and tips at `percentiles` (0 to 100, rising) of up to `block_count` blocks ending at `newest`."""

    def parse(answer: object) -> FeeHistory:
        history = schemas.fee_history(answer, len(percentiles))
        if len(history.gas_used_ratio) > block_count:
            raise Unreadable(f"asked for {block_count} blocks of fees, got {len(history.gas_used_ratio)}")
        told = history.oldest_block + len(history.gas_used_ratio) - 1
        if isinstance(newest, int) and history.gas_used_ratio and told != newest:
            raise Unreadable(f"asked for fees up to block {newest}, got them up to {told}")
        return history

    return Call("eth_feeHistory", (as_quantity(block_count), _block(newest), list(percentiles)), parse)


def logs(
    blocks: tuple[int, int] | bytes,
    *,
    addresses: Sequence[bytes] = (),
    topics: Sequence[Sequence[bytes]] = (),
) -> Call[tuple[Log, ...]]:
    """The events of a range of blocks (both ends included), or of one block by hash.

    `addresses` and each position of `topics` list alternatives; empty means any. Beyond its head a node may answer
    with no events instead of an error (go-ethereum#24078): compare the range with the head first.
    """

    def parse(answer: object) -> tuple[Log, ...]:
        events = array_of(schemas.log)(answer)
        schemas.require_distinct(events)
        for event in events:
            if not (_in_blocks(event, blocks) and _matches(event, addresses, topics)):
                raise Unreadable(f"log {event.log_index} of block {event.block_number} was not asked for")
        return events

    accepted = {
        "address": [as_data(address, _ADDRESS_BYTES) for address in addresses],
        "topics": [[as_data(topic, _HASH_BYTES) for topic in choices] or None for choices in topics],
    }
    wanted = {name: choices for name, choices in accepted.items() if choices}
    return Call("eth_getLogs", ({**_block_range(blocks), **wanted},), parse)


def send_raw_transaction(signed: bytes) -> Call[bytes]:
    """Broadcast signed bytes; the answer is the hash the node computed.

    A write: never retried, never batched, never hedged here (RPC-1). After an EndpointFault the transaction may be
    in the pool all the same.
    """
    return Call("eth_sendRawTransaction", (as_data(signed),), hash32, is_write=True)


def _block(block: BlockRef) -> str | dict[str, object]:
    """A block parameter; a hash as EIP-1898 asks for it, refused once the block is not canonical."""
    if isinstance(block, bytes):
        return {"blockHash": as_data(block, _HASH_BYTES), "requireCanonical": True}
    return as_quantity(block) if isinstance(block, int) else block


def _block_range(blocks: tuple[int, int] | bytes) -> dict[str, object]:
    if isinstance(blocks, bytes):
        return {"blockHash": as_data(blocks, _HASH_BYTES)}
    return {"fromBlock": as_quantity(blocks[0]), "toBlock": as_quantity(blocks[1])}


def _in_blocks(event: Log, blocks: tuple[int, int] | bytes) -> bool:
    if isinstance(blocks, bytes):
        return event.block_hash == blocks
    return blocks[0] <= event.block_number <= blocks[1]


def _matches(event: Log, addresses: Sequence[bytes], topics: Sequence[Sequence[bytes]]) -> bool:
    if addresses and event.address not in addresses:
        return False
    if len(event.topics) < len(topics):
        return False
    return all(not choices or topic in choices for topic, choices in zip(event.topics, topics, strict=False))


def _or_none(answer: object, parse: Callable[[object], T]) -> T | None:
    return None if answer is None else parse(answer)


def _require_in_block(block_hash: bytes, transactions: Sequence[SignedTransaction | OtherTransaction]) -> None:
    for place, transaction in enumerate(transactions):
        _require_about(block_hash, transaction.block_hash, "transactions of block")
        _require_place(place, transaction.index, "transaction")


def _require_place(place: int, told: int, what: str) -> None:
    if place != told:
        raise Unreadable(f"{what} {told} stands in place {place} of its block")


def _require_about(asked: bytes, got: bytes, what: str) -> None:
    if asked != got:
        raise Unreadable(f"asked for {what} 0x{asked.hex()}, got 0x{got.hex()}")
