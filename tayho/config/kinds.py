"""Kinds of values: how the text of a variable is read, what of it may be shown, and why it is refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Generic, TypeAlias, TypeVar

from attrs import frozen

from tayho.config.settings import Bind
from tayho.kernel.address import Address, AddressRefused

T = TypeVar("T")
Network: TypeAlias = IPv4Network | IPv6Network

_DIGITS = re.compile(r"0|[1-9][0-9]{0,77}")
_BIND = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45})\]|(?P<host>[A-Za-z0-9._-]{1,253})):(?P<port>[0-9]{1,5})")
_PORT_MAX = 65_535
# A longer text in the wrong place is more likely a key or a URL than a slip worth quoting.
_QUOTED_CHARACTERS_MAX = 32


class Unusable(Exception):
    """A text is not of the kind. `found` may be shown: for a kind that carries secrets it quotes nothing."""

    def __init__(self, found: str, why: str = "") -> None:
        self.found = found
        self.why = why
        super().__init__(found)


@frozen
class Kind(Generic[T]):
    """How a text becomes a value."""

    # Follows "expected", and stands in the settings table of the README.
    expected: str
    # Raises Unusable and nothing else.
    read: Callable[[str], T]
    # The value for a person to read, without its secrets.
    shown: Callable[[T], str]


def quoted(text: str) -> str:
    """A text that is no secret, in a form that is safe on a terminal."""
    return ascii(text) if len(text) <= _QUOTED_CHARACTERS_MAX else f"a text of {len(text)} characters"


def whole(least: int, most: int, *, below: str, above: str) -> Kind[int]:
    """A whole number within the range; `below` and `above` say why the range ends there."""

    def read(text: str) -> int:
        if _DIGITS.fullmatch(text) is None:
            raise Unusable(quoted(text))
        number = int(text)
        if number < least:
            raise Unusable(quoted(text), below)
        if number > most:
            raise Unusable(quoted(text), above)
        return number

    return Kind(f"a whole number from {least} to {most}", read, str)


def choice(*names: str) -> Kind[str]:
    """One of the names, as written."""

    def read(text: str) -> str:
        if text not in names:
            raise Unusable(quoted(text))
        return text

    return Kind(" or ".join(names), read, str)


def yes_or_no() -> Kind[bool]:
    """`true` or `false`: a guard that a misread word would switch off takes no other spelling."""

    def read(text: str) -> bool:
        if text not in ("true", "false"):
            raise Unusable(quoted(text))
        return text == "true"

    return Kind("true or false", read, lambda value: "true" if value else "false")


def name(pattern: str, expected: str) -> Kind[str]:
    """A text that matches the pattern whole."""
    compiled = re.compile(pattern)

    def read(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise Unusable(quoted(text))
        return text

    return Kind(expected, read, str)


def bind() -> Kind[Bind]:
    """Host and port to listen on."""
    return Kind("host:port or [IPv6 address]:port", _read_bind, str)


def address() -> Kind[Address]:
    """An account or a contract."""
    return Kind("0x and 40 hex digits, mixed case only as EIP-55", _read_address, str)


def networks() -> Kind[tuple[Network, ...]]:
    """Addresses and networks, each once."""
    return Kind(
        "addresses and networks such as 10.0.0.0/8 or fd00::/8, separated by commas or spaces",
        _read_networks,
        lambda found: ", ".join(map(str, found)),
    )


def _read_address(text: str) -> Address:
    try:
        return Address.parse(text)
    except AddressRefused as refused:
        raise Unusable(quoted(text)) from refused


def _read_networks(text: str) -> tuple[Network, ...]:
    found: list[Network] = []
    for part in filter(None, re.split(r"[,\s]+", text)):
        try:
            found.append(ip_network(part))
        except ValueError as error:
            raise Unusable(quoted(part)) from error
    if not found:
        raise Unusable("no network")
    return tuple(dict.fromkeys(found))


def _read_bind(text: str) -> Bind:
    match = _BIND.fullmatch(text)
    if match is None:
        raise Unusable(quoted(text))
    port = int(match["port"])
    if port > _PORT_MAX:
        raise Unusable(quoted(text), f"a port is at most {_PORT_MAX}")
    return Bind(match["six"] or match["host"], port)
