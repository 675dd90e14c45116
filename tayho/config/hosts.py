"""Which machine a URL names, as far as its text tells: two spellings of one host have one vote (RPC-6). Pure.

Names that resolve to one address are found when the endpoints are opened; nothing is looked up here.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

_LOOPBACK = "localhost"


def host_of(url: str) -> str:
    """The host in one spelling: case, credentials, port, trailing dot and forms of an IP address make no difference.

    All of loopback is one host. Raises ValueError for a text that is no URL.
    """
    name = (urlsplit(url).hostname or "").rstrip(".")
    address = _address(name)
    if address is None:
        return _LOOPBACK if name == _LOOPBACK or name.endswith(f".{_LOOPBACK}") else name
    return _LOOPBACK if address.is_loopback else str(address)


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


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        # The system's resolver takes 127.1, 0x7f000001 and 2130706433 for addresses, and so does this.
        return ipaddress.IPv4Address(socket.inet_aton(name))
    except (OSError, UnicodeError):
        pass
    try:
        six = ipaddress.IPv6Address(name)
    except ValueError:
        return None
    return six.ipv4_mapped or six
