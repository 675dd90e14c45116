"""The values that cross custody's boundary. None of them holds a key."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeAlias

from attrs import field, frozen, validators

from tayho.kernel.address import Address
from tayho.kernel.opaque import Opaque

Rlp: TypeAlias = "bytes | Sequence[Rlp]"
"""What RLP encodes (Yellow Paper, appendix B)."""


@frozen
class SigningRequest:
    """A transaction as asked for, fees and value in wei. Unchecked until `validation.refusals` saw it.

    `transaction_type` is 2 (EIP-1559), or 0 (legacy, EIP-155) for a chain without base fees: then both fee fields are
    its gas price.
    """

    chain_id: int
    signer: Address
    nonce: int
    to: Address
    value_wei: int
    data: bytes
    gas_limit: int
    max_fee_per_gas_wei: int
    max_priority_fee_per_gas_wei: int
    access_list: tuple[tuple[Address, tuple[bytes, ...]], ...] = ()
    transaction_type: int = 2


@frozen
class Reservation:
    """What the lineage's row has reserved (TX-1). A request is signed only when it is this call at this nonce."""

    chain_id: int
    signer: Address
    nonce: int
    call_hash: bytes


@frozen
class SigningPolicy:
    """What this process may sign. Gas in units of gas, fees in wei per gas.

    `gas_limit_max` defaults to the protocol's own cap, 2**24 (EIP-7825); `data_bytes_max` to what nodes accept.
    """

    chain_ids: frozenset[int] = field(validator=validators.deep_iterable(validators.gt(0), validators.min_len(1)))
    max_fee_per_gas_wei_max: int = field(validator=validators.and_(validators.gt(0), validators.lt(2**256)))
    gas_limit_max: int = field(default=2**24, validator=validators.and_(validators.ge(21_000), validators.lt(2**64)))
    data_bytes_max: int = field(default=128 * 1024, validator=validators.ge(0))


class Rule(Enum):
    """The rules of signing, one name each; the name goes into attempts and metrics."""

    FIELD_TYPE = "field_type"
    CHAIN_ID_MISSING = "chain_id_missing"
    CHAIN_ID_NOT_ALLOWED = "chain_id_not_allowed"
    NONCE_OUT_OF_RANGE = "nonce_out_of_range"
    TO_MISSING = "to_missing"
    TO_ZERO = "to_zero"
    VALUE_OUT_OF_RANGE = "value_out_of_range"
    DATA_TOO_LONG = "data_too_long"
    GAS_LIMIT_TOO_LOW = "gas_limit_too_low"
    GAS_LIMIT_TOO_HIGH = "gas_limit_too_high"
    MAX_FEE_NOT_POSITIVE = "max_fee_not_positive"
    MAX_FEE_TOO_HIGH = "max_fee_too_high"
    PRIORITY_FEE_NEGATIVE = "priority_fee_negative"
    PRIORITY_FEE_ABOVE_MAX_FEE = "priority_fee_above_max_fee"
    ACCESS_LIST_MALFORMED = "access_list_malformed"
    ACCESS_LIST_TOO_LONG = "access_list_too_long"
    TRANSACTION_TYPE_UNKNOWN = "transaction_type_unknown"
    LEGACY_FEES_DIFFER = "legacy_fees_differ"
    LEGACY_ACCESS_LIST = "legacy_access_list"
    CHAIN_ID_NOT_RESERVED = "chain_id_not_reserved"
    SIGNER_NOT_RESERVED = "signer_not_reserved"
    NONCE_NOT_RESERVED = "nonce_not_reserved"
    CALL_NOT_RESERVED = "call_not_reserved"


@frozen
class Refusal:
    """One broken rule: which field, what was found there, what is accepted."""

    rule: Rule
    field: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.field} is {self.found}, expected {self.expected} ({self.rule.value})"


@frozen
class SignedTransaction:
    """Signed bytes and the hash every node will know them by."""

    tx_hash: bytes
    raw: Opaque


@frozen
class Undecodable:
    """What was read is no signed transaction of a known type with a destination. `why` quotes none of its bytes."""

    why: str


@frozen
class SealedTransaction:
    """Signed bytes as the journal stores them: AES-256-GCM, the 16-byte tag at the ciphertext's end."""

    key_id: str
    cipher_nonce: bytes = field(repr=False)
    ciphertext: bytes = field(repr=False)


@frozen
class SealBinding:
    """The row a sealed transaction belongs to. It opens in no other."""

    chain_id: int
    signer: Address
    nonce: int
    call_hash: bytes
    tx_hash: bytes


@frozen
class SignedSealed:
    """One signature's result: bytes to broadcast, and the same bytes sealed, to persist before that."""

    tx_hash: bytes
    raw: Opaque
    sealed: SealedTransaction


class KeyFault(Enum):
    """What can be wrong with a text of keys."""

    NOT_JSON = "not JSON"
    WRONG_SHAPE = "wrong kind of JSON"
    EMPTY = "no key"
    NOT_TEXT = "the key is no text"
    NOT_HEX = "the key is not 0x and hex digits"
    WRONG_LENGTH = "the key has the wrong length"
    OUT_OF_RANGE = "the key is no usable number"
    ADDRESS_MALFORMED = "the name is no address"
    ADDRESS_DIFFERS = "the key belongs to another address"
    KEY_ID_MALFORMED = "the key id is malformed"
    KEY_ID_TWICE = "the key id appears twice"
    KEY_TWICE = "the key appears twice"
    ACTIVE_ID_MISSING = "the active key id has no key"


@frozen
class KeyProblem:
    """One thing wrong with a text of keys; `entry` tells where, `detail` what to do, and neither quotes the text."""

    fault: KeyFault
    entry: str
    detail: str

    def __str__(self) -> str:
        return f"{self.entry}: {self.fault.value}; {self.detail}"
