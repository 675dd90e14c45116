"""A front over a real node: an endpoint that is honest until it is told how not to be.

The raw server and the single behaviours are those of `tests.rpc.faulty_server`; here they stand before a real chain,
each bound to methods and to request numbers, and the port can be shut.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import trio
from attrs import define, field, frozen

from tests.rpc.faulty_server import Behaviour, FaultyServer, Request
from tests.rpc.front.door import Door
from tests.rpc.front.ground import Ground
from tests.rpc.front.node import Node

Json: TypeAlias = "dict[str, Any]"

_JSON = {"content-type": "application/json"}


@frozen
class Nodes:
    """The true chain and the forked one."""

    true: Node
    forked: Node


@asynccontextmanager
async def nodes(ground: Ground) -> AsyncGenerator[Nodes]:
    """Both nodes of the ground, for any number of fronts."""
    async with Node.at(ground.true_url) as true, Node.at(ground.forked_url) as forked:
        yield Nodes(true, forked)


@define
class Rule:
    """A behaviour, and the requests it is for: those that ask one of `methods` (None: any), counted from 1.

    `seen` counts the requests that fit the methods, `applied` those that were served by the behaviour.
    """

    behaviour: Behaviour
    methods: Collection[str] | None = None
    numbers: Collection[int] | None = None
    seen: int = 0
    applied: int = 0

    def takes(self, request: Request) -> bool:
        if self.methods is not None and not any(call["method"] in self.methods for call in request.calls):
            return False
        self.seen += 1
        if self.numbers is not None and self.seen not in self.numbers:
            return False
        self.applied += 1
        return True


@define
class Front:
    """One endpoint. The latest rule that takes a request serves it; without one the true chain answers."""

    nodes: Nodes
    server: FaultyServer
    door: Door
    host: str
    rules: list[Rule] = field(factory=list[Rule])
    turns_away: bool = False
    turned_away: int = 0

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.door.port}"

    def arm(
        self, behaviour: Behaviour, methods: Collection[str] | None = None, numbers: Collection[int] | None = None
    ) -> Rule:
        """Misbehave so from now on; `numbers` picks requests among those that fit, the next one being 1."""
        rule = Rule(behaviour, methods, numbers)
        self.rules.append(rule)
        return rule

    def disarm(self) -> None:
        """Be honest again."""
        self.rules.clear()
        self.turns_away = False
        self.door.open()

    def asked(self, method: str) -> int:
        """How often a method was asked here, alone or in a batch."""
        return self.server.asked(method)

    @property
    def met(self) -> int:
        """How often a fault was met: a request that a rule served, or a connection that was turned away."""
        return self.turned_away + sum(rule.applied for rule in self.rules)

    async def honest(self, request: Request) -> list[Json]:
        """What the true chain answers to each call of a request."""
        return await self.nodes.true.answers(request.calls)

    async def forked(self, request: Request) -> list[Json]:
        """What the forked chain answers to each call of a request."""
        return await self.nodes.forked.answers(request.calls)

    async def serve(self, request: Request) -> None:
        """Serve one request."""
        for rule in reversed(self.rules):
            if rule.takes(request):
                await rule.behaviour(request)
                return
        # As it stands: most of what passes is nobody's to read.
        await request.respond(await self.nodes.true.post(request.body), headers=_JSON)

    async def let_in(self, stream: trio.SocketStream) -> None:
        """Serve one connection."""
        if self.turns_away:
            self.turned_away += 1
            await stream.aclose()
            return
        await self.server.serve_connection(stream)


async def answer_with(request: Request, answers: Sequence[object]) -> None:
    """A well-formed answer made of these envelopes; one that is a string is JSON text as it stands."""
    texts = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]
    body = f"[{','.join(texts)}]" if request.is_batch else texts[0]
    await request.respond(body.encode(), headers=_JSON)


@asynccontextmanager
async def fronts(nodes: Nodes, count: int) -> AsyncGenerator[list[Front]]:
    """Several fronts until the end of the block, on a loopback address each: distinct hosts, as voters are."""
    async with trio.open_nursery() as clients:
        running = [_raise_front(nodes, f"127.0.0.{place + 1}", clients) for place in range(count)]
        for each in running:
            each.door.open()
        yield running
        for each in running:
            each.door.remove()
        clients.cancel_scope.cancel()


def _raise_front(nodes: Nodes, host: str, clients: trio.Nursery) -> Front:
    async def serve(request: Request) -> None:
        await raised.serve(request)

    async def let_in(stream: trio.SocketStream) -> None:
        await raised.let_in(stream)

    door = Door(let_in, clients, host)
    server = FaultyServer(port=door.port, otherwise=serve, scripts_chain_checks=True)
    raised = Front(nodes, server, door, host)
    return raised
