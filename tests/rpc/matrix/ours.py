"""Our side: the pool for reads, a majority of its members for votes and finality."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

from attrs import frozen

from rpc.ballots import Agreed
from rpc.errors import NoQuorum, RpcError
from rpc.heads import Heads
from rpc.pool import ReadPool
from rpc.quorum import Quorum
from rpc.truth import ChainTruth
from tests.rpc.front.ground import ACCOUNT, CHAIN_ID, Ground
from tests.rpc.matrix import forms
from tests.rpc.matrix.cells import Cell, Outcome
from tests.rpc.matrix.questions import DEPTH, asked
from tests.rpc.matrix.sides import ENDPOINT_SECONDS, WARMING

# One for all: each takes as long to make as a cell to play.
_TLS = ssl.create_default_context()


@frozen
class OurSeat:
    """See Seat."""

    @asynccontextmanager
    async def opened(self, cell: Cell, urls: Sequence[str], ground: Ground) -> AsyncGenerator[OurAsking]:
        """See Seat. Heads are not watched beside: an endpoint is known only by what was asked of it here."""
        # One question goes to three endpoints at most, one after the other.
        deadline_seconds = 3 * ENDPOINT_SECONDS
        async with ReadPool.open(
            urls, chain_id=CHAIN_ID, deadline_seconds=deadline_seconds, head_poll_seconds=None, tls=_TLS
        ) as pool:
            quorum = Quorum(pool.members, deadline_seconds=deadline_seconds)
            heads = Heads(quorum, deadline_seconds=deadline_seconds, grace_seconds=ENDPOINT_SECONDS / 2)
            yield OurAsking(cell, ground, pool, quorum, heads)


@frozen
class OurAsking:
    """See Asking."""

    cell: Cell
    ground: Ground
    pool: ReadPool
    quorum: Quorum
    heads: Heads

    async def warm(self) -> None:
        """See Asking."""
        for below in range(1, WARMING + 1):
            for call in asked(self.cell.question, self.ground, below).calls:
                with suppress(RpcError):
                    await self.pool.ask(call)

    async def ask(self) -> Outcome:
        """See Asking."""
        try:
            return Outcome("value", await self._value())
        except NoQuorum:
            return Outcome("no quorum", name="NoQuorum")
        except RpcError as error:
            return Outcome("error", name=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - a raw exception is what the matrix looks for
            return Outcome("raw", name=type(error).__name__)

    async def _value(self) -> object:
        if self.cell.question == "final":
            return await self._final()
        if self.cell.way == "vote":
            return await self._voted()
        question = asked(self.cell.question, self.ground)
        if len(question.calls) == 1:
            return question.written([await self.pool.ask(question.calls[0])])
        return question.written(_answered(await self.pool.ask_many(question.calls)))

    async def _voted(self) -> object:
        if self.cell.question == "head":
            return (await self.heads.head()).number
        question = asked(self.cell.question, self.ground)
        if len(question.calls) == 1:
            return question.written([(await self.quorum.agreed(question.calls[0])).value])
        agreed = await self.quorum.agreed_many(question.calls)
        return question.written([one.value if isinstance(one, Agreed) else _raise(one) for one in agreed])

    async def _final(self) -> object:
        """As the reconciler looks: the receipt is agreed, in the canonical block of its height, and deep enough."""
        transaction = self.ground.transaction
        sight = await ChainTruth(self.quorum, self.heads).look(
            [transaction], [ACCOUNT], confirmations=DEPTH, lookback=DEPTH
        )
        if transaction not in sight.receipts:
            raise sight.failures[0]
        receipt = sight.receipts[transaction]
        if receipt is None or sight.head.number - receipt.block_number < DEPTH:
            return None
        canonical = sight.canonical_hashes.get(receipt.block_number)
        if canonical is None:
            raise sight.failures[0]
        return forms.of_finality(receipt) if canonical == receipt.block_hash else None


def _answered(answers: Sequence[object]) -> Sequence[object]:
    return [_raise(answer) if isinstance(answer, RpcError) else answer for answer in answers]


def _raise(error: RpcError) -> object:
    raise error


def seats(count: int) -> list[OurSeat]:
    """So many cells at once."""
    return [OurSeat()] * count
