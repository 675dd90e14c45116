"""Transactions with every signed field, as a block lists them: to recompute their hashes and the block's root.

A receipt's place in the receipts root is an index. Only the transactions root says which transaction stands there.
"""

from __future__ import annotations

from attrs import field, frozen

from rpc.members import Members, array_of
from rpc.quantities import Unreadable, address20, data, hash32, quantity, uint64, uint256
from rpc.schemas import header
from rpc.values import Header, shown_hex

LEGACY, ACCESS_LIST, DYNAMIC_FEE, BLOB, SET_CODE = range(5)
"""The transaction types of EIP-2718: legacy, EIP-2930, EIP-1559, EIP-4844, EIP-7702."""

EIP_155_V_MIN = 35
"""From here on `v` of a legacy transaction holds its chain id: 35 + 2 · chain id + recovery bit."""

_TYPE_BITS = 7


@frozen
class Access:
    """An entry of an access list (EIP-2930)."""

    address: bytes = field(repr=shown_hex)
    storage_keys: tuple[bytes, ...] = field(repr=shown_hex)


@frozen
class Authorization:
    """A signed wish to run another's code (EIP-7702)."""

    chain_id: int
    address: bytes = field(repr=shown_hex)
    nonce: int
    y_parity: int
    r: int
    s: int


@frozen
class SignedTransaction:
    """A transaction of a block. Fields that its type does not have are None or empty.

    `v` is the recovery bit of typed transactions; in a legacy one it holds the chain id too (EIP-155).
    `gas_price_wei` is there where it is signed: in types 0 and 1.
    """

    hash: bytes = field(repr=shown_hex)
    type: int
    index: int
    block_hash: bytes = field(repr=shown_hex)
    sender: bytes = field(repr=shown_hex)
    to: bytes | None = field(repr=shown_hex)
    nonce: int
    value_wei: int
    gas_limit: int
    input: bytes = field(repr=False)
    chain_id: int | None
    gas_price_wei: int | None
    max_fee_per_gas_wei: int | None
    max_priority_fee_per_gas_wei: int | None
    max_fee_per_blob_gas_wei: int | None
    access_list: tuple[Access, ...] = field(repr=False)
    blob_hashes: tuple[bytes, ...] = field(repr=False)
    authorizations: tuple[Authorization, ...] = field(repr=False)
    v: int
    r: int
    s: int


@frozen
class OtherTransaction:
    """A transaction of a type of which we do not know what is signed: a later fork's, or another kind of chain's."""

    hash: bytes = field(repr=shown_hex)
    type: int
    index: int
    block_hash: bytes = field(repr=shown_hex)


@frozen
class BlockInFull:
    """A block with its transactions, as one endpoint tells it."""

    header: Header
    transactions: tuple[SignedTransaction | OtherTransaction, ...] = field(repr=False)


def block_in_full(document: object) -> BlockInFull:
    """A block asked for with its transactions. Raises Unreadable."""
    return BlockInFull(header(document), block_transactions(document))


def block_transactions(document: object) -> tuple[SignedTransaction | OtherTransaction, ...]:
    """The transactions of a block asked for in full. Raises Unreadable."""
    return Members.of(document, "block").read("transactions", array_of(_transaction))


def _transaction(document: object) -> SignedTransaction | OtherTransaction:
    members = Members.of(document, "transaction")
    kind = members.read("type", lambda value: quantity(value, _TYPE_BITS))
    return _signed(members, kind) if kind <= SET_CODE else _other(members, kind)


def _other(members: Members, kind: int) -> OtherTransaction:
    return OtherTransaction(
        hash=members.read("hash", hash32),
        type=kind,
        index=members.read("transactionIndex", uint64),
        block_hash=members.read("blockHash", hash32),
    )


def _signed(members: Members, kind: int) -> SignedTransaction:
    v = members.read("v", uint256)
    # Both are told of typed transactions, and are one thing.
    if kind != LEGACY and members.read_if_there("yParity", uint64) not in {None, v}:
        raise Unreadable("transaction: v and yParity contradict each other")
    chain_id = members.read_if_there("chainId", uint256)
    if kind == LEGACY and v >= EIP_155_V_MIN and chain_id not in {None, (v - EIP_155_V_MIN) // 2}:
        raise Unreadable("transaction: v and chainId contradict each other")
    return SignedTransaction(
        hash=members.read("hash", hash32),
        type=kind,
        index=members.read("transactionIndex", uint64),
        block_hash=members.read("blockHash", hash32),
        sender=members.read("from", address20),
        to=members.read_or_none("to", address20),
        nonce=members.read("nonce", uint64),
        value_wei=members.read("value", uint256),
        gas_limit=members.read("gas", uint64),
        input=members.read("input", data),
        chain_id=chain_id,
        gas_price_wei=members.read("gasPrice", uint256) if kind in {LEGACY, ACCESS_LIST} else None,
        max_fee_per_gas_wei=members.read_if_there("maxFeePerGas", uint256),
        max_priority_fee_per_gas_wei=members.read_if_there("maxPriorityFeePerGas", uint256),
        max_fee_per_blob_gas_wei=members.read_if_there("maxFeePerBlobGas", uint256),
        access_list=members.read_if_there("accessList", array_of(_access)) or (),
        blob_hashes=members.read_if_there("blobVersionedHashes", array_of(hash32)) or (),
        authorizations=members.read_if_there("authorizationList", array_of(_authorization)) or (),
        v=v,
        r=members.read("r", uint256),
        s=members.read("s", uint256),
    )


def _access(document: object) -> Access:
    members = Members.of(document, "access list entry")
    return Access(members.read("address", address20), members.read("storageKeys", array_of(hash32)))


def _authorization(document: object) -> Authorization:
    members = Members.of(document, "authorization")
    return Authorization(
        chain_id=members.read("chainId", uint256),
        address=members.read("address", address20),
        nonce=members.read("nonce", uint64),
        y_parity=members.read("yParity", uint64),
        r=members.read("r", uint256),
        s=members.read("s", uint256),
    )
