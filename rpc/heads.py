"""The head of the chain that a majority has reached, and the blocks below it along their parent hashes (RPC-7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import trio

from rpc import methods
from rpc.ballots import Agreed, Vote
from rpc.canvass import canvass
from rpc.errors import NoQuorum, RpcError
from rpc.finality import FinalBlock, Finality
from rpc.quorum import Quorum
from rpc.segment import Reorganised, Segment, reached_by
from rpc.values import Header

WALK_BLOCKS_MAX = 256
"""Deepest walk from the head. A block further down is believed by majority at its height, without the chain between."""

_TIP_BLOCKS = 8
"""How far below the height reached honest nodes may still differ: there the tip is looked for when nothing is known."""

_REORGANISATIONS_KEPT = 100


class Heads:
    """The conservative head: it goes up, and goes down only with a `Reorganised` record. One task at a time asks.

    `verify` is called with each header before it is built on, and raises an RpcError for a forged one.
    `grace_seconds` is how long slower voters are waited for, once a majority has told its height.
    """

    def __init__(
        self,
        quorum: Quorum,
        *,
        on_reorganised: Callable[[Reorganised], None] = lambda _: None,
        verify: Callable[[Header], None] = lambda _: None,
        deadline_seconds: float = 15,
        grace_seconds: float = 1,
    ) -> None:
        self._quorum = quorum
        self._on_reorganised = on_reorganised
        self._verify = verify
        self._deadline_seconds = deadline_seconds
        self._grace_seconds = grace_seconds
        self._segment: Segment | None = None
        self._finality = Finality(quorum.voters)
        self._one_at_a_time = trio.Lock()
        self.reorganisations: deque[Reorganised] = deque(maxlen=_REORGANISATIONS_KEPT)

    async def head(self) -> Header:
        """The highest block that a majority has reached.

        Raises:
            NoQuorum: there is none now.
            FinalityViolated: a block declared final is not canonical any more; from then on always.
        """
        async with self._one_at_a_time:
            return (await self._moved()).top

    async def headers_at(self, heights: Sequence[int]) -> dict[int, Header | NoQuorum | None]:
        """The canonical header at each height up to the head last told; None above it.

        Within WALK_BLOCKS_MAX of the head it is reached along the parent hashes. Raises as `head`.
        """
        async with self._one_at_a_time:
            self._finality.raise_violation()
            segment = self._segment or await self._moved()
            return await self._below(segment, heights)

    async def header_at(self, height: int) -> Header | None:
        """The canonical header at one height; None above the head. Raises as `head`."""
        found = (await self.headers_at([height]))[height]
        if isinstance(found, NoQuorum):
            raise found
        return found

    async def canonical_hash(self, height: int) -> bytes | None:
        """The hash of the canonical block at a height; None above the head. Raises as `head`."""
        header = await self.header_at(height)
        return None if header is None else header.hash

    async def final(self, height: int, depth: int) -> Header | None:
        """Declare the block at a height final, `depth` blocks below the head; None where it is not that deep.

        From then on another block there is a FinalityViolated. Raises as `head`.
        """
        header = await self.header_at(height)
        if header is None or self._segment is None or self._segment.top.number - height < depth:
            return None
        self._finality.declare(FinalBlock(header.number, header.hash))
        return header

    def seed_final(self, number: int, block_hash: bytes) -> None:
        """Hold a block for final that an earlier process relied on; it is compared at the next question about heads.

        From then on another block there is a FinalityViolated. Of several only the highest are worth it: below it the
        chain follows.
        """
        self._finality.suspect(FinalBlock(number, block_hash))

    async def start_over(self) -> None:
        """Forget the chain known so far and all that was final in it: an operator has said which chain is right."""
        async with self._one_at_a_time:
            self._segment = None
            self._finality = Finality(self._quorum.voters)

    async def _moved(self) -> Segment:
        self._finality.raise_violation()
        height = await self._height_reached()
        segment = self._segment
        if segment is None:
            segment = self._segment = await self._started(height)
        elif height < segment.top.number:
            segment = self._segment = await self._look_back(segment, height)
        else:
            segment = self._segment = await self._follow(segment, height)
        await self._hold_final(segment)
        return segment

    async def _hold_final(self, segment: Segment) -> None:
        """Compare what is final and in doubt with the chain: all of it after a reorganisation, and every seed.

        It stays in doubt where the chain has not come that far again, or no majority tells.
        """
        doubted = self._finality.doubted(segment.top.number)
        below = {block.number for block in doubted if segment.at(block.number) is None}
        agreed = _agreed(await self._asked(sorted(below))) if below else {}
        for block in doubted:
            now = segment.at(block.number) or agreed.get(block.number)
            if now is not None:
                self._finality.compare(block, now)

    async def _started(self, height: int) -> Segment:
        """A new piece at the highest block that a majority has, at or just below the height reached."""
        heights = range(max(height - _TIP_BLOCKS + 1, 0), height + 1)
        answers = await self._asked(heights)
        agreed = _agreed(answers)
        if not agreed:
            raise _refusal_among(answers)
        segment = Segment(agreed[max(agreed)], WALK_BLOCKS_MAX)
        segment.deepen(agreed)
        return segment

    async def _look_back(self, segment: Segment, height: int) -> Segment:
        """Fewer have reached the top than before. They may lag; another block there is another chain."""
        known = segment.at(height)
        if known is None:
            return segment
        answers = await self._asked([height])
        now = _agreed(answers).get(height)
        if now is None:
            raise _refusal_among(answers)
        return segment if now == known else await self._reorganised(segment, height)

    async def _follow(self, segment: Segment, height: int) -> Segment:
        """Go up from the top, once a majority still has it."""
        top = segment.top
        is_far = height - top.number >= WALK_BLOCKS_MAX
        above = range(height - _TIP_BLOCKS + 1, height + 1) if is_far else range(top.number + 1, height + 1)
        answers = await self._asked([top.number, *above])
        agreed = _agreed(answers)
        if top.number not in agreed:
            raise _refusal_among(answers)
        if agreed[top.number] != top:
            return await self._reorganised(segment, height)
        if is_far and max(agreed) > top.number:
            return Segment(agreed[max(agreed)], WALK_BLOCKS_MAX)
        segment.grow(agreed)
        return segment

    async def _reorganised(self, segment: Segment, height: int) -> Segment:
        """Find where the chains part, record it, and go on from there."""
        highest = min(height, segment.top.number + WALK_BLOCKS_MAX)
        agreed = _agreed(await self._asked(range(segment.lowest, highest + 1)))
        fork = segment.fork(agreed)
        changed = segment.lowest if fork is None else fork + 1
        old = segment.at(changed)
        if old is None:
            return segment
        new = agreed.get(changed)
        record = Reorganised(changed, old.hash, None if new is None else new.hash)
        self.reorganisations.append(record)
        self._on_reorganised(record)
        self._finality.reorganised()
        if fork is None:
            return await self._started(height)
        segment.cut(fork)
        segment.grow(agreed)
        return segment

    async def _below(self, segment: Segment, heights: Sequence[int]) -> dict[int, Header | NoQuorum | None]:
        walked_from = segment.top.number - WALK_BLOCKS_MAX + 1
        missing = [height for height in heights if height < segment.lowest]
        near = [height for height in missing if height >= walked_from]
        walked = set(range(min(near), segment.lowest)) if near else set[int]()
        asked = sorted(walked | set(missing))
        answers = await self._asked(asked) if asked else {}
        agreed = _agreed(answers)
        segment.deepen(agreed)
        found: dict[int, Header | NoQuorum | None] = {}
        for height in heights:
            far = agreed.get(height) if height < walked_from else None
            found[height] = segment.at(height) or far
            if found[height] is None and height < segment.lowest:
                found[height] = _refusal_among(answers)
        return found

    async def _asked(self, heights: Iterable[int]) -> dict[int, Agreed[Header | None] | RpcError]:
        asked = list(heights)
        answers = await self._quorum.agreed_many([methods.block_by_number(height) for height in asked])
        for answer in answers:
            if isinstance(answer, Agreed) and answer.value is not None:
                self._verify(answer.value)
        return dict(zip(asked, answers, strict=True))

    async def _height_reached(self) -> int:
        """The height that a majority has reached. Raises NoQuorum."""
        told = await canvass(
            self._quorum.members,
            [methods.block_by_number("latest")],
            needed=self._quorum.needed,
            deadline_seconds=self._deadline_seconds,
            grace_seconds=self._grace_seconds,
        )
        votes = [Vote(one.voter, one.answers[0], one.seconds) for one in told]
        # From a block that was given, never from a counter: some nodes count blocks that they do not have.
        heights = [vote.outcome.number for vote in votes if isinstance(vote.outcome, Header)]
        height = reached_by(self._quorum.needed, len(self._quorum.members), heights)
        if height is None:
            raise NoQuorum("eth_getBlockByNumber", self._quorum.needed, self._quorum.voters, tuple(votes))
        return height


def _agreed(answers: dict[int, Agreed[Header | None] | RpcError]) -> dict[int, Header]:
    return {
        height: answer.value
        for height, answer in answers.items()
        if isinstance(answer, Agreed) and answer.value is not None
    }


def _refusal_among(answers: dict[int, Agreed[Header | None] | RpcError]) -> NoQuorum:
    """Why there is no block: the voters differ, or a majority says so of a height that it had reached."""
    for answer in answers.values():
        if isinstance(answer, NoQuorum):
            return answer
    votes = next((answer.votes for answer in answers.values() if isinstance(answer, Agreed)), ())
    return NoQuorum("eth_getBlockByNumber", len(votes), tuple(vote.voter for vote in votes), votes)
