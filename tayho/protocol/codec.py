"""The ABI codec of the house: eth_abi, strict where it is lenient about what a value means.

eth_abi pads a short `bytes32` with zeros and takes any spelling of an address. A job id that lost a byte would then
become another job's id on chain, so fixed bytes must have their exact length here and an address is an `Address`.
"""

from __future__ import annotations

from collections.abc import Sequence

from eth_abi.codec import ABICodec
from eth_abi.decoding import BaseDecoder, ContextFramesBytesIO
from eth_abi.encoding import BaseEncoder
from eth_abi.exceptions import (
    DecodingError,
    EncodingError,
    EncodingTypeError,
    InsufficientDataBytes,
    NonEmptyPaddingBytes,
)
from eth_abi.registry import ABIRegistry
from eth_abi.registry import registry as lenient_registry

from tayho.kernel.address import ADDRESS_BYTES, Address

_WORD_BYTES = 32
_ADDRESS_PADDING = bytes(_WORD_BYTES - ADDRESS_BYTES)


class ValueRefused(ValueError):
    """The values have no ABI encoding as the given types."""


class DataRefused(ValueError):
    """The data is no ABI encoding of the given types."""


class _AddressEncoder(BaseEncoder):
    def validate_value(self, value: object) -> None:
        if not isinstance(value, Address):
            raise EncodingTypeError(f"an address is given as an Address, not as a {type(value).__name__}")

    def encode(self, value: Address) -> bytes:
        self.validate_value(value)
        return _ADDRESS_PADDING + value.value


class _AddressDecoder(BaseDecoder):
    def decode(self, stream: ContextFramesBytesIO) -> Address:
        word = stream.read(_WORD_BYTES)
        if len(word) != _WORD_BYTES:
            raise InsufficientDataBytes(f"an address takes {_WORD_BYTES} bytes; found {len(word)}")
        if not word.startswith(_ADDRESS_PADDING):
            raise NonEmptyPaddingBytes("the bytes before an address are not zero")
        return Address(word[len(_ADDRESS_PADDING) :])


class _FixedBytesEncoder(BaseEncoder):
    size_bytes: int = 0  # set by BaseCoder from the keyword

    def validate_value(self, value: object) -> None:
        if not isinstance(value, bytes):
            raise EncodingTypeError(f"bytes{self.size_bytes} is given as bytes, not as a {type(value).__name__}")
        if len(value) != self.size_bytes:
            raise EncodingTypeError(f"bytes{self.size_bytes} has exactly {self.size_bytes} bytes; found {len(value)}")

    def encode(self, value: bytes) -> bytes:
        self.validate_value(value)
        return value.ljust(_WORD_BYTES, b"\x00")


def _strict_registry() -> ABIRegistry:
    registry: ABIRegistry = lenient_registry.copy()
    registry.unregister("address")
    registry.register("address", _AddressEncoder(), _AddressDecoder())
    registry.unregister_encoder("bytes<M>")
    for size_bytes in range(1, _WORD_BYTES + 1):
        registry.register_encoder(f"bytes{size_bytes}", _FixedBytesEncoder(size_bytes=size_bytes))
    return registry


_registry = _strict_registry()
_codec = ABICodec(_registry)


def is_abi_type(type_name: str) -> bool:
    """Whether values of this canonical type (tuples written as `(uint256,bytes)`) can be encoded and decoded."""
    return _registry.has_encoder(type_name)


def is_held_in_topic(type_name: str) -> bool:
    """Whether an indexed event argument of this type stands in its topic itself.

    Arrays, tuples, `string` and `bytes` do not: their topic is a Keccak hash, from which nothing comes back.
    """
    return not type_name.endswith(("]", ")")) and type_name not in ("string", "bytes")


def encode(types: Sequence[str], values: Sequence[object]) -> bytes:
    """Encode the values as one ABI tuple. Raises ValueRefused."""
    try:
        return _codec.encode(tuple(types), tuple(values))
    except (EncodingError, ValueError) as error:
        raise ValueRefused(f"({','.join(types)}) cannot hold the given values: {error}") from error


def decode(types: Sequence[str], data: bytes) -> tuple[object, ...]:
    """Decode one ABI tuple; what stands behind it is ignored, as the EVM ignores it. Raises DataRefused."""
    try:
        return _codec.decode(tuple(types), data)
    except (DecodingError, ValueError, OverflowError) as error:
        raise DataRefused(f"{len(data)} bytes are no encoding of ({','.join(types)}): {error}") from error
