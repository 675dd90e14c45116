"""Which machine a URL names, as far as its text tells: two spellings of one host have one vote (RPC-6). Pure.

Names that resolve to one address are found by `rpc.voters` at start; nothing is looked up here.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

_LOOPBACK = "localhost"
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_BELOW_32_BITS = 0xFFFFFFFF

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def host_of(url: str) -> str:
    """The host in one spelling: case, credentials, port, trailing dot, IDNA and forms of an IP address are one.

    All of loopback is one host. Raises ValueError for a text that is no URL.
    """
    name = (urlsplit(url).hostname or "").rstrip(".")
    address = address_of(name)
    if address is None:
        name = _ascii(name)
        return _LOOPBACK if name == _LOOPBACK or name.endswith(f".{_LOOPBACK}") else name
    return spelled(address)


def spelled(address: Address) -> str:
    """An address as the host it is; the unspecified one reaches this machine, as loopback does."""
    return _LOOPBACK if address.is_loopback or address.is_unspecified else str(address)


def _ascii(name: str) -> str:
    try:
        return name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        return name


def repeated_hosts(urls: Sequence[str]) -> list[tuple[int, int, str]]:
    """Each URL whose host stood before: its number, the number of the first one, counted from 1, and the host."""
    first: dict[str, int] = {}
    repeated: list[tuple[int, int, str]] = []
    for number, url in enumerate(urls, start=1):
        host = host_of(url)
        if host in first:
            repeated.append((number, first[host], host))
        else:
            first[host] = number
    return repeated


def address_of(name: str) -> Address | None:
    """The address that a name spells out; None where it has to be looked up."""
    try:
        # The system's resolver takes 127.1, 0x7f000001 and 2130706433 for addresses, and so does this.
        return ipaddress.IPv4Address(socket.inet_aton(name))
    except (OSError, UnicodeError):
        pass
    try:
        six = ipaddress.IPv6Address(name.partition("%")[0])
    except ValueError:
        return None
    if six in _NAT64:
        return ipaddress.IPv4Address(int(six) & _BELOW_32_BITS)
    return six.ipv4_mapped or six.sixtofour or six
