"""The rules every signature must pass. Pure: a request, a policy and a reservation in, the broken rules out.

Libraries sign what this refuses: chain id 0 (which no chain's check stops), an empty `to` (a contract creation carrying
the value), a value of 2**256. Types are checked exactly, because `True` is an int to Python and 1 to a chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from tayho.custody.types import Refusal, Reservation, Rule, SigningPolicy, SigningRequest
from tayho.kernel.address import ADDRESS_BYTES, Address
from tayho.kernel.call_hash import call_hash

_NONCE_MAX = 2**64 - 2  # EIP-2681
_GAS_LIMIT_MIN = 21_000  # a plain transfer's intrinsic gas (Yellow Paper, appendix G)
_VALUE_WEI_LIMIT = 2**256
_STORAGE_KEY_BYTES = 32
_SHOWN_BITS_MAX = 256
_TRANSACTION_TYPES = (0, 2)
_TYPES: tuple[tuple[str, type], ...] = (
    ("chain_id", int),
    ("signer", Address),
    ("nonce", int),
    ("to", Address),
    ("value_wei", int),
    ("data", bytes),
    ("gas_limit", int),
    ("max_fee_per_gas_wei", int),
    ("max_priority_fee_per_gas_wei", int),
    ("transaction_type", int),
)


def refusals(request: SigningRequest, policy: SigningPolicy, reservation: Reservation) -> tuple[Refusal, ...]:
    """Every rule the request breaks; empty when it may be signed."""
    of_fields = field_refusals(request, policy)
    return (*of_fields, *_of_place(request, reservation), *(() if of_fields else _of_call(request, reservation)))


def field_refusals(request: SigningRequest, policy: SigningPolicy) -> tuple[Refusal, ...]:
    """The rules that the request breaks by itself, whatever was reserved for it: known before a nonce is taken."""
    return (
        *_wrong_types(request),
        *_of_chain(request, policy),
        *_of_nonce(request),
        *_of_destination(request),
        *_of_value(request),
        *_of_data(request, policy),
        *_of_gas(request, policy),
        *_of_fees(request, policy),
        *_of_access_list(request, policy),
        *_of_type(request),
    )


def _wrong_types(request: SigningRequest) -> Iterator[Refusal]:
    for name, kind in _TYPES:
        value: object = getattr(request, name)
        if type(value) is kind:
            continue
        # An absent chain id or destination has a rule of its own, which says what it would have meant.
        absent = (name == "chain_id" and value is None) or (name == "to" and _is_empty(value))
        if not absent:
            yield Refusal(Rule.FIELD_TYPE, name, f"a {type(value).__name__}", f"exactly {kind.__name__}")


def _of_chain(request: SigningRequest, policy: SigningPolicy) -> Iterator[Refusal]:
    chain_id = _as_object(request.chain_id)
    if chain_id is None or (_is_int(chain_id) and chain_id == 0):
        yield Refusal(Rule.CHAIN_ID_MISSING, "chain_id", _shown(chain_id), _allowed(policy))
    elif _is_int(chain_id) and chain_id not in policy.chain_ids:
        yield Refusal(Rule.CHAIN_ID_NOT_ALLOWED, "chain_id", _shown(chain_id), _allowed(policy))


def _allowed(policy: SigningPolicy) -> str:
    return f"one of {', '.join(str(chain) for chain in sorted(policy.chain_ids))}"


def _of_nonce(request: SigningRequest) -> Iterator[Refusal]:
    if _is_int(request.nonce) and not 0 <= request.nonce <= _NONCE_MAX:
        yield Refusal(Rule.NONCE_OUT_OF_RANGE, "nonce", _shown(request.nonce), "0 to 2**64 - 2 (EIP-2681)")


def _of_destination(request: SigningRequest) -> Iterator[Refusal]:
    to = _as_object(request.to)
    if _is_empty(to):
        yield Refusal(Rule.TO_MISSING, "to", "missing", "an address: without one the transaction creates a contract")
    elif type(to) is Address and to.is_zero:
        yield Refusal(Rule.TO_ZERO, "to", "the zero address", "an address that is not a sink")


def _of_value(request: SigningRequest) -> Iterator[Refusal]:
    if _is_int(request.value_wei) and not 0 <= request.value_wei < _VALUE_WEI_LIMIT:
        yield Refusal(Rule.VALUE_OUT_OF_RANGE, "value_wei", _shown(request.value_wei), "0 to 2**256 - 1")


def _of_data(request: SigningRequest, policy: SigningPolicy) -> Iterator[Refusal]:
    if type(request.data) is bytes and len(request.data) > policy.data_bytes_max:
        yield Refusal(Rule.DATA_TOO_LONG, "data", f"{len(request.data)} bytes", f"at most {policy.data_bytes_max}")


def _of_gas(request: SigningRequest, policy: SigningPolicy) -> Iterator[Refusal]:
    if not _is_int(request.gas_limit):
        return
    if request.gas_limit < _GAS_LIMIT_MIN:
        yield Refusal(Rule.GAS_LIMIT_TOO_LOW, "gas_limit", _shown(request.gas_limit), f"at least {_GAS_LIMIT_MIN}")
    if request.gas_limit > policy.gas_limit_max:
        yield Refusal(
            Rule.GAS_LIMIT_TOO_HIGH, "gas_limit", _shown(request.gas_limit), f"at most {policy.gas_limit_max}"
        )


def _of_fees(request: SigningRequest, policy: SigningPolicy) -> Iterator[Refusal]:
    fee_wei, priority_fee_wei = request.max_fee_per_gas_wei, request.max_priority_fee_per_gas_wei
    fee_wei_max = policy.max_fee_per_gas_wei_max
    if _is_int(fee_wei) and fee_wei <= 0:
        yield Refusal(Rule.MAX_FEE_NOT_POSITIVE, "max_fee_per_gas_wei", _shown(fee_wei), "more than 0")
    if _is_int(fee_wei) and fee_wei > fee_wei_max:
        yield Refusal(Rule.MAX_FEE_TOO_HIGH, "max_fee_per_gas_wei", _shown(fee_wei), f"at most {fee_wei_max}")
    if not _is_int(priority_fee_wei):
        return
    if priority_fee_wei < 0:
        found = _shown(priority_fee_wei)
        yield Refusal(Rule.PRIORITY_FEE_NEGATIVE, "max_priority_fee_per_gas_wei", found, "0 or more")
    if _is_int(fee_wei) and priority_fee_wei > fee_wei:
        found, expected = _shown(priority_fee_wei), f"at most the max fee, {_shown(fee_wei)} (EIP-1559)"
        yield Refusal(Rule.PRIORITY_FEE_ABOVE_MAX_FEE, "max_priority_fee_per_gas_wei", found, expected)


def _of_access_list(request: SigningRequest, policy: SigningPolicy) -> Iterator[Refusal]:
    access_list = _as_object(request.access_list)
    if not _is_access_list(access_list):
        expected = "a tuple of (Address, tuple of 32-byte keys) (EIP-2930)"
        yield Refusal(Rule.ACCESS_LIST_MALFORMED, "access_list", f"a {type(access_list).__name__}", expected)
        return
    size = sum(ADDRESS_BYTES + _STORAGE_KEY_BYTES * len(keys) for _, keys in request.access_list)
    if size > policy.data_bytes_max:
        yield Refusal(Rule.ACCESS_LIST_TOO_LONG, "access_list", f"{size} bytes", f"at most {policy.data_bytes_max}")


def _of_type(request: SigningRequest) -> Iterator[Refusal]:
    kind = request.transaction_type
    if _is_int(kind) and kind not in _TRANSACTION_TYPES:
        yield Refusal(Rule.TRANSACTION_TYPE_UNKNOWN, "transaction_type", _shown(kind), "0 or 2")
    if not _is_int(kind) or kind != 0:
        return
    # A legacy transaction has one price and no list: two prices, or a list, would be signed as something else.
    price_wei, other_wei = request.max_fee_per_gas_wei, request.max_priority_fee_per_gas_wei
    if _is_int(price_wei) and _is_int(other_wei) and price_wei != other_wei:
        expected = f"the gas price, {_shown(price_wei)}"
        yield Refusal(Rule.LEGACY_FEES_DIFFER, "max_priority_fee_per_gas_wei", _shown(other_wei), expected)
    if request.access_list != ():
        yield Refusal(Rule.LEGACY_ACCESS_LIST, "access_list", "there", "none in a legacy transaction")


def _of_place(request: SigningRequest, reservation: Reservation) -> Iterator[Refusal]:
    if request.chain_id != reservation.chain_id:
        expected = f"the reserved {reservation.chain_id}"
        yield Refusal(Rule.CHAIN_ID_NOT_RESERVED, "chain_id", _shown(request.chain_id), expected)
    if request.signer != reservation.signer:
        yield Refusal(Rule.SIGNER_NOT_RESERVED, "signer", _shown(request.signer), f"the reserved {reservation.signer}")
    if request.nonce != reservation.nonce:
        yield Refusal(Rule.NONCE_NOT_RESERVED, "nonce", _shown(request.nonce), f"the reserved {reservation.nonce}")


def _of_call(request: SigningRequest, reservation: Reservation) -> Iterator[Refusal]:
    asked = call_hash(request.chain_id, request.to, request.value_wei, request.data)
    if asked != reservation.call_hash:
        expected = f"the reserved call 0x{reservation.call_hash.hex()}"
        yield Refusal(Rule.CALL_NOT_RESERVED, "call", f"0x{asked.hex()}", expected)


def _as_object(value: object) -> object:
    # Annotations do not bind at run time; what arrives is looked at before it is believed.
    return value


def _is_int(value: object) -> bool:
    return type(value) is int


def _is_empty(value: object) -> bool:
    return value is None or value in (b"", "")


def _is_access_list(value: object) -> bool:
    return type(value) is tuple and all(_is_access(item) for item in cast("tuple[object, ...]", value))


def _is_access(item: object) -> bool:
    if type(item) is not tuple:
        return False
    pair = cast("tuple[object, ...]", item)
    if len(pair) != 2 or type(pair[0]) is not Address or type(pair[1]) is not tuple:
        return False
    keys = cast("tuple[object, ...]", pair[1])
    return all(type(key) is bytes and len(key) == _STORAGE_KEY_BYTES for key in keys)


def _shown(value: object) -> str:
    """A short, harmless picture: never the text of an unexpected value, never more digits than Python will print."""
    if type(value) is int:
        return str(value) if value.bit_length() <= _SHOWN_BITS_MAX else f"an integer of {value.bit_length()} bits"
    if type(value) is Address:
        return str(value)
    return "missing" if value is None else f"a {type(value).__name__}"
