"""What the chain asks for gas now: the base fee of the head, and the usual tip, asked once a block for all jobs."""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import structlog
import trio
from attrs import define, evolve, field, frozen

from rpc import methods
from rpc.errors import EndpointFault, RpcError
from rpc.reads import Call as Question
from rpc.reads import Reads
from rpc.values import FeeHistory, Header
from tayho.transactions.errors import MarketAbsurd
from tayho.transactions.fees import bounded_tip, tip_from
from tayho.transactions.types import Market

log = structlog.get_logger("tayho.transactions")

HISTORY_BLOCKS = 10
TIP_PERCENTILE = 50
USUAL_TIPS_KEPT = 10
# A job whose endpoint lags a little takes the tip that is known; further below, it is another chain, or a reset one.
LAG_BLOCKS_MAX = 16


@frozen
class _Known:
    """The tip after a block."""

    block_number: int
    tip_wei: int

    def serves(self, block_number: int) -> bool:
        return 0 <= self.block_number - block_number <= LAG_BLOCKS_MAX


@define(eq=False)
class _Flight:
    """A question under way, for those who wait for its end."""

    block_number: int
    landed: trio.Event = field(factory=trio.Event)
    error: RpcError | MarketAbsurd | None = None


class FeeMarket:
    """The market of one chain, for every job of the process.

    The base fee is taken from the header that the caller has, and tips from one endpoint: what one node tells can raise
    a tip, within `fees.bounded_tip` and the ceiling, and decides nothing else.
    """

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._known: _Known | None = None
        self._usual_wei: deque[int] = deque(maxlen=USUAL_TIPS_KEPT)
        self._flight: _Flight | None = None

    async def at(self, head: Header) -> Market:
        """The market after `head`. Asks at most once a block, however many wait for the answer.

        Raises RpcError where no endpoint answers, MarketAbsurd where nothing of the answers can be believed.
        """
        while True:
            known = self._known
            if known is not None and known.serves(head.number):
                return Market(head.base_fee_per_gas_wei, known.tip_wei, head.number)
            flight = self._flight
            if flight is None:
                await self._ask(head)
            else:
                await flight.landed.wait()
                if flight.error is not None and flight.block_number >= head.number:
                    raise _for_one_raiser(flight.error) from flight.error

    async def _ask(self, head: Header) -> None:
        """Make the tip after `head` known, for the others who wait too. Cancelled, it leaves the question to them."""
        flight = self._flight = _Flight(head.number)
        try:
            tip_wei = await (self._gas_price() if head.base_fee_per_gas_wei is None else self._tip(head))
        except (RpcError, MarketAbsurd) as error:
            flight.error = error
            raise
        else:
            bounded = bounded_tip(tip_wei, tuple(self._usual_wei))
            if bounded < tip_wei:
                log.warning("tip_bounded", told_wei=tip_wei, taken_wei=bounded, block_number=head.number)
            self._usual_wei.append(bounded)
            self._known = _Known(head.number, bounded)
        finally:
            self._flight = None
            flight.landed.set()

    async def _gas_price(self) -> int:
        return await self._reads.ask(methods.gas_price())

    async def _tip(self, head: Header) -> int:
        """From the history and the node's own suggestion; from its gas price where it has neither."""
        asked: list[Question[object]] = [
            methods.fee_history(HISTORY_BLOCKS, head.number, [TIP_PERCENTILE]),
            methods.max_priority_fee_per_gas(),
        ]
        history, suggested = await self._reads.ask_many(asked)
        suggested_wei = suggested if isinstance(suggested, int) else None
        tip_wei = _tip_of(history, suggested_wei, head) if isinstance(history, FeeHistory) else suggested_wei
        if tip_wei is not None:
            return tip_wei
        if isinstance(history, EndpointFault) and isinstance(suggested, EndpointFault):
            raise history
        price_wei = await self._gas_price()
        return max(price_wei - (head.base_fee_per_gas_wei or 0), 0)


def _tip_of(history: FeeHistory, suggested_wei: int | None, head: Header) -> int | None:
    """The history's tip; the suggestion alone where the history cannot be true. Raises MarketAbsurd without either."""
    try:
        return tip_from(history, suggested_wei, base_fee_wei=head.base_fee_per_gas_wei)
    except MarketAbsurd as error:
        if suggested_wei is None:
            raise
        log.warning("fee_history_absurd", error=str(error))
        return suggested_wei


def _for_one_raiser(error: RpcError | MarketAbsurd) -> Exception:
    """A copy for each who waited: an exception collects the traceback of everyone who raises it."""
    return cast("Exception", evolve(cast("Any", error))) if isinstance(error, RpcError) else MarketAbsurd(str(error))
