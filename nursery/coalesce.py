"""Group commit: many callers, one batched call. A batch takes what is there and never waits to fill."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Generic, TypeVar, cast

import trio
from trio.lowlevel import Abort, ParkingLot, Task

from nursery.groups import unwrapped

A = TypeVar("A")
R = TypeVar("R")


class CoalescerClosed(Exception):
    """The coalescer stopped before it answered.

    `begun` is False if the item was never given to a batch, True if its batch was cut off and its outcome is unknown.
    """

    def __init__(self, name: str, *, begun: bool) -> None:
        fate = "its batch was cut off and the outcome is unknown" if begun else "the item was not begun"
        super().__init__(f"The coalescer {name!r} has stopped: {fate}.")
        self.name = name
        self.begun = begun


class BatchMismatch(Exception):
    """Our bug: the batch function did not return one result for each item, so no result can be told whose it is."""

    def __init__(self, name: str, items: int, results: int) -> None:
        super().__init__(f"The batch of the coalescer {name!r} returned {results} results for {items} items.")


class _Entry(Generic[A, R]):
    """One caller's item, from `submit` to its answer."""

    __slots__ = ("answer", "item", "traceback", "waiter")

    def __init__(self, item: A, waiter: Task) -> None:
        self.item = item
        # Invariant: None once the caller was answered or has gone, so that nobody is rescheduled twice.
        self.waiter: Task | None = waiter
        self.answer: R | Exception | None = None
        self.traceback: TracebackType | None = None

    def give(self, answer: R | Exception) -> None:
        if self.waiter is None:
            return
        self.answer = answer
        if isinstance(answer, Exception):
            self.traceback = answer.__traceback__
        trio.lowlevel.reschedule(self.waiter)
        self.waiter = None

    def taken(self) -> R:
        if isinstance(self.answer, Exception):
            # All callers of a failed batch raise the same object: without the reset each would append its frames.
            raise self.answer.with_traceback(self.traceback)
        return cast("R", self.answer)


class Coalescer(Generic[A, R]):
    """Gathers the items of concurrent callers into batches, and gives each caller the result of its own item.

    `run` must run somewhere for items to be taken. Once it has ended, for whatever reason, the coalescer is closed
    for good: whoever waits or comes later gets `CoalescerClosed`.
    """

    def __init__(
        self,
        batch: Callable[[Sequence[A]], Awaitable[Sequence[R | Exception]]],
        *,
        name: str,
        items_max: int,
        queued_max: int,
        parallel: int = 1,
    ) -> None:
        """`batch` returns one result for each item in order; an Exception among them is raised to that caller.

        At most `items_max` items go into a batch, at most `parallel` batches are in flight, and at most `queued_max`
        items are queued: further callers wait for a place.
        """
        if min(items_max, queued_max, parallel) < 1:
            raise ValueError(f"The coalescer {name!r} needs bounds of at least 1, or it would never answer.")
        self._batch = batch
        self._name = name
        self._items_max = items_max
        self._parallel = parallel
        # Invariant: each key has a waiting caller and holds one of the `queued_max` slots.
        self._queue: OrderedDict[_Entry[A, R], None] = OrderedDict()
        self._slots = trio.Semaphore(queued_max)
        self._idle_lanes = ParkingLot()
        self._started = False
        self._closed = False

    @property
    def queued(self) -> int:
        """Items that wait for a batch, never more than `queued_max`."""
        return len(self._queue)

    async def submit(self, item: A) -> R:
        """Put the item into the next batch and return its result.

        A caller cancelled while its item is queued takes the item back: no batch will see it. One cancelled later
        leaves the batch untouched, and the result is dropped.

        Raises:
            CoalescerClosed: `run` has ended.
            BatchMismatch: the batch function is wrong.
            Exception: what the batch gave for this item, or raised as a whole.
        """
        try:
            self._slots.acquire_nowait()
        except trio.WouldBlock:
            await self._slots.acquire()
        if self._closed:
            # Passed on to the next caller who waits for room, so that all of them learn of the end.
            self._slots.release()
            raise CoalescerClosed(self._name, begun=False)
        entry: _Entry[A, R] = _Entry(item, trio.lowlevel.current_task())
        self._queue[entry] = None
        self._idle_lanes.unpark()

        def take_back(_: object) -> Abort:
            entry.waiter = None
            if entry in self._queue:
                self._leave_queue(entry)
            return Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(take_back)
        return entry.taken()

    async def run(self) -> None:
        """Take and answer items until cancelled. A failing batch is its callers' affair and does not end this.

        A cancellation goes on into the batches in flight; their callers, and all who are queued, get
        `CoalescerClosed`.

        Raises:
            RuntimeError: it was already run; two runners would double the bound on batches in flight.
        """
        if self._started:
            raise RuntimeError(f"The coalescer {self._name!r} was already run: build a new one.")
        self._started = True
        try:
            with unwrapped():
                async with trio.open_nursery() as lanes:
                    for number in range(self._parallel):
                        lanes.start_soon(self._serve, name=f"{self._name} lane {number}")
        finally:
            self._closed = True
            while self._queue:
                entry = next(iter(self._queue))
                self._leave_queue(entry)
                entry.give(CoalescerClosed(self._name, begun=False))

    async def _serve(self) -> None:
        while True:
            # A batch function that never blocks would else keep the process busy for as long as the queue lasts.
            await trio.lowlevel.checkpoint()
            while not self._queue:
                await self._idle_lanes.park()
            entries = [entry for entry, _ in zip(self._queue, range(self._items_max), strict=False)]
            for entry in entries:
                self._leave_queue(entry)
            try:
                answers = await self._batch([entry.item for entry in entries])
                if len(answers) != len(entries):
                    raise BatchMismatch(self._name, len(entries), len(answers))  # noqa: TRY301 - for each caller
                for entry, answer in zip(entries, answers, strict=True):
                    entry.give(answer)
            except Exception as error:  # noqa: BLE001 - raised again, to each caller
                for entry in entries:
                    entry.give(error)
            finally:
                # Nobody waits here any more unless the batch was cut off: an answered entry ignores this answer.
                for entry in entries:
                    entry.give(CoalescerClosed(self._name, begun=True))

    def _leave_queue(self, entry: _Entry[A, R]) -> None:
        del self._queue[entry]
        self._slots.release()
