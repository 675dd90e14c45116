"""Account addresses: twenty bytes, whatever case they were written in."""

from __future__ import annotations

from functools import lru_cache

from attrs import frozen
from eth_utils.address import to_checksum_address

ADDRESS_BYTES = 20
_PARSED_MAX = 4_096


class AddressRefused(ValueError):
    """The text or bytes are no account address."""


@frozen(order=True, repr=False)
class Address:
    """An EVM account address. Two spellings of one address are equal; the checksum (EIP-55) is only how it prints."""

    value: bytes

    def __attrs_post_init__(self) -> None:
        if len(self.value) != ADDRESS_BYTES:
            raise AddressRefused(f"an address has {ADDRESS_BYTES} bytes; found {len(self.value)}")

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `0x` and forty hex digits. Mixed case must carry a right EIP-55 checksum.

        Raises AddressRefused when the text is anything else.
        """
        return _parsed(text)

    @property
    def checksummed(self) -> str:
        return str(to_checksum_address(self.value))

    @property
    def is_zero(self) -> bool:
        return not any(self.value)

    def __str__(self) -> str:
        return self.checksummed

    def __repr__(self) -> str:
        return f"Address({self.checksummed})"


# A process reads the same few addresses in every job, and each checksum costs a Keccak hash.
@lru_cache(maxsize=_PARSED_MAX)
def _parsed(text: str) -> Address:
    digits = text[2:]
    if not text.startswith("0x") or len(digits) != 2 * ADDRESS_BYTES:
        raise AddressRefused(f"expected 0x and {2 * ADDRESS_BYTES} hex digits; found {len(text)} characters")
    try:
        value = bytes.fromhex(digits)
    except ValueError as error:
        raise AddressRefused("an address holds hex digits only") from error
    address = Address(value)
    mixed_case = digits not in (digits.lower(), digits.upper())
    if mixed_case and address.checksummed != text:
        raise AddressRefused(f"the checksum (EIP-55) of {text} is wrong; expected {address.checksummed}")
    return address
