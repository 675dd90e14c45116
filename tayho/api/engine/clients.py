"""Who a client is, as far as one may believe it: the connection's far end, or whom trusted proxies name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# A household or a server has at least this of IPv6 to itself, and changes the rest at will.
SIX_PREFIX_BITS = 64
UNKNOWN = "unknown"


def client_of(peer: str | None, forwarded: Iterable[str], trusted: Sequence[Network]) -> str:
    """The identity under which a client is counted: an IPv4 address, or the /64 of an IPv6 one.

    `forwarded` are the values of X-Forwarded-For in their order. They are read from the right, where the nearest proxy
    wrote, and only as long as who wrote is trusted: whatever a client put in itself stands further left. What is no
    address ends the reading too, and the last proxy stands for the client.
    """
    hop = _address(peer or "")
    if hop is None:
        return UNKNOWN
    named = [entry for value in forwarded for entry in value.split(",")]
    while named and any(hop in network for network in trusted):
        further = _address(named.pop().strip())
        if further is None:
            break
        hop = further
    if isinstance(hop, IPv4Address):
        return str(hop)
    return str(IPv6Network((int(hop), SIX_PREFIX_BITS), strict=False))


def _address(text: str) -> Address | None:
    """An address as proxies write it: bare, with a port, in brackets. One of IPv4 inside IPv6 is one of IPv4."""
    bare = text
    if text.startswith("["):
        bare = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        bare = text.partition(":")[0]
    try:
        address = ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
