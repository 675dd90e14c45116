"""What an endpoint reports about each question, for scores and metrics (RPC-2, RPC-10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

import trio
from attrs import frozen

from rpc.errors import EndpointFault, Reverted, RpcError


@frozen
class Observation:
    """One question to one endpoint and how it went.

    `outcome` is "answered", "refused", "reverted", the name of a reason in `rpc.errors` ("HttpStatus", …), or
    "cancelled": the caller gave up, so `seconds` says "at least", and a slow endpoint must not look fast for it.
    `batch_items` is how many questions shared the exchange, 1 for a single one.
    """

    endpoint: str
    method: str
    outcome: str
    seconds: float
    batch_items: int


def outcome_of(error: RpcError) -> str:
    """The name under which an error is counted."""
    if isinstance(error, EndpointFault):
        return type(error.reason).__name__
    return "reverted" if isinstance(error, Reverted) else "refused"


class EndpointStats:
    """Counts since the endpoint was opened; every Observation passes through `note`.

    `observer` is called for each, in the task that asked. It must be quick and must not raise: what it raises goes
    to that caller as the defect it is.
    """

    def __init__(self, endpoint: str, observer: Callable[[Observation], None] | None = None) -> None:
        self.endpoint = endpoint
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self._observer = observer

    @property
    def requests(self) -> int:
        """Questions asked, whatever became of them."""
        return self.outcomes.total()

    def note(self, method: str, outcome: str, seconds: float, batch_items: int = 1) -> None:
        """Count one question and pass it on."""
        self.outcomes[method, outcome] += 1
        if self._observer is not None:
            self._observer(Observation(self.endpoint, method, outcome, seconds, batch_items))

    @contextmanager
    def watching(self, method: str) -> Generator[None]:
        """Note the single question asked inside."""
        started = trio.current_time()
        outcome = "crashed"
        try:
            yield
            outcome = "answered"
        except RpcError as error:
            outcome = outcome_of(error)
            raise
        except trio.Cancelled:
            outcome = "cancelled"
            raise
        finally:
            self.note(method, outcome, trio.current_time() - started)
