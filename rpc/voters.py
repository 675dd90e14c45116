"""Whether configured endpoints are voters of their own: names are looked up, and one machine has one vote (RPC-6)."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import combinations
from typing import TypeAlias

import trio
from attrs import define, field, frozen

from nursery.groups import unwrapped
from rpc.hosts import address_of, host_of, spelled
from rpc.urls import shown_url

Resolve: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""A host's addresses as text. Raises OSError where it has none."""


@frozen
class Electorate:
    """What is wrong with the voters, and what is allowed but weakens them: sentences for a person."""

    problems: tuple[str, ...]
    warnings: tuple[str, ...]


async def addresses_of(host: str) -> Sequence[str]:
    """The system's resolver. Raises OSError."""
    found = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


async def examine_voters(
    urls: Sequence[str], *, resolve: Resolve = addresses_of, deadline_seconds: float = 5
) -> Electorate:
    """Look every host up and compare them, two by two.

    A host that cannot be looked up within the deadline is compared by its name alone, with a warning: it may be down
    and come back, as any voter may.
    """
    voters = [_Voter(shown_url(url), host_of(url)) for url in urls]
    with unwrapped(), trio.move_on_after(deadline_seconds):
        async with trio.open_nursery() as lookups:
            for voter in voters:
                lookups.start_soon(voter.look_up, resolve)
    problems: list[str] = []
    warnings = [f"{voter.shown} does not resolve, so it is compared by its text" for voter in _unknown(voters)]
    for one, other in combinations(voters, 2):
        if one.is_same_host(other):
            problems.append(
                f"{one.shown} and {other.shown} are one host: it has one vote, so give each a host of its own"
            )
        elif one.addresses & other.addresses:
            warnings.append(f"{one.shown} and {other.shown} share an address: they may fail and lie together")
        elif (domain := one.domain) is not None and domain == other.domain:
            warnings.append(f"{one.shown} and {other.shown} are both of {domain}: they may fail and lie together")
    return Electorate(tuple(problems), tuple(warnings))


async def independent_hosts(
    urls: Sequence[str], *, resolve: Resolve = addresses_of, deadline_seconds: float = 5
) -> int:
    """How many machines the endpoints are, two that may be one counted as one."""
    voters = [_Voter(shown_url(url), host_of(url)) for url in urls]
    with unwrapped(), trio.move_on_after(deadline_seconds):
        async with trio.open_nursery() as lookups:
            for voter in voters:
                lookups.start_soon(voter.look_up, resolve)
    machines: list[list[_Voter]] = []
    for voter in voters:
        same = [one for one in machines if any(other.is_same_host(voter) for other in one)]
        machines = [one for one in machines if one not in same]
        machines.append([voter, *(other for one in same for other in one)])
    return len(machines)


@define
class _Voter:
    shown: str
    host: str
    addresses: frozenset[str] = field(default=frozenset(), init=False)

    async def look_up(self, resolve: Resolve) -> None:
        if self.is_literal:
            self.addresses = frozenset({self.host})
            return
        try:
            found = await resolve(self.host)
        except OSError:
            return
        self.addresses = frozenset(
            spelled(address) for address in (address_of(text) for text in found) if address is not None
        )

    @property
    def is_literal(self) -> bool:
        return address_of(self.host) is not None or self.host == "localhost"

    @property
    def domain(self) -> str | None:
        """The last two labels of a name: not always one owner's (`co.uk`), which is why it only warns."""
        labels = self.host.split(".")
        return None if self.is_literal or len(labels) < 2 else ".".join(labels[-2:])

    def is_same_host(self, other: _Voter) -> bool:
        """One name, one set of addresses, or an address that the other's name stands for."""
        if self.host == other.host or (self.addresses and self.addresses == other.addresses):
            return True
        return (self.is_literal and self.host in other.addresses) or (other.is_literal and other.host in self.addresses)


def _unknown(voters: Sequence[_Voter]) -> Iterator[_Voter]:
    return (voter for voter in voters if not voter.addresses)
