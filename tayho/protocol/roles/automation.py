"""automation: executes the orders that are due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from attrs import frozen
from eth_utils.crypto import keccak

from rpc.reads import Reads
from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.kernel.discovery import Discovered, Work
from tayho.kernel.jobs import Job, NotActionable
from tayho.kernel.json_document import Json
from tayho.kinds import Actionable, Call, Revalidation
from tayho.protocol import abi
from tayho.protocol.roles.kind import ProtocolKind, call_of, document_of, event_of, head_of, request_of, view, views
from tayho.protocol.roles.walk import Walk

_OPEN = 1
_TERMS = ("address", "bytes32", "int128", "uint64")


@frozen
class OrderRequest:
    """An order by its number and its terms: after a reorganisation the number may be another order's."""

    protocol: Address
    order: int
    terms: bytes


@frozen
class Order:
    """An order as the contract has it."""

    account: Address
    market: bytes
    size: int
    not_before: int
    state: int

    @property
    def is_open(self) -> bool:
        return self.state == _OPEN

    @property
    def terms(self) -> bytes:
        """The digest of what was ordered."""
        return bytes(keccak(abi.codec.encode(_TERMS, (self.account, self.market, self.size, self.not_before))))


class ExecuteOrder(ProtocolKind):
    """`orders.execute`: one execution of one order."""

    name: str = "orders.execute"
    role: str = "automation"

    def __init__(self) -> None:
        super().__init__()
        self._walk = Walk()

    async def discover(self, reads: Reads) -> Discovered:
        """The orders that are open, due and in a market that is not paused. Raises RpcError, ResultRefused."""
        protocol = self.settings.address
        if protocol is None:
            return Discovered()
        now = (await head_of(reads)).timestamp_seconds
        (count,) = await view(reads, protocol, "orderCount")
        numbers = self._walk.page(cast("int", count), now)
        orders = dict(zip(numbers, await _orders(reads, protocol, numbers), strict=True))
        for number, order in orders.items():
            self._walk.tell(number, order.not_before if order.is_open else None, now)
        due = {number: order for number, order in orders.items() if order.is_open and order.not_before <= now}
        paused = await _paused(reads, protocol, sorted({order.market for order in due.values()}))
        work = [
            Work(f"{number}/{order.terms[:8].hex()}", document_of(OrderRequest(protocol, number, order.terms)))
            for number, order in due.items()
            if order.market not in paused
        ]
        return Discovered(tuple(work), is_more=self._walk.is_more)

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        """Wanted while that very order is open and due, and its market runs. Raises as `discover`, RequestRefused."""
        request = request_of(job, OrderRequest)
        (order,) = await _orders(reads, request.protocol, [request.order])
        if not order.is_open:
            return NotActionable(f"order {request.order} is not open")
        if order.terms != request.terms:
            return NotActionable(f"order {request.order} has other terms: the chain took back the one that was found")
        if order.not_before > (await head_of(reads)).timestamp_seconds:
            return NotActionable(f"order {request.order} is not due before {order.not_before}")
        if await _paused(reads, request.protocol, [order.market]):
            return NotActionable(f"the market of order {request.order} is paused")
        return Actionable()

    async def call(self, job: Job) -> Call:
        """Raises RequestRefused."""
        request = request_of(job, OrderRequest)
        return await call_of(request.protocol, "executeOrder", request.order)

    def result_of(self, job: Job, receipt: Receipt) -> Json:
        """The account's position after the order. Raises ResultMissing."""
        request = request_of(job, OrderRequest)
        event = event_of(receipt, request.protocol, "OrderExecuted", orderId=request.order)
        return {"account": str(event["account"]), "position": str(event["position"])}


async def _orders(reads: Reads, protocol: Address, numbers: Sequence[int]) -> list[Order]:
    found = await views(reads, protocol, [("orders", (number,)) for number in numbers])
    return [Order(*cast("tuple[Address, bytes, int, int, int]", one)) for one in found]


async def _paused(reads: Reads, protocol: Address, markets: Sequence[bytes]) -> frozenset[bytes]:
    found = await views(reads, protocol, [("isPaused", (market,)) for market in markets])
    return frozenset(market for market, (is_paused,) in zip(markets, found, strict=True) if is_paused)
