"""What durable decisions rest on: heads, receipts, nonces and hashes, each agreed by a majority (RPC-5, RPC-7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import field, frozen

from rpc import methods
from rpc.agreed_reads import AgreedReads
from rpc.asked_together import Asked, ask_together
from rpc.ballots import Agreed, Vote
from rpc.canvass import canvass
from rpc.contests import Contests
from rpc.errors import NoQuorum, Reverted, RpcError
from rpc.heads import Heads
from rpc.quorum import Quorum
from rpc.reads import Call
from rpc.receipt_checks import Checked, Claim, ReceiptChecks
from rpc.values import Header, Receipt

T = TypeVar("T")

POOLS_DEADLINE_SECONDS = 10
POOLS_GRACE_SECONDS = 1
"""How long the voters' own pools are asked about, and how long the slower ones once a majority has answered."""

_DELEGATION_BYTES = 23


@frozen
class Sight:
    """One look at the chain. What could not be agreed is absent, with the first reason of each kind in `failures`.

    None for a receipt: a majority says that there is none. Receipts above the head are as if they could not be read:
    a majority may have mined further meanwhile, and there is no canonical hash to compare them with yet. Absent too is
    a deep receipt that its own block refutes, whoever agreed on it, and one whose check was put off to the next look.
    """

    head: Header
    canonical_hashes: Mapping[int, bytes]
    receipts: Mapping[bytes, Receipt | None]
    # Each account's next nonce after the head, after the block `confirmations` below it, and in the voters' own pools.
    nonces: Mapping[bytes, int]
    final_nonces: Mapping[bytes, int]
    pending_nonces: Mapping[bytes, int]
    # After the head.
    balances_wei: Mapping[bytes, int]
    failures: tuple[RpcError, ...]
    # What the receipts rest on. Two looks that saw the same are equal, whoever told it and after how long.
    verdicts: Mapping[bytes, Agreed[Receipt | None]] = field(
        factory=dict[bytes, "Agreed[Receipt | None]"], eq=False, repr=False
    )
    checked: Checked = field(factory=Checked, eq=False, repr=False)


@frozen
class AccountsSight:
    """What is agreed on accounts at one head. What could not be agreed is absent, the first reasons in `failures`.

    Nonces as in `Sight`, `final_nonces` after the block `depth` below the head. `codes` has the first 23 bytes: empty
    for a key's own account, and the whole of a delegation, which is 0xef0100 and an address (EIP-7702).
    """

    head: Header
    nonces: Mapping[bytes, int]
    final_nonces: Mapping[bytes, int]
    pending_nonces: Mapping[bytes, int]
    balances_wei: Mapping[bytes, int]
    codes: Mapping[bytes, bytes] = field(repr=False)
    failures: tuple[RpcError, ...]


