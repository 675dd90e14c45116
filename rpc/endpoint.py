"""One endpoint: typed questions in, typed answers or typed errors out. Retries nothing."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, cast

import trio
from attrs import evolve

from nursery.groups import unwrapped
from rpc.batches import BatchSize, chunks
from rpc.errors import RpcError
from rpc.exchange import Exchanges
from rpc.many import Chunk
from rpc.observation import EndpointStats, Observation
from rpc.reads import Call
from rpc.transport import HttpTransport
from rpc.urls import EndpointUrl, numbered

T = TypeVar("T")

BODY_BYTES_MAX = 16 * 1024 * 1024
"""Largest answer read by default: the receipts of a full block have a few megabytes."""


class Endpoint:
    """A JSON-RPC endpoint over HTTP/1.1, of one chain. Implements `rpc.reads.Reads`.

    A write over a connection that silently replaced a lost one has its chain checked after it was sent: the signed
    bytes carry the chain id themselves (EIP-155), so another chain refuses them.
    """

    def __init__(self, url: EndpointUrl, exchanges: Exchanges, batch_items_max: int) -> None:
        self._url = url
        self._exchanges = exchanges
        self._batch_size = BatchSize(batch_items_max)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        *,
        chain_id: int,
        deadline_seconds: float = 10,
        body_bytes_max: int = BODY_BYTES_MAX,
        batch_items_max: int = 50,
        in_flight_max: int = 32,
        keepalive_seconds: float = 30,
        number: int = 1,
        observer: Callable[[Observation], None] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> AsyncGenerator[Endpoint]:
        """An endpoint that connects at the first question.

        `deadline_seconds` bounds each `ask`, and each batch of `ask_many`, from the wait for a free connection to
        the last byte. `in_flight_max` bounds the requests under way, and so the connections. `observer` hears of
        every question (see EndpointStats). `tls` replaces the system's trusted roots.
        `number` tells endpoints apart whose URLs are shown alike.

        Raises EndpointUrlRefused.
        """
        parsed = EndpointUrl.parse(url)
        parsed = evolve(parsed, shown=numbered(parsed.shown, number))
        async with HttpTransport.open(
            parsed,
            in_flight_max=in_flight_max,
            body_bytes_max=body_bytes_max,
            keepalive_seconds=keepalive_seconds,
            tls=tls,
        ) as transport:
            exchanges = Exchanges(
                transport, parsed, chain_id=chain_id, deadline_seconds=deadline_seconds, observer=observer
            )
            yield cls(parsed, exchanges, batch_items_max)

    @property
    def shown(self) -> str:
        """The URL as it may be shown: no credentials, path or query."""
        return self._url.shown

    @property
    def stats(self) -> EndpointStats:
        """Questions and their outcomes since the endpoint was opened."""
        return self._exchanges.stats

    async def ask(self, call: Call[T], deadline_seconds: float | None = None) -> T:
        """The answer to one question, within `deadline_seconds` if they are less than the endpoint's own.

        Raises:
            EndpointFault: no usable answer (WrongChain: it serves another chain). A write may have taken effect.
            RpcRefused: the node refused; Reverted: the EVM did.
        """
        exchanges = self._exchanges
        with exchanges.stats.watching(call.method), exchanges.deadline(call.method, deadline_seconds) as progress:
            return exchanges.value_of(call, await exchanges.single(call, progress))

    async def ask_many(self, calls: Sequence[Call[T]], deadline_seconds: float | None = None) -> list[T | RpcError]:
        """The answers in the order asked; where one failed, its RpcRefused or EndpointFault in its place.

        At `deadline_seconds`, if they are less than the endpoint's own, what is unanswered has its EndpointFault.

        Sent as JSON-RPC batches, several under way at once, in smaller ones where the provider refuses the size.
        Raises ValueError for a write: what a batch half refused did is unknown.
        """
        if any(call.is_write for call in calls):
            raise ValueError("a write is asked alone, with ask(): a batch may be sent again in parts")
        outcomes: dict[int, object] = {}
        with unwrapped():
            async with trio.open_nursery() as exchanges:
                for items in chunks(list(enumerate(calls)), self._batch_size.items_max):
                    exchanges.start_soon(
                        Chunk(self._exchanges, self._batch_size, items, outcomes).ask, deadline_seconds
                    )
        return cast("list[T | RpcError]", [outcomes[place] for place in range(len(calls))])

    async def ask_in_turn(self, calls: Sequence[Call[T]], deadline_seconds: float | None = None) -> list[T | RpcError]:
        """As `ask_many`, but one request after the other in the order given, and for writes too.

        Only for writes that are safe to repeat, such as signed transactions: of a batch that is refused for its size,
        those without an answer are sent again in smaller ones. Whatever else failed is not sent again.
        """
        outcomes: dict[int, object] = {}
        for items in chunks(list(enumerate(calls)), self._batch_size.items_max):
            await Chunk(self._exchanges, self._batch_size, items, outcomes).ask(deadline_seconds)
        return cast("list[T | RpcError]", [outcomes[place] for place in range(len(calls))])
