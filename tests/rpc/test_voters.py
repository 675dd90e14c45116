"""One machine has one vote, however it is spelled or named (RPC-6)."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

import pytest
import trio
import trio.testing

from rpc.hosts import host_of
from rpc.voters import Electorate, addresses_of, examine_voters

PUBLIC = {"a.example.com": ["203.0.113.7"], "b.example.org": ["203.0.113.8"], "c.example.net": ["203.0.113.9"]}


async def examined(*urls: str, names: Mapping[str, Sequence[str]] = PUBLIC) -> Electorate:
    async def resolve(host: str) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        if host not in names:
            raise OSError(f"no address for {host}")
        return names[host]

    return await examine_voters(urls, resolve=resolve)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://A.example.COM", "https://a.example.com"),
        ("https://a.example.com:443", "https://a.example.com:8545/v2/abcdefghij"),
        ("https://a.example.com.", "https://a.example.com"),
        ("https://user:pass@a.example.com", "https://a.example.com"),
        ("http://a.example.com", "https://a.example.com"),
        ("https://a.example.com/one", "https://a.example.com/two?key=1"),
        ("http://203.0.113.7", "https://a.example.com"),
        ("http://0xcb007107", "https://a.example.com"),
        ("http://203.113.7", "http://203.113.0.7"),
        ("http://[::ffff:203.0.113.7]", "https://a.example.com"),
        ("http://[64:ff9b::cb00:7107]", "http://203.0.113.7"),
        ("http://[2002:cb00:7107::1]", "http://203.0.113.7"),
        ("http://127.0.0.1", "http://127.1"),
        ("http://127.0.0.1", "http://0x7f000001"),
        ("http://127.0.0.1", "http://2130706433"),
        ("http://127.0.0.1", "http://0177.0.0.1"),
        ("http://127.0.0.1", "http://[::1]"),
        ("http://127.0.0.1", "http://[::ffff:127.0.0.1]"),
        ("http://127.0.0.1", "http://localhost:8546"),
        ("http://127.0.0.1", "http://0.0.0.0:8546"),
        ("http://localhost", "http://node.localhost."),
        ("http://[2001:db8::1]", "http://[2001:0db8:0:0::1]"),
        ("http://[fe80::1%eth0]", "http://[fe80::1]"),
        ("http://xn--bcher-kva.example", "http://bücher.example"),
        ("https://alias.example.edu", "https://a.example.com"),
        ("http://me.example.edu", "http://localhost"),
    ],
)
async def test_every_spelling_of_one_host_is_found(one: str, other: str) -> None:
    """Goal: RPC-6's duplicates, by text or by what the resolver says. Method: each pair, in both orders, beside a
    third that is another host."""
    names = {
        **PUBLIC,
        "alias.example.edu": ["203.0.113.7"],
        "me.example.edu": ["127.0.0.1"],
        "xn--bcher-kva.example": ["203.0.113.20"],
    }
    for first, second in ((one, other), (other, one)):
        found = await examined(first, "https://c.example.net", second, names=names)
        (problem,) = found.problems
        assert "are one host" in problem
        assert "c.example.net" not in problem


async def test_hosts_of_their_own_are_no_problem() -> None:
    """Goal: no honest configuration is refused. Method: three hosts, by name and by address."""
    assert await examined(*(f"https://{name}/v2/secret-of-mine" for name in PUBLIC)) == Electorate((), ())
    assert await examined("http://203.0.113.1", "http://203.0.113.2", "http://[2001:db8::1]") == Electorate((), ())


async def test_what_weakens_the_voters_is_a_warning() -> None:
    """Goal: one vendor, one address among several, a name without address: told, not refused. Method: one pair each."""
    names = {
        "eu.vendor.example": ["203.0.113.1"],
        "us.vendor.example": ["203.0.113.2"],
        "x.one.example": ["203.0.113.3", "203.0.113.4"],
        "x.two.example": ["203.0.113.4", "203.0.113.5"],
    }
    found = await examined("https://eu.vendor.example", "https://us.vendor.example", names=names)
    assert found.problems == ()
    assert "both of vendor.example" in found.warnings[0]
    found = await examined("https://x.one.example", "https://x.two.example", names=names)
    assert found.problems == ()
    assert "share an address" in found.warnings[0]
    found = await examined("https://gone.example/key-that-is-secret", "https://eu.vendor.example", names=names)
    assert found.problems == ()
    assert found.warnings == ("https://gone.example/… does not resolve, so it is compared by its text",)


async def test_a_resolver_that_hangs_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: a start is not held up by a name server. Method: a resolver that never answers for one of two."""

    async def resolve(host: str) -> Sequence[str]:
        await trio.sleep(0 if host == "a.example" else 1e9)
        return ["203.0.113.1"]

    found = await examine_voters(["https://a.example", "https://b.example"], resolve=resolve, deadline_seconds=5)
    assert trio.current_time() < 10
    assert found.problems == ()
    assert len(found.warnings) == 1


async def test_the_system_knows_the_loopback() -> None:
    """Goal: the real resolver is asked as it wants to be. Method: the name that every machine has, and a wrong one."""
    found = await addresses_of("localhost")
    assert {host_of(f"http://[{one}]" if ":" in one else f"http://{one}") for one in found} == {"localhost"}
    with pytest.raises(socket.gaierror):
        await addresses_of("no-such-host.invalid")