class ChainTruth:
    """A majority's word on the chain. With one endpoint configured, that endpoint's word.

    With `checks`, a receipt that is deep enough to end something must also follow from the block that it names, as far
    as any endpoint shows that block: then only the majority's word on the block's hash is left to be believed.
    """

    def __init__(
        self, quorum: Quorum, heads: Heads, checks: ReceiptChecks | None = None, contests: Contests | None = None
    ) -> None:
        self._quorum = quorum
        self.heads = heads
        self._checks = checks
        # What the voters said against each other, for whoever writes it down.
        self.contests = contests or Contests()
        self.voters = quorum.voters
        self.needed = quorum.needed

    async def ask(self, *kinds: Asked[Any]) -> None:
        """Put questions of several kinds to the vote, in one batch a voter; each kind has its answers then."""
        await ask_together(self._quorum, *kinds)

    async def look(
        self,
        transactions: Sequence[bytes],
        accounts: Sequence[bytes],
        *,
        confirmations: int,
        lookback: int,
        head: Header | None = None,
    ) -> Sight:
        """The chain as far as it concerns these transactions and accounts, in a constant number of round trips.

        The head is agreed first, unless the caller has it already, and everything else is read from there: a block
        mined meanwhile can only make a receipt look shallower. What is `confirmations` below the head may end
        something; the block `lookback` below it is declared final, and may never change again.

        Raises:
            NoQuorum: no head is agreed, or nothing of all receipts or of all nonces that were asked.
            FinalityViolated: a block declared final is not canonical any more.
        """
        head = await self.heads.head() if head is None else head
        deep, final = head.number - confirmations, head.number - lookback
        below = await self._canonical({height for height in (deep, final) if height >= 0})
        receipts = Asked({one: methods.transaction_receipt(one) for one in transactions})
        nonces = _nonces(accounts, head)
        final_nonces = _nonces(accounts, below.get(deep))
        balances = _balances(accounts, head)
        await ask_together(self._quorum, receipts, nonces, final_nonces, balances)
        receipts.require_any()
        nonces.require_any()
        pending = await self._pending_nonces(accounts)
        named = {receipt.block_number for receipt in receipts.agreed.values() if receipt is not None}
        headers = below | await self._canonical({height for height in named if height <= head.number})
        if isinstance(below.get(final), Header):
            await self.heads.final(final, lookback)
        checked = await self._checked(receipts, headers, deep)
        doubtful = checked.refuted.keys() | checked.postponed
        return Sight(
            head=head,
            canonical_hashes={height: found.hash for height, found in headers.items() if isinstance(found, Header)},
            receipts={one: receipt for one, receipt in receipts.agreed.items() if one not in doubtful},
            nonces=nonces.agreed,
            final_nonces=final_nonces.agreed,
            pending_nonces=_read(pending),
            balances_wei=balances.agreed,
            failures=_first_of_each(
                receipts.refusals,
                nonces.refusals,
                final_nonces.refusals,
                balances.refusals,
                pending.values(),
                headers.values(),
                checked.refuted.values(),
            ),
            verdicts=receipts.verdicts,
            checked=checked,
        )

    async def reads(self) -> AgreedReads:
        """Reads at the head agreed now, for what ends something for good. Raises NoQuorum, FinalityViolated."""
        return AgreedReads(self._quorum, await self.heads.head())

    async def accounts(self, addresses: Sequence[bytes], head: Header, *, depth: int) -> AccountsSight:
        """What is agreed on these accounts at an agreed head, in one batch a voter beside that of their own pools.

        Raises FinalityViolated. What is not agreed is absent, and concludes nothing.
        """
        deep = head.number - depth
        below = await self._canonical({deep} if deep >= 0 else ())
        nonces, final_nonces = _nonces(addresses, head), _nonces(addresses, below.get(deep))
        balances = _balances(addresses, head)
        codes = Asked({one: methods.code(one, head.hash) for one in addresses})
        await ask_together(self._quorum, nonces, final_nonces, balances, codes)
        pending = await self._pending_nonces(addresses)
        return AccountsSight(
            head=head,
            nonces=nonces.agreed,
            final_nonces=final_nonces.agreed,
            pending_nonces=_read(pending),
            balances_wei=balances.agreed,
            codes={one: code[:_DELEGATION_BYTES] for one, code in codes.agreed.items()},
            failures=_first_of_each(
                nonces.refusals,
                final_nonces.refusals,
                balances.refusals,
                codes.refusals,
                pending.values(),
                below.values(),
            ),
        )

    async def hashes_now(self, heights: Sequence[int]) -> dict[int, bytes | None]:
        """The hash that a majority has at each height, None where it has no block there; not agreed, absent.

        Asked anew, and not along the chain as it was known: that one may be gone. It tells one chain from another,
        and nothing that is decided on a chain may rest on it.
        """
        answers = await self._quorum.agreed_many([methods.block_by_number(height) for height in heights])
        return {
            height: None if answer.value is None else answer.value.hash
            for height, answer in zip(heights, answers, strict=True)
            if isinstance(answer, Agreed)
        }

    async def pending_nonces(self, accounts: Sequence[bytes]) -> dict[bytes, int]:
        """The next nonce of each account that a majority's own pools have reached, whatever their chain; not told,
        absent."""
        return _read(await self._pending_nonces(accounts))

    async def _checked(
        self, receipts: Asked[Receipt | None], headers: Mapping[int, Header | NoQuorum | None], deep: int
    ) -> Checked:
        """The receipts that may end something, held against their blocks."""
        if self._checks is None:
            return Checked()
        claims: list[Claim] = []
        for one, agreed in receipts.verdicts.items():
            receipt = agreed.value
            block = None if receipt is None or receipt.block_number > deep else headers.get(receipt.block_number)
            if receipt is not None and isinstance(block, Header) and block.hash == receipt.block_hash:
                claims.append(Claim(one, agreed, receipt, block))
        return await self._checks.check(claims)

    async def _canonical(self, heights: Iterable[int]) -> dict[int, Header | NoQuorum | None]:
        return await self.heads.headers_at(sorted(heights))

    async def _pending_nonces(self, accounts: Sequence[bytes]) -> dict[bytes, int | NoQuorum]:
        """The next nonce of each account that a majority's own pools have reached.

        It only tells whether to send the same bytes again: one voter that shows too much cannot hide that the others
        have lost them.
        """
        reached = await self.reached([methods.transaction_count(one, "pending") for one in accounts])
        return dict(zip(accounts, reached, strict=True))

    async def agreed(self, calls: Sequence[Call[T]]) -> list[T | NoQuorum | Reverted]:
        """A majority's one answer to each question, which names its block."""
        answers = await self._quorum.agreed_many(calls)
        return [answer.value if isinstance(answer, Agreed) else answer for answer in answers]

    async def reached(self, calls: Sequence[Call[int]]) -> list[int | NoQuorum]:
        """The highest number that a majority tells at least, for what honest nodes differ about by nature.

        No minority moves it above what an honest one tells, or below.
        """
        needed = self._quorum.needed
        told = await canvass(
            self._quorum.members,
            calls,
            needed=needed,
            deadline_seconds=POOLS_DEADLINE_SECONDS,
            grace_seconds=POOLS_GRACE_SECONDS,
        )
        reached: list[int | NoQuorum] = []
        for place, call in enumerate(calls):
            votes = tuple(Vote(one.voter, one.answers[place], one.seconds) for one in told)
            numbers = sorted((vote.outcome for vote in votes if isinstance(vote.outcome, int)), reverse=True)
            if len(numbers) >= needed:
                reached.append(numbers[needed - 1])
            else:
                reached.append(NoQuorum(call.method, needed, self._quorum.voters, votes))
        return reached


def _nonces(accounts: Sequence[bytes], block: Header | NoQuorum | None) -> Asked[int]:
    """Every account's next nonce after a block; nothing where the block is not known."""
    if not isinstance(block, Header):
        return Asked[int]({})
    return Asked({one: methods.transaction_count(one, block.hash) for one in accounts})


def _balances(accounts: Sequence[bytes], head: Header) -> Asked[int]:
    return Asked({one: methods.balance(one, head.hash) for one in accounts})


def _read(found: Mapping[bytes, int | RpcError]) -> dict[bytes, int]:
    return {account: count for account, count in found.items() if isinstance(count, int)}


def _first_of_each(*kinds: Iterable[object]) -> tuple[RpcError, ...]:
    """The first reason of each kind that something was not agreed."""
    reasons = (next((one for one in kind if isinstance(one, RpcError)), None) for kind in kinds)
    return tuple(reason for reason in reasons if reason is not None)
