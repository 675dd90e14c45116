"""What a running process is made of, as its faces see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from attrs import frozen

from nursery.drain import Drain
from tayho.config import Settings
from tayho.coordination.module import Coordination
from tayho.observability import Metrics
from tayho.relaying import Relaying
from tayho.resources import Resources
from tayho.transactions.module import Transactions


@frozen
class Parts:
    """Everything that the composition root has put together."""

    settings: Settings
    resources: Resources
    coordination: Coordination
    # None where no role signs.
    transactions: Transactions | None
    metrics: Metrics
    drain: Drain
    # None where no intents are relayed.
    relaying: Relaying | None = None


@frozen
class Served:
    """A face that listens: what serves it until cancelled, and what to wait for before it is."""

    serve: Callable[[], Awaitable[None]]
    # Returns once the drain was requested and nothing that came in before it is unanswered.
    ended: Callable[[], Awaitable[None]]


# Opened before anything is begun.
Face: TypeAlias = Callable[[Parts], AbstractAsyncContextManager[Served]]
