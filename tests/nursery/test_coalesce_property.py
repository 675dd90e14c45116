"""No interleaving of callers, cancellations, failing batches and a stop loses, doubles or mixes up an item."""

from collections.abc import Sequence

import trio
import trio.testing
from attrs import field, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from nursery.coalesce import BatchMismatch, Coalescer, CoalescerClosed

# Few instants, so that events fall into the same tick often; Trio itself shuffles the tasks of a tick.
INSTANTS = st.integers(0, 8)


@frozen
class Caller:
    begins_at: int
    gives_up_after: int | None


@frozen
class Plan:
    callers: tuple[Caller, ...]
    # For each batch in turn (and around again): how long it takes and how it ends.
    batches: tuple[tuple[int, str], ...]
    items_max: int
    queued_max: int
    parallel: int
    stops_at: int | None


@frozen
class Record:
    """What was seen in one run of a plan."""

    batches: list[tuple[int, ...]] = field(factory=list[tuple[int, ...]])
    # item -> how its batch ended
    batch_ends: dict[int, str] = field(factory=dict[int, str])
    # item -> what its caller saw, once for each answer
    answers: dict[int, list[object]] = field(factory=dict[int, list[object]])
    # Items whose callers were cancelled before any batch had them.
    taken_back: set[int] = field(factory=set[int])
    depths: list[int] = field(factory=list[int])
    in_flight: list[int] = field(factory=list[int])


plans = st.builds(
    Plan,
    callers=st.lists(
        st.builds(Caller, begins_at=INSTANTS, gives_up_after=st.none() | st.integers(0, 4)), min_size=1, max_size=14
    ).map(tuple),
    batches=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["good", "good", "item errors", "raises", "too few", "too many"])),
        min_size=1,
        max_size=8,
    ).map(tuple),
    items_max=st.integers(1, 4),
    queued_max=st.integers(1, 5),
    parallel=st.integers(1, 3),
    stops_at=st.none() | INSTANTS,
)


class BatchFailed(Exception):
    def __init__(self, items: Sequence[int]) -> None:
        self.items = tuple(items)


class Play:
    """One run of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.seen = Record()
        self.in_flight = 0
        self.coalescer = Coalescer[int, str](
            self.batch,
            name="played",
            items_max=plan.items_max,
            queued_max=plan.queued_max,
            parallel=plan.parallel,
        )

    async def batch(self, items: Sequence[int]) -> Sequence[str | Exception]:
        seconds, end = self.plan.batches[len(self.seen.batches) % len(self.plan.batches)]
        self.seen.batches.append(tuple(items))
        self.in_flight += 1
        self.seen.in_flight.append(self.in_flight)
        self.seen.depths.append(self.coalescer.queued)
        self.seen.batch_ends.update(dict.fromkeys(items, "cut off"))
        try:
            if seconds:
                await trio.sleep(seconds)
        finally:
            self.in_flight -= 1
        self.seen.batch_ends.update(dict.fromkeys(items, end))
        if end == "raises":
            raise BatchFailed(items)
        if end == "item errors":
            return [LookupError(item) if item % 2 else f"result of {item}" for item in items]
        results = [f"result of {item}" for item in items]
        return {"too few": results[1:], "too many": [*results, "surplus"]}.get(end, results)

    async def call(self, item: int, caller: Caller) -> None:
        await trio.sleep(caller.begins_at)
        answers = self.seen.answers.setdefault(item, [])
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as clock:
                if caller.gives_up_after is not None:
                    clock.start_soon(self.give_up, item, caller.gives_up_after, scope)
                try:
                    answers.append(await self.coalescer.submit(item))
                except Exception as error:  # noqa: BLE001 - kept as the caller's answer
                    answers.append(error)
                self.seen.depths.append(self.coalescer.queued)
                clock.cancel_scope.cancel()
        if scope.cancelled_caught:
            answers.append("cancelled")

    async def give_up(self, item: int, seconds: int, scope: trio.CancelScope) -> None:
        await trio.sleep(seconds)
        scope.cancel()
        if item not in self.seen.batch_ends:
            self.seen.taken_back.add(item)

    async def main(self) -> Record:
        with trio.fail_after(1000):
            async with trio.open_nursery() as life:
                async with trio.open_nursery() as callers:
                    for item, caller in enumerate(self.plan.callers):
                        callers.start_soon(self.call, item, caller)
                    life.start_soon(self.run)
                life.cancel_scope.cancel()
        return self.seen

    async def run(self) -> None:
        with trio.CancelScope() as scope:
            if self.plan.stops_at is not None:
                scope.deadline = trio.current_time() + self.plan.stops_at
            await self.coalescer.run()


def is_right(item: int, answer: object, batch: tuple[int, ...] | None, end: str | None) -> bool:
    """Whether the answer of a caller is the one that its own item's batch gave."""
    match answer:
        case "cancelled":
            right = True
        case str():
            right = end in ("good", "item errors") and answer == f"result of {item}"
        case CoalescerClosed(begun=begun):
            right = end == "cut off" if begun else batch is None
        case LookupError(args=(about,)):
            right = end == "item errors" and about == item
        case BatchFailed(items=items):
            right = end == "raises" and items == batch
        case BatchMismatch():
            right = end in ("too few", "too many")
        case _:
            right = False
    return right


@settings(max_examples=150, deadline=None)
@given(plan=plans)
def test_every_caller_gets_exactly_its_own_answer(plan: Plan) -> None:
    """Goal: never lose, double or swap an item, never exceed a bound. Method: play the plan on a mock clock; the run
    ends only if every caller was answered."""
    play = Play(plan)
    seen = trio.run(play.main, clock=trio.testing.MockClock(autojump_threshold=0))

    batch_of = {item: batch for batch in seen.batches for item in batch}
    assert sum(len(batch) for batch in seen.batches) == len(batch_of), "an item was in two batches"
    assert all(1 <= len(batch) <= plan.items_max for batch in seen.batches)
    assert max(seen.in_flight, default=0) <= plan.parallel
    assert max(seen.depths, default=0) <= plan.queued_max
    assert play.coalescer.queued == 0
    for item, caller in enumerate(plan.callers):
        (answer,) = seen.answers[item]
        assert is_right(item, answer, batch_of.get(item), seen.batch_ends.get(item)), (item, answer)
        assert answer != "cancelled" or caller.gives_up_after is not None
        if plan.stops_at is None:
            assert not isinstance(answer, CoalescerClosed)
    assert not seen.taken_back & {item for item in batch_of if seen.answers[item] == ["cancelled"]}
