"""EIP-712: the digest that a wallet signs of a structured message.

eth-account has an encoder, and its import raises the interpreter's recursion limit a hundredfold (through py_ecc): a
process that reads JSON from strangers must not. This one is bounded in depth, takes values in the spelling of JSON-RPC
(`eth_signTypedData_v4`) and is held to the published vectors and to eth-account's by tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

from attrs import frozen
from eth_utils.crypto import keccak

from tayho.kernel.address import Address
from tayho.kernel.json_document import Json

DEPTH_MAX = 32
"""Structs and arrays inside one another; a wallet shows a few."""

WORD_BYTES = 32
DOMAIN_TYPE = "EIP712Domain"
# In the order that EIP-712 gives them; a domain has those that its document has.
_DOMAIN_FIELDS = {
    "name": "string", "version": "string", "chainId": "uint256", "verifyingContract": "address", "salt": "bytes32",
}  # fmt: skip
_ARRAY = re.compile(r"(.+)\[([0-9]*)\]")
_INTEGER = re.compile(r"(u?)int([0-9]{1,3})")
_FIXED_BYTES = re.compile(r"bytes([0-9]{1,2})")

Types: TypeAlias = Mapping[str, Sequence["Field"]]


class TypedDataRefused(ValueError):
    """The document is no EIP-712 message, or a value does not fit its type. The text names where."""


@frozen
class Field:
    """A member of a struct type."""

    name: str
    type_name: str


def digest(domain: Mapping[str, Json], primary_type: str, types: Types, message: Mapping[str, Json]) -> bytes:
    """Keccak-256 over 0x19 0x01, the domain separator and the struct hash. Raises TypedDataRefused."""
    return _keccak(b"\x19\x01" + domain_separator(domain) + struct_hash(primary_type, types, message))


def domain_separator(domain: Mapping[str, Json]) -> bytes:
    """The struct hash of the domain, of those fields that it has. Raises TypedDataRefused."""
    return struct_hash(DOMAIN_TYPE, {DOMAIN_TYPE: domain_fields(domain)}, domain)


def domain_fields(domain: Mapping[str, Json]) -> Sequence[Field]:
    """The type of this domain: of the fields that EIP-712 knows, those that it has. Raises TypedDataRefused."""
    unknown = sorted(set(domain) - set(_DOMAIN_FIELDS))
    if unknown:
        raise TypedDataRefused(f"the domain has fields that EIP-712 does not know: {', '.join(unknown)}")
    return [Field(name, type_name) for name, type_name in _DOMAIN_FIELDS.items() if name in domain]


def struct_hash(type_name: str, types: Types, value: Mapping[str, Json]) -> bytes:
    """Keccak-256 of `encode_data`. Raises TypedDataRefused."""
    return _keccak(encode_data(type_name, types, value))


def encode_data(type_name: str, types: Types, value: Mapping[str, Json]) -> bytes:
    """The type hash and one word a field. Raises TypedDataRefused."""
    return _Encoder(types).struct(type_name, value, type_name, 0)


def encode_type(type_name: str, types: Types) -> str:
    """The type and, by name, those that it refers to: `Mail(Person from,Person to)Person(string name)`.

    Raises TypedDataRefused for a type that is not there.
    """
    referred = {type_name}
    waiting = [type_name]
    while waiting:
        for field in _fields(waiting.pop(), types):
            base = field.type_name.partition("[")[0]
            if base in types and base not in referred:
                referred.add(base)
                waiting.append(base)
    return "".join(
        f"{name}({','.join(f'{field.type_name} {field.name}' for field in _fields(name, types))})"
        for name in (type_name, *sorted(referred - {type_name}))
    )


class _Encoder:
    def __init__(self, types: Types) -> None:
        self._types = types
        self._type_hashes: dict[str, bytes] = {}

    def struct(self, type_name: str, value: Json, place: str, depth: int) -> bytes:
        if depth > DEPTH_MAX:
            raise TypedDataRefused(f"{place} is nested more than {DEPTH_MAX} deep")
        if not isinstance(value, Mapping):
            raise TypedDataRefused(f"{place} must be an object")
        fields = _fields(type_name, self._types)
        names = [field.name for field in fields]
        if sorted(names) != sorted(value):
            raise TypedDataRefused(f"{place} must have exactly the fields {', '.join(names) or '(none)'}")
        words = [self._word(one.type_name, value[one.name], f"{place}.{one.name}", depth + 1) for one in fields]
        return self._type_hash(type_name) + b"".join(words)

    def _type_hash(self, type_name: str) -> bytes:
        if type_name not in self._type_hashes:
            self._type_hashes[type_name] = _keccak(encode_type(type_name, self._types).encode())
        return self._type_hashes[type_name]

    def _word(self, type_name: str, value: Json, place: str, depth: int) -> bytes:
        if depth > DEPTH_MAX:
            raise TypedDataRefused(f"{place} is nested more than {DEPTH_MAX} deep")
        array = _ARRAY.fullmatch(type_name)
        if array is not None:
            return self._array(array[1], array[2], value, place, depth)
        if type_name in self._types:
            return _keccak(self.struct(type_name, value, place, depth))
        return _atom(type_name, value, place)

    def _array(self, item_type: str, length: str, value: Json, place: str, depth: int) -> bytes:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise TypedDataRefused(f"{place} must be a list")
        if length and len(value) != int(length):
            raise TypedDataRefused(f"{place} must have {length} items and has {len(value)}")
        items = (self._word(item_type, item, f"{place}[{at}]", depth + 1) for at, item in enumerate(value))
        return _keccak(b"".join(items))


def _fields(type_name: str, types: Types) -> Sequence[Field]:
    try:
        return types[type_name]
    except KeyError as error:
        raise TypedDataRefused(f"there is no type {type_name!a} in the document") from error


def _atom(type_name: str, value: Json, place: str) -> bytes:
    """A word of a value that is neither struct nor array."""
    if type_name == "string":
        if not isinstance(value, str):
            raise TypedDataRefused(f"{place} must be text")
        try:
            return _keccak(value.encode())
        except UnicodeEncodeError as error:
            raise TypedDataRefused(f"{place} is no valid Unicode text") from error
    if type_name == "bytes":
        return _keccak(_bytes(value, place))
    if type_name == "bool":
        if not isinstance(value, bool):
            raise TypedDataRefused(f"{place} must be true or false")
        return int(value).to_bytes(WORD_BYTES, "big")
    if type_name == "address":
        return _address(value, place).rjust(WORD_BYTES, b"\0")
    integer = _INTEGER.fullmatch(type_name)
    if integer is not None:
        return _integer(int(integer[2]), value, place, is_signed=not integer[1])
    fixed = _FIXED_BYTES.fullmatch(type_name)
    if fixed is not None and 1 <= int(fixed[1]) <= WORD_BYTES:
        data = _bytes(value, place)
        if len(data) != int(fixed[1]):
            raise TypedDataRefused(f"{place} must have {fixed[1]} bytes and has {len(data)}")
        return data.ljust(WORD_BYTES, b"\0")
    raise TypedDataRefused(f"{place} has the type {type_name!a}, which is not known")


def _integer(bits: int, value: Json, place: str, *, is_signed: bool) -> bytes:
    if bits == 0 or bits > 8 * WORD_BYTES or bits % 8:
        raise TypedDataRefused(f"{place} has an integer type of {bits} bits")
    number = _number(value, place)
    least, bound = (-(1 << bits - 1), 1 << bits - 1) if is_signed else (0, 1 << bits)
    if not least <= number < bound:
        raise TypedDataRefused(f"{place} is out of the range of its {bits} bits")
    return number.to_bytes(WORD_BYTES, "big", signed=is_signed)


def _number(value: Json, place: str) -> int:
    """An integer as JSON has it, or as text where JSON numbers are too small: decimal or 0x and hex digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,80}|0x[0-9a-fA-F]{1,64}", value, re.ASCII):
        return int(value, 16 if value.startswith("0x") else 10)
    raise TypedDataRefused(f"{place} must be an integer")


def _bytes(value: Json, place: str) -> bytes:
    if not isinstance(value, str) or re.fullmatch(r"0x(?:[0-9a-fA-F]{2})*", value, re.ASCII) is None:
        raise TypedDataRefused(f"{place} must be 0x and pairs of hex digits")
    return bytes.fromhex(value[2:])


def _address(value: Json, place: str) -> bytes:
    try:
        return Address.parse(cast("str", value)).value
    except (ValueError, TypeError, AttributeError) as error:
        raise TypedDataRefused(f"{place} is no address: {error}") from error


def _keccak(data: bytes) -> bytes:
    return bytes(keccak(data))
