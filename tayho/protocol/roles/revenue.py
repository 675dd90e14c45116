"""revenue: sends what has gathered to the treasury, once an epoch."""

from __future__ import annotations

from typing import cast

from attrs import frozen

from rpc.reads import Reads
from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.kernel.discovery import Discovered, Work
from tayho.kernel.jobs import Job, NotActionable
from tayho.kernel.json_document import Json
from tayho.kinds import Actionable, Call, Revalidation
from tayho.protocol.roles.epochs import ended_epoch
from tayho.protocol.roles.kind import ProtocolKind, call_of, document_of, event_of, head_of, request_of, views


@frozen
class RevenueRequest:
    """The revenue of an epoch that is over, and who gets it."""

    protocol: Address
    epoch: int
    treasury: Address


class DistributeRevenue(ProtocolKind):
    """`revenue.distribute`: one distribution an epoch. Late is safe: what was not sent gathers for the next."""

    name: str = "revenue.distribute"
    role: str = "revenue"

    async def discover(self, reads: Reads) -> Discovered:
        """The epoch that ended last, if something has gathered and it was not distributed. Raises RpcError."""
        protocol, treasury = self.settings.address, self.settings.treasury
        if protocol is None or treasury is None:
            return Discovered()
        epoch = ended_epoch((await head_of(reads)).timestamp_seconds, self.settings.revenue_epoch_seconds)
        if await _not_due(reads, protocol, epoch) is not None:
            return Discovered()
        return Discovered((Work(str(epoch), document_of(RevenueRequest(protocol, epoch, treasury))),))

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        """Wanted while something has gathered and the epoch was not distributed. Raises RpcError, RequestRefused."""
        request = request_of(job, RevenueRequest)
        reason = await _not_due(reads, request.protocol, request.epoch)
        return Actionable() if reason is None else NotActionable(reason)

    async def call(self, job: Job) -> Call:
        """Raises RequestRefused."""
        request = request_of(job, RevenueRequest)
        return await call_of(request.protocol, "distributeRevenue", request.epoch, request.treasury)

    def result_of(self, job: Job, receipt: Receipt) -> Json:
        """What was sent. Raises ResultMissing."""
        request = request_of(job, RevenueRequest)
        event = event_of(
            receipt, request.protocol, "RevenueDistributed", epoch=request.epoch, treasury=request.treasury
        )
        return {"amount_wei": str(event["amountWei"])}


async def _not_due(reads: Reads, protocol: Address, epoch: int) -> str | None:
    asked = [("isDistributed", (epoch,)), ("revenueWei", ())]
    (is_distributed,), (gathered_wei,) = await views(reads, protocol, asked)
    if is_distributed:
        return f"the revenue of epoch {epoch} is distributed"
    if cast("int", gathered_wei) == 0:
        return "no revenue has gathered"
    return None
