"""Who a client is: nobody chooses his own identity (INT-8)."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tayho.api.engine.clients import UNKNOWN, client_of

PROXIES = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
OUTSIDE = "203.0.113.7"

ADDRESSES = st.ip_addresses().map(str)
WRITTEN = st.one_of(
    ADDRESSES, st.text(alphabet="0123456789.:[], abcx%", max_size=20), st.sampled_from(["10.0.0.9", "unknown", ""])
)


@given(claimed=st.lists(WRITTEN, max_size=5))
def test_what_a_client_claims_changes_nothing(claimed: list[str]) -> None:
    """Goal: no client leaves its budget by what it writes. Method: any X-Forwarded-For, to which two trusted proxies
    add what they see, and the same straight to a process that trusts nobody."""
    header = ", ".join([*claimed, OUTSIDE, "10.0.0.2"])
    assert client_of("10.0.0.1", [header], PROXIES) == OUTSIDE
    assert client_of("10.0.0.1", [*claimed, f"{OUTSIDE}, 10.0.0.2"], PROXIES) == OUTSIDE
    assert client_of(OUTSIDE, [header], PROXIES) == OUTSIDE
    assert client_of(OUTSIDE, [header], ()) == OUTSIDE


@given(network=st.ip_addresses(v=6), host=st.integers(0, 2**64 - 1))
def test_a_client_of_ipv6_is_its_network(network: IPv6Address, host: int) -> None:
    """Goal: who owns a /64 does not own 2**64 budgets. Method: any host of any network; IPv4 inside IPv6 apart."""
    of_network = (int(network) >> 64) << 64
    if network.ipv4_mapped is None and of_network:
        one = client_of(str(IPv6Address(of_network | host)), [], ())
        assert one == client_of(str(IPv6Address(of_network)), [], ()) == f"{IPv6Address(of_network)}/64"


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        (None, [], UNKNOWN),
        ("", ["1.2.3.4"], UNKNOWN),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["1.2.3.4:5678"], "1.2.3.4"),
        ("10.0.0.1", ["[2001:db8::7]:443"], "2001:db8::/64"),
        ("10.0.0.1", ["2001:db8::7"], "2001:db8::/64"),
        ("fd00::1", ["1.2.3.4"], "1.2.3.4"),
        ("::ffff:10.0.0.1", ["::ffff:1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["1.2.3.4, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["1.2.3.4, 5.6.7.8"], "5.6.7.8"),
        ("1.2.3.4", ["5.6.7.8"], "1.2.3.4"),
    ],
)
def test_proxies_are_believed_from_the_right(peer: str | None, forwarded: list[str], client: str) -> None:
    """Goal: each way in which proxies write. Method: one of each."""
    assert client_of(peer, forwarded, PROXIES) == client
