"""Sends of many lineages through the one write path, in batches that keep each lane in nonce order (TX-13)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from itertools import count

import trio
from attrs import define, field

from tayho.kernel.address import Address
from tayho.kernel.opaque import Opaque
from tayho.transactions.broadcast import Broadcaster
from tayho.transactions.types import Answer, Outgoing

# Of one batch. Nodes and providers take about a hundred calls and a few megabytes; hex doubles the bytes.
ITEMS_MAX = 100
BYTES_MAX = 512 * 1024
# Batches in flight, of different lanes: while one is answered the next is already on its way.
BATCHES_MAX = 4


@define(eq=False)
class _Caller:
    """Who waits for answers. Awake, he carries a batch of whatever waits in free lanes, his own among it."""

    unanswered: int
    woken: trio.Event = field(factory=trio.Event)
    has_left: bool = False


@define(eq=False)
class _Entry:
    """One send, from its caller to its answer."""

    outgoing: Outgoing
    caller: _Caller
    # Members of one lineage share a nonce: they go in the order in which they came.
    arrival: int
    answer: Answer | None = None

    def place(self) -> tuple[int, int]:
        return self.outgoing.nonce, self.arrival


@define(eq=False)
class Sending:
    """What a process sends, its first sends and its repetitions alike.

    Invariant: a lane has sends in at most one batch at a time, lowest nonces first, so that no batch of a lane
    overtakes another. There is no task behind it: a caller whose lane is free carries the next batch, and whoever else
    has sends in it only waits. If he is cancelled meanwhile, the others' sends go out again, as the identical bytes.
    """

    _broadcaster: Broadcaster
    _waiting: dict[Address, list[_Entry]] = field(factory=dict[Address, "list[_Entry]"], init=False)
    _busy: set[Address] = field(factory=set[Address], init=False)
    _batches: int = field(default=0, init=False)
    _arrivals: count[int] = field(factory=count, init=False)

    @property
    def endpoint(self) -> str:
        """The write endpoint, as it may be shown."""
        return self._broadcaster.endpoint

    async def submit(self, tx_hash: bytes, signer: Address, nonce: int, raw: Opaque) -> Answer:
        """What the node answered. The caller has the bytes in the journal already (I4).

        Cancelled before its batch is under way, nothing is sent; cancelled later, the node may have the bytes.
        """
        (answer,) = await self.send_many([Outgoing(tx_hash, signer, nonce, raw)])
        return answer

    async def send_many(self, outgoing: Sequence[Outgoing]) -> list[Answer]:
        """What the node answered to each, in the order given; they go out in the order of their lanes and nonces."""
        caller = _Caller(len(outgoing))
        entries = [_Entry(one, caller, next(self._arrivals)) for one in outgoing]
        self._enqueue(entries)
        try:
            # Those who submit in this very moment are to be in the first batch.
            await trio.lowlevel.checkpoint()
            while caller.unanswered:
                batch = self._take(caller)
                if batch:
                    await self._carry(batch)
                else:
                    await caller.woken.wait()
                    caller.woken = trio.Event()
        finally:
            caller.has_left = True
            self._withdraw(entries)
        return [entry.answer for entry in entries if entry.answer is not None]

    def _enqueue(self, entries: Iterable[_Entry]) -> None:
        for entry in entries:
            insort(self._waiting.setdefault(entry.outgoing.signer, []), entry, key=_Entry.place)

    def _withdraw(self, entries: Iterable[_Entry]) -> None:
        """Take back what is still queued, and let somebody else carry what the caller may have been woken for."""
        queued = [entry for entry in entries if entry in self._waiting.get(entry.outgoing.signer, ())]
        for entry in queued:
            self._waiting[entry.outgoing.signer].remove(entry)
        if queued:
            self._wake_heads()

    def _take(self, caller: _Caller) -> list[_Entry]:
        """The next batch, by signer and nonce, of all free lanes; empty while the caller has nothing in any of them."""
        lanes = [signer for signer, lane in self._waiting.items() if lane and signer not in self._busy]
        if self._batches == BATCHES_MAX or not any(
            entry.caller is caller for signer in lanes for entry in self._waiting[signer]
        ):
            return []
        batch: list[_Entry] = []
        for signer in lanes:
            taken = _fitting(self._waiting[signer], batch)
            if not taken:
                break
            batch += taken
            # To the end: the lanes that did not fit go first next time.
            self._waiting[signer] = self._waiting.pop(signer)[len(taken) :]
        return sorted(batch, key=lambda entry: (entry.outgoing.signer, entry.place()))

    async def _carry(self, batch: Sequence[_Entry]) -> None:
        lanes = {entry.outgoing.signer for entry in batch}
        self._busy |= lanes
        self._batches += 1
        try:
            answers = await self._broadcaster.send_in_turn(
                [(entry.outgoing.tx_hash, entry.outgoing.raw) for entry in batch]
            )
            for entry, answer in zip(batch, answers, strict=True):
                entry.answer = answer
                entry.caller.unanswered -= 1
                if not entry.caller.unanswered:
                    entry.caller.woken.set()
        finally:
            self._busy -= lanes
            self._batches -= 1
            # Cut off: whoever waits for these carries them himself. Nobody would carry those of a caller who has left.
            self._enqueue(entry for entry in batch if entry.answer is None and not entry.caller.has_left)
            self._wake_heads()

    def _wake_heads(self) -> None:
        """Wake one caller for each free lane: the first to come takes what the others were woken for along."""
        for signer in list(self._waiting):
            lane = self._waiting[signer]
            if not lane:
                del self._waiting[signer]
            elif signer not in self._busy:
                lane[0].caller.woken.set()


def _fitting(lane: Sequence[_Entry], beside: Sequence[_Entry]) -> Sequence[_Entry]:
    """The first sends of a lane for which a batch has room beside what it holds; an empty batch has room for one."""
    bytes_left = BYTES_MAX - sum(len(entry.outgoing.raw) for entry in beside)
    fitting = 0
    for entry in lane[: ITEMS_MAX - len(beside)]:
        bytes_left -= len(entry.outgoing.raw)
        if bytes_left < 0 and (beside or fitting):
            break
        fitting += 1
    return lane[:fitting]
