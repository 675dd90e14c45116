"""What durable decisions rest on: heads, receipts, nonces and hashes, each agreed by a majority (RPC-5, RPC-7)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import frozen

from rpc import methods
from rpc.ballots import Agreed, Vote
from rpc.canvass import canvass
from rpc.errors import NoQuorum, RpcError
from rpc.heads import Heads
from rpc.quorum import Quorum
from rpc.reads import Call
from rpc.values import Header, Receipt

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

POOLS_DEADLINE_SECONDS = 10
POOLS_GRACE_SECONDS = 1
"""How long the voters' own pools are asked about, and how long the slower ones once a majority has answered."""


@frozen
class Sight:
    """One look at the chain. What could not be agreed is absent, with the first reason of each kind in `failures`.

    None for a receipt: a majority says that there is none. Receipts above the head are as if they could not be read:
    a majority may have mined further meanwhile, and there is no canonical hash to compare them with yet.
    """

    head: Header
    canonical_hashes: Mapping[int, bytes]
    receipts: Mapping[bytes, Receipt | None]
    nonces: Mapping[bytes, int]
    pending_nonces: Mapping[bytes, int]
    failures: tuple[RpcError, ...]


class ChainTruth:
    """A majority's word on the chain. With one endpoint configured, that endpoint's word."""

    def __init__(self, quorum: Quorum, heads: Heads) -> None:
        self._quorum = quorum
        self.heads = heads

    async def look(self, transactions: Sequence[bytes], accounts: Sequence[bytes], depth: int) -> Sight:
        """The chain as far as it concerns these transactions and accounts.

        The head is agreed first and everything else is read from there: a block mined meanwhile can only make a
        receipt look shallower. Blocks that are named, and `depth` below the head, are declared final.

        Raises:
            NoQuorum: no head is agreed, or nothing of all that was asked.
            FinalityViolated: a block declared final is not canonical any more.
        """
        head = await self.heads.head()
        receipts = await self._agreed(transactions, [methods.transaction_receipt(one) for one in transactions])
        nonces = await self._agreed(accounts, [methods.transaction_count(one, head.hash) for one in accounts])
        pending = await self._pending_nonces(accounts)
        named = {receipt.block_number for receipt in _read(receipts).values() if receipt is not None}
        headers = await self.heads.headers_at(sorted(height for height in named if height <= head.number))
        canonical = {height: header for height, header in _read(headers).items() if header is not None}
        deep = [height for height in canonical if head.number - height >= depth]
        if deep:
            await self.heads.final(max(deep), depth)
        return Sight(
            head=head,
            canonical_hashes={height: header.hash for height, header in canonical.items()},
            receipts=_read(receipts),
            nonces=_read(nonces),
            pending_nonces=_read(pending),
            failures=tuple(reasons[0] for reasons in map(_failures, (receipts, nonces, pending, headers)) if reasons),
        )

    async def _agreed(self, keys: Sequence[bytes], calls: Sequence[Call[T]]) -> dict[bytes, T | RpcError]:
        """The agreed answers, each under its key. Raises the first refusal where there is no answer at all."""
        answers = await self._quorum.agreed_many(calls)
        found: dict[bytes, T | RpcError] = {
            key: answer.value if isinstance(answer, Agreed) else answer
            for key, answer in zip(keys, answers, strict=True)
        }
        failures = _failures(found)
        if failures and len(failures) == len(found):
            raise failures[0]
        return found

    async def _pending_nonces(self, accounts: Sequence[bytes]) -> dict[bytes, int | RpcError]:
        """The next nonce of each account that a majority's own pools have reached.

        Pools differ by nature, so they are not compared. It only tells whether to send the same bytes again: one
        voter that shows too much cannot hide that the others have lost them.
        """
        needed = self._quorum.needed
        told = await canvass(
            self._quorum.members,
            [methods.transaction_count(one, "pending") for one in accounts],
            needed=needed,
            deadline_seconds=POOLS_DEADLINE_SECONDS,
            grace_seconds=POOLS_GRACE_SECONDS,
        )
        reached: dict[bytes, int | RpcError] = {}
        for place, account in enumerate(accounts):
            votes = tuple(Vote(one.voter, one.answers[place], one.seconds) for one in told)
            counts = sorted((vote.outcome for vote in votes if isinstance(vote.outcome, int)), reverse=True)
            if len(counts) >= needed:
                reached[account] = counts[needed - 1]
            else:
                reached[account] = NoQuorum("eth_getTransactionCount", needed, self._quorum.voters, votes)
        return reached


def _failures(found: Mapping[Any, object]) -> tuple[RpcError, ...]:
    return tuple(answer for answer in found.values() if isinstance(answer, RpcError))


def _read(found: Mapping[K, T | RpcError]) -> dict[K, T]:
    return {key: answer for key, answer in found.items() if not isinstance(answer, RpcError)}
