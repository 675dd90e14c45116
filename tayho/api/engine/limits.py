"""How often one client may ask: counted by Redis for all replicas together, before anything else is done (INT-8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from litestar.datastructures import Headers

from nursery.coalesce import Coalescer, CoalescerClosed
from storage.counters import Budget, Spent
from storage.errors import StorageError
from tayho.api.engine import codes
from tayho.api.engine.clients import Network, client_of
from tayho.api.engine.refusals import RequestRefused, away
from tayho.api.problems import Code
from tayho.custody.module import Pseudonyms

WINDOW_SECONDS = 60
# Requests counted in one exchange, and how many may wait for it.
TOGETHER_MAX = 256
WAITING_MAX = 4_096


@frozen
class Counted:
    """A request within its budget: the name its client is counted under, and what the answer tells of the budget."""

    client: str
    told: Mapping[str, str]


class Limits:
    """The budgets of one kind of request. Uncounted, nothing is taken: without Redis the answer is 503.

    Requests that come together are counted in one exchange; `run` must run for any to be counted.
    """

    def __init__(self, budget: Budget, refused_as: Code, pseudonyms: Pseudonyms, trusted: Sequence[Network]) -> None:
        self._budget = budget
        self._refused_as = refused_as
        self._pseudonyms = pseudonyms
        self._trusted = trusted
        self._counting: Coalescer[str, Spent] = Coalescer(
            budget.spend_many, name="counting", items_max=TOGETHER_MAX, queued_max=WAITING_MAX, parallel=2
        )

    async def run(self) -> None:
        """Count, until cancelled."""
        await self._counting.run()

    async def spend(self, peer: str | None, headers: Headers) -> Counted:
        """Count one request. Raises RequestRefused."""
        client = self._pseudonyms.name_of(client_of(peer, headers.getall("x-forwarded-for", []), self._trusted))
        try:
            spent = await self._counting.submit(client)
        except (StorageError, CoalescerClosed) as error:
            raise away(codes.NO_LIMITS, "Requests cannot be counted now: ask again.") from error
        told = {
            "RateLimit-Limit": str(self._budget.most),
            "RateLimit-Remaining": str(spent.remaining),
            "RateLimit-Reset": str(spent.reset_seconds),
            "RateLimit-Policy": f"{self._budget.most};w={self._budget.window_seconds}",
        }
        if not spent.allowed:
            window = f"{self._budget.most} in {self._budget.window_seconds} seconds"
            detail = f"{window}: wait {spent.reset_seconds} seconds."
            headers_told = {**told, "Retry-After": str(spent.reset_seconds)}
            raise RequestRefused(self._refused_as, detail, headers=headers_told)
        return Counted(client, told)
