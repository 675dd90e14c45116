"""The roles a process can run, by name; the name is also the queue that the role's jobs are delivered to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import frozen


@frozen
class Role:
    """One kind of work of a process. A role that signs owns a pool of signers; the others hold no key."""

    name: str
    signs: bool
    work: str


def _named(*roles: Role) -> Mapping[str, Role]:
    return MappingProxyType({role.name: role for role in roles})


ROLES: Mapping[str, Role] = _named(
    Role("relayer", signs=True, work="batches session-signed intents and relays them"),
    Role("automation", signs=True, work="scans for due orders and executes them"),
    Role("funding-oracle", signs=True, work="posts funding per market and epoch"),
    Role("depth-attester", signs=True, work="posts attestations of depth"),
    Role("resolution-attester", signs=True, work="posts attestations of resolution"),
    Role("guardian", signs=True, work="pauses a market on an anomaly"),
    Role("revenue", signs=True, work="distributes revenue per epoch"),
    Role("payouts", signs=True, work="carries out payouts, sweeps and top-ups"),
    Role("engine", signs=False, work="public HTTP: intents in, statuses out"),
    Role("watcher", signs=False, work="deposits, headers, fee observations"),
    Role("notifier", signs=False, work="webhook deliveries"),
    Role("auditor", signs=False, work="independent verification"),
)
