"""Whether the endpoint still serves the chain we mean: asked before the first use and after each reconnection (RPC-6).

A URL can change its chain under us: a node restarted with other settings, a gateway re-pointed, a host name moved.
That happens behind a new connection, so every connection not seen before voids the check, and so does every fault
that may end in a reconnection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from weakref import WeakSet

import trio

from rpc.errors import ChainMismatch, DeadlinePassed, EndpointFault, Reason, Transport


class ChainGuard:
    """Shares one check among all who wait for it. `probe` asks the chain id and raises WrongChain if it is another.

    Invariant: generations only grow. What was true at one generation says nothing about a later one; a check covers
    the generation it *began* in, because a reconnection may have happened while it ran.
    """

    def __init__(self) -> None:
        self._generation = 1
        self._trusted_generation = 0
        self._failed_generation = 0
        self._failure: EndpointFault | None = None
        self._checking = trio.Lock()
        self._connections: WeakSet[object] = WeakSet()

    def notice(self, connection: object) -> bool:
        """Tell over which connection an answer came. True for a new one: the answer must wait for `ensure`."""
        if connection in self._connections:
            return False
        self.probed(connection)
        self.distrust()
        return True

    def probed(self, connection: object) -> None:
        """Tell over which connection a probe's own answer came."""
        self._connections.add(connection)

    def distrust(self) -> None:
        """Void the last check."""
        self._generation += 1

    async def ensure(self, probe: Callable[[], Awaitable[None]]) -> None:
        """Return once the chain is known to be ours. Raises what `probe` raises.

        One caller probes, the others wait and share its verdict; when the prober is cancelled, the next one probes.
        """
        needed = self._generation
        if self._trusted_generation >= needed:
            return
        async with self._checking:
            if self._trusted_generation >= needed:
                return
            if self._failure is not None and self._failed_generation >= needed:
                raise self._failure.about(self._failure.method) from self._failure
            generation = self._generation
            try:
                await probe()
            except EndpointFault as fault:
                self._failure, self._failed_generation = fault, generation
                self._generation += 1
                raise
            self._trusted_generation = generation


def may_reconnect(reason: Reason) -> bool:
    """Whether after this fault the next question goes over another connection than the last one."""
    match reason:
        case Transport() | ChainMismatch():
            return True
        case DeadlinePassed(stage=stage):
            return stage != "slot"
        case _:
            return False
