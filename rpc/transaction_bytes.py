"""The signed bytes of a transaction, from its fields: its hash, what its signature signs, and so who sent it."""

from __future__ import annotations

from eth_utils.crypto import keccak

from rpc.block_transactions import (
    ACCESS_LIST,
    BLOB,
    DYNAMIC_FEE,
    EIP_155_V_MIN,
    LEGACY,
    SET_CODE,
    OtherTransaction,
    SignedTransaction,
)
from rpc.proof_errors import Unprovable
from rpc.rlp_items import Rlp, encode, integer

_V_BEFORE_EIP_155 = (27, 28)
_CREATIONS = frozenset({LEGACY, ACCESS_LIST, DYNAMIC_FEE})


def signed_bytes(transaction: SignedTransaction | OtherTransaction) -> bytes:
    """The transaction as it stands in the block's trie. Raises Unprovable for a type or shape we do not know."""
    if isinstance(transaction, OtherTransaction):
        raise Unprovable(f"{_named(transaction)} is of type {transaction.type}, whose signed bytes we do not know")
    return _enveloped(transaction, [*_fields(transaction), *map(integer, _signature(transaction))])


def transaction_hash(transaction: SignedTransaction | OtherTransaction) -> bytes:
    """What every node calls it. Raises Unprovable."""
    return bytes(keccak(signed_bytes(transaction)))


def contract_address(sender: bytes, nonce: int) -> bytes:
    """The address of the contract that a transaction creates (Yellow Paper, 7)."""
    return bytes(keccak(encode([sender, integer(nonce)])))[-20:]


def signing_digest(transaction: SignedTransaction) -> bytes:
    """The 32 bytes that the sender signed. Raises Unprovable."""
    fields = _fields(transaction)
    if transaction.type == LEGACY and transaction.v >= EIP_155_V_MIN:
        fields = [*fields, integer((transaction.v - EIP_155_V_MIN) // 2), b"", b""]
    return bytes(keccak(_enveloped(transaction, fields)))


def recovery_bit(transaction: SignedTransaction) -> int:
    """0 or 1: which of two keys signed. Raises Unprovable for a signature that names neither."""
    v = transaction.v
    if transaction.type == LEGACY:
        if v not in _V_BEFORE_EIP_155 and v < EIP_155_V_MIN:
            raise Unprovable(f"{_named(transaction)} has a signature with v = {v}")
        return (v - _V_BEFORE_EIP_155[0]) % 2 if v in _V_BEFORE_EIP_155 else (v - EIP_155_V_MIN) % 2
    if v not in {0, 1}:
        raise Unprovable(f"{_named(transaction)} has a signature with yParity {v}")
    return v


def _signature(transaction: SignedTransaction) -> tuple[int, int, int]:
    return transaction.v, transaction.r, transaction.s


def _enveloped(transaction: SignedTransaction, fields: list[Rlp]) -> bytes:
    encoded = encode(fields)
    return encoded if transaction.type == LEGACY else bytes([transaction.type]) + encoded


def _fields(transaction: SignedTransaction) -> list[Rlp]:
    """What is signed, in the order of each type's EIP. Legacy: without the chain id of EIP-155."""
    to = transaction.to
    if to is None and transaction.type not in _CREATIONS:
        raise Unprovable(f"{_named(transaction)} of type {transaction.type} has no recipient")
    call: list[Rlp] = [to or b"", integer(transaction.value_wei), transaction.input]
    gas_limit = integer(transaction.gas_limit)
    nonce = integer(transaction.nonce)
    if transaction.type == LEGACY:
        return [nonce, _there(transaction, "gas_price_wei"), gas_limit, *call]
    if transaction.type == ACCESS_LIST:
        fees = [_there(transaction, "gas_price_wei")]
    else:
        fees = [_there(transaction, "max_priority_fee_per_gas_wei"), _there(transaction, "max_fee_per_gas_wei")]
    head: list[Rlp] = [_there(transaction, "chain_id"), nonce, *fees, gas_limit, *call, _accesses(transaction)]
    return [*head, *_extras(transaction)]


def _extras(transaction: SignedTransaction) -> list[Rlp]:
    """What blob and set-code transactions have beyond EIP-1559."""
    if transaction.type == BLOB:
        return [_there(transaction, "max_fee_per_blob_gas_wei"), list(transaction.blob_hashes)]
    if transaction.type == SET_CODE:
        return [
            [
                [
                    integer(wish.chain_id),
                    wish.address,
                    integer(wish.nonce),
                    *map(integer, (wish.y_parity, wish.r, wish.s)),
                ]
                for wish in transaction.authorizations
            ]
        ]
    return []


def _accesses(transaction: SignedTransaction) -> Rlp:
    return [[entry.address, list(entry.storage_keys)] for entry in transaction.access_list]


def _there(transaction: SignedTransaction, name: str) -> bytes:
    number: int | None = getattr(transaction, name)
    if number is None:
        raise Unprovable(f"{_named(transaction)} was told without its {name}")
    return integer(number)


def _named(transaction: SignedTransaction | OtherTransaction) -> str:
    return f"transaction 0x{transaction.hash.hex()}"
