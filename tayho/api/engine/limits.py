"""How often one client may ask: counted by Redis for all replicas together, before anything else is done (INT-8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from litestar.datastructures import Headers

from storage.counters import Budget
from storage.errors import StorageError
from tayho.api.engine import codes
from tayho.api.engine.clients import Network, client_of
from tayho.api.engine.refusals import RequestRefused, away
from tayho.api.problems import Code
from tayho.custody.module import Pseudonyms

WINDOW_SECONDS = 60


@frozen
class Counted:
    """A request within its budget: the name its client is counted under, and what the answer tells of the budget."""

    client: str
    told: Mapping[str, str]


@frozen
class Limits:
    """The budgets of one kind of request. Uncounted, nothing is taken: without Redis the answer is 503."""

    budget: Budget
    refused_as: Code
    pseudonyms: Pseudonyms
    trusted: Sequence[Network]

    async def spend(self, peer: str | None, headers: Headers) -> Counted:
        """Count one request. Raises RequestRefused."""
        client = self.pseudonyms.name_of(client_of(peer, headers.getall("x-forwarded-for", []), self.trusted))
        try:
            spent = await self.budget.spend(client)
        except StorageError as error:
            raise away(codes.NO_LIMITS, "Requests cannot be counted now: ask again.") from error
        told = {
            "RateLimit-Limit": str(self.budget.most),
            "RateLimit-Remaining": str(spent.remaining),
            "RateLimit-Reset": str(spent.reset_seconds),
            "RateLimit-Policy": f"{self.budget.most};w={self.budget.window_seconds}",
        }
        if not spent.allowed:
            detail = f"{self.budget.most} in {self.budget.window_seconds} seconds: wait {spent.reset_seconds} seconds."
            raise RequestRefused(self.refused_as, detail, headers={**told, "Retry-After": str(spent.reset_seconds)})
        return Counted(client, told)
