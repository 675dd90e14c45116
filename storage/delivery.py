"""The delivery plane: one BullMQ queue, driven by our own tasks (DLV-3 to DLV-6).

The official bullmq package decides everything inside Redis. What is ours is when a call is made, that it is made once,
and what is believed when its answer does not come. What takes, renews or ends a delivery runs shielded to its end, also
when the caller is cancelled already; everything else is cancellable.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, cast

import trio

from storage.bullmq_package import unrecoverable
from storage.bullmq_records import Kept, QueueView
from storage.bullmq_scripts import Conversation, RefusalCode, ScriptRefused, converse
from storage.errors import QueueUnavailable, ReplyLost, StorageError
from storage.holding import Holding
from storage.intake import Intake
from storage.records import (
    Acknowledgement,
    AckOutcome,
    Completion,
    Delivery,
    Failure,
    Record,
    RecordInvalid,
    RecordState,
    Return,
)
from storage.redis_client import RedisServer, repeatable
from storage.redis_cluster import is_in_one_slot

# What one call sends at most, so that no exchange holds up Redis or the event loop for long.
BATCH_MAX: Final = 1000
REASON_LENGTH_MAX: Final = 2000
# PostgreSQL owns the poison policy: BullMQ's own, which condemns a record after a few lost holders, must never act.
STALLED_COUNT_MAX: Final = 1_000_000_000
# What people find of finished records when they look into Redis; correctness rests on none of it.
COMPLETED_KEPT: Final = Kept(count=1000, age_seconds=3600)
FAILED_KEPT: Final = Kept(count=1000, age_seconds=7 * 24 * 3600)

_STATES: Final = {
    **{state.value: state for state in RecordState},
    # In which order records are served is no concern of the readers of a state: they wait.
    "prioritized": RecordState.WAITING,
}
_COUNTED: Final = ("waiting", "prioritized", "delayed", "active", "waiting-children", "completed", "failed")
_BENIGN: Final[Mapping[int, AckOutcome]] = {
    RefusalCode.RECORD_GONE: AckOutcome.GONE,
    RefusalCode.NOT_ACTIVE: AckOutcome.GONE,
    RefusalCode.LOCK_GONE: AckOutcome.LOCK_LOST,
    RefusalCode.LOCK_OF_ANOTHER: AckOutcome.LOCK_LOST,
    RefusalCode.CHILDREN_PENDING: AckOutcome.CHILDREN_PENDING,
    RefusalCode.CHILDREN_FAILED: AckOutcome.CHILDREN_PENDING,
}


class DeliveryQueue:
    """One BullMQ queue. All tasks of a process share one object per queue; it starts no task and needs no closing."""

    def __init__(
        self,
        server: RedisServer,
        *,
        prefix: str,
        name: str,
        lock_seconds: float,
        stalled_interval_seconds: float | None = None,
        completed_kept: Kept = COMPLETED_KEPT,
        failed_kept: Kept = FAILED_KEPT,
    ) -> None:
        """Open nothing yet.

        `lock_seconds`: how long a delivery is its holder's without being extended.

        `stalled_interval_seconds`: the least time between two stalled scans, whichever process makes them; half the
        lock time if not given. A delivery whose holder vanished is handed out again after the lock time and at most
        two intervals.

        Raises:
            ValueError: a name or prefix that BullMQ's keys cannot carry, or in a cluster one that scatters them.
        """
        if not prefix or not name or ":" in name:
            raise ValueError(f"Queue {name!r}, prefix {prefix!r}: neither may be empty, and the name may not hold ':'.")
        if server.is_cluster and not is_in_one_slot(f"{prefix}:{name}:"):
            raise ValueError(
                f"Queue {name!r}, prefix {prefix!r}: a cluster would scatter its keys over all nodes. Put the prefix "
                "in braces (QUEUE_PREFIX), which make it their hash tag."
            )
        self.name = name
        self.lock_seconds = lock_seconds
        self.stalled_interval_seconds = stalled_interval_seconds or lock_seconds / 2
        self._server = server
        self._view = QueueView(
            prefix=prefix,
            name=name,
            lock_milliseconds=int(lock_seconds * 1000),
            completed=completed_kept,
            failed=failed_kept,
        )
        self._backend = self._view.backend
        self._holding = Holding(server, self._view)
        self._intake = Intake(server, self._view, self._holding)

    async def add_many(self, records: Sequence[Record]) -> None:
        """Add the records in one round trip, and do not ask where they are: for ids that were never published.

        An id that BullMQ still keeps is not added again. Raises as `publish_many`.
        """
        _check_size(records)
        for outcome in await converse(self._server, [self._adding(record) for record in records]):
            if isinstance(outcome, StorageError):
                raise outcome

    async def publish_many(self, records: Sequence[Record]) -> list[RecordState]:
        """Add the records in one round trip; where each of them is now, in order.

        An id that BullMQ still keeps is not added again, in whatever state it is: that state is then returned, and
        the record stays as it was. So publishing again what may have been published is always right. MISSING says
        that BullMQ keeps the id but has it in no set any more (after an eviction, say): under this id it will never be
        handed out, only under the next generation's.

        Raises:
            ReplyLost: some may have been added and some not.
            QueueUnavailable: none was added, or Redis had no room for all.
            RecordInvalid: the data of a record are no JSON; none was added.
            ValueError: more than BATCH_MAX records.
        """
        _check_size(records)
        added = [self._adding(record) for record in records]
        states = [self._asking_state(record.delivery_id) for record in records]
        outcomes = await converse(self._server, [*added, *states])
        for outcome in outcomes:
            if isinstance(outcome, StorageError):
                raise outcome
        found = [_state(value) for value in outcomes[len(records) :]]
        # Where Redis did not know the adding script yet, it was run after the state was asked for: too early.
        early = [at for at, state in enumerate(found) if state is RecordState.MISSING]
        if early:
            again = await self.states([records[at].delivery_id for at in early])
            for at, state in zip(early, again, strict=True):
                found[at] = state
        return found

    async def prioritize_many(self, priorities: Sequence[tuple[str, int]]) -> None:
        """Give waiting records another priority, in one round trip. One that is gone or not waiting stays as it is.

        Raises:
            ReplyLost, QueueUnavailable: some may have their new priority and some not; asking again is right.
            ValueError: more than BATCH_MAX records.
        """
        _check_size(priorities)
        calls = [Conversation(self._backend.changePriority(each, priority)) for each, priority in priorities]
        for outcome in await converse(self._server, calls):
            if isinstance(outcome, StorageError) and not isinstance(outcome, ScriptRefused):
                raise outcome

    async def wait(self, seconds: float) -> bool:
        """Block until there may be something to fetch: True if so, False after `seconds`, of which it takes 10 at most.

        Fetch in either case: a wake-up is a hint, and one that another process took with it into its death is made
        good only by the clock.

        Raises:
            QueueUnavailable: Redis cannot be reached, or went away while waiting.
            QueueRefused: the queue's marker is of another type, or may not be read.
        """
        return await self._intake.wait(seconds)

    async def fetch(self, count: int) -> list[Delivery]:
        """Take up to `count` deliveries that are ready, never waiting for more; each is locked by a token of its own.

        What was taken is returned even if the caller was cancelled meanwhile: it owns it, and puts back what it will
        not run. After a lost reply the queue looks for what was taken and returns that; if it cannot look, it
        remembers the tokens, and the next fetch looks first.

        Raises:
            QueueUnavailable: nothing was taken, as far as can be known now.
            QueueRefused: the queue's keys are not BullMQ's, or scripts are forbidden.
            ValueError: `count` is not 1 to BATCH_MAX.
        """
        if not 1 <= count <= BATCH_MAX:
            raise ValueError(f"A fetch takes 1 to {BATCH_MAX} deliveries, not {count}.")
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            return await self._server.shielded(self._intake.fetch, count)
        except ReplyLost as error:
            raise QueueUnavailable(str(error)) from error

    async def extend(self, held: Sequence[Delivery]) -> set[str]:
        """Lock the deliveries for another `lock_seconds`; the ids of those whose lock is lost for good.

        Raises:
            QueueUnavailable: it is not known whether they were extended; try again within the lock time.
        """
        return await self._holding.extend(held)

    async def acknowledge_many(self, acknowledgements: Sequence[Acknowledgement]) -> list[AckOutcome]:
        """Finish, fail or give up the deliveries in one round trip; what came of each, in order.

        For after the PostgreSQL commit: there is nothing to do about one that was not acknowledged. It comes again when
        its lock has run out, and is found done in PostgreSQL.

        Raises:
            ReplyLost, QueueUnavailable: not all were acknowledged, as far as is known.
            TypeError, ValueError: a result is no JSON; none was acknowledged. ValueError also above BATCH_MAX.
        """
        _check_size(acknowledgements)
        prepared = [self._acknowledging(each) for each in acknowledgements]
        outcomes = await self._server.shielded(converse, self._server, [call for call, _ in prepared])
        return [_acknowledged(outcome, success()) for outcome, (_, success) in zip(outcomes, prepared, strict=True)]

    async def complete_many(self, completions: Sequence[Completion]) -> list[AckOutcome]:
        """Complete the deliveries. Raises as `acknowledge_many`."""
        return await self.acknowledge_many(completions)

    async def fail(self, delivery: Delivery, reason: str, *, retry: bool) -> AckOutcome:
        """Record a failed attempt. Raises as `acknowledge_many`."""
        [outcome] = await self.acknowledge_many([Failure(delivery, reason, retry)])
        return outcome

    async def put_back(self, delivery: Delivery, *, delay_seconds: float) -> AckOutcome:
        """Give the delivery up unharmed. Raises as `acknowledge_many`."""
        [outcome] = await self.acknowledge_many([Return(delivery, delay_seconds)])
        return outcome

    async def recover_stalled(self) -> list[str]:
        """Make one stalled scan, unless one was made within the interval; the ids that wait again because of it.

        A scan marks what is active; what an earlier scan marked, nobody extended since, and has no lock any more, it
        moves back. So it takes two.

        Raises:
            QueueUnavailable: no answer; the scan may have been made.
        """
        interval_milliseconds = max(1, int(self.stalled_interval_seconds * 1000))
        call = Conversation(self._backend.moveStalledJobsToWait(STALLED_COUNT_MAX, interval_milliseconds))
        [outcome] = await converse(self._server, [call])
        return cast("list[str]", repeatable(outcome))

    async def states(self, delivery_ids: Sequence[str]) -> list[RecordState]:
        """Where the records are, in order.

        Raises:
            QueueUnavailable: no answer.
            ValueError: more than BATCH_MAX ids.
        """
        _check_size(delivery_ids)
        outcomes = await converse(self._server, [self._asking_state(each) for each in delivery_ids])
        return [_state(repeatable(outcome)) for outcome in outcomes]

    async def counts(self) -> Mapping[str, int]:
        """How many records are in each of BullMQ's sets, by its names for them; finished ones as far as they are kept.

        Raises:
            QueueUnavailable: no answer.
        """
        [outcome] = await converse(self._server, [Conversation(self._backend.getCounts(_COUNTED))])
        return dict(zip(_COUNTED, cast("list[int]", repeatable(outcome)), strict=True))

    async def active_with_token(self, tokens: Collection[str]) -> list[Delivery]:
        """The active deliveries that are locked by one of these tokens, their locks extended anew.

        Raises:
            QueueUnavailable: no answer.
        """
        return await self._holding.locked_by(tokens)

    def _adding(self, record: Record) -> Conversation:
        try:
            return Conversation(self._backend.addJob(self._view.new_job(record)))
        except (TypeError, ValueError, RecursionError) as error:
            raise RecordInvalid(f"Record {record.delivery_id}: its data are no JSON ({error}).") from error

    def _acknowledging(self, each: Acknowledgement) -> tuple[Conversation, Callable[[], AckOutcome]]:
        """The call, and what its success means once it was answered."""
        delivery = each.delivery
        match each:
            case Completion(result=result):
                job = self._view.completed_job(delivery)
                kept = job.opts["removeOnComplete"]
                # Without fetch_next: a record taken by the same script would share this one's token.
                move = self._backend.moveToCompleted(job, result, kept, delivery.token, fetch_next=False)
                return Conversation(move), lambda: AckOutcome.COMPLETED
            case Failure(reason=reason, retry=retry):
                job = self._view.held_job(delivery)
                text = _storable(reason)
                failure = Exception(text) if retry else unrecoverable(text)
                call = Conversation(job.moveToFailed(failure, delivery.token))
                return call, lambda: AckOutcome.FAILED if job.finishedOn else AckOutcome.RETRIED
            case Return(delay_seconds=delay_seconds):
                now, delay = int(time.time() * 1000), max(0, int(delay_seconds * 1000))
                move = self._backend.moveToDelayed(
                    delivery.delivery_id, now, delay, delivery.token, {"skipAttempt": True}
                )
                return Conversation(move), lambda: AckOutcome.PUT_BACK

    def _asking_state(self, delivery_id: str) -> Conversation:
        return Conversation(self._backend.getState(delivery_id))


def _acknowledged(outcome: object, success: AckOutcome) -> AckOutcome:
    if isinstance(outcome, ScriptRefused) and outcome.code in _BENIGN:
        return _BENIGN[outcome.code]
    if isinstance(outcome, StorageError):
        raise outcome
    return success


def _state(value: object) -> RecordState:
    return _STATES[cast("str", value)]


def _storable(reason: str) -> str:
    """A failure reason that Redis takes: a lone surrogate would fail its encoding and leave the record active."""
    text = reason.encode("utf-8", "replace").decode()
    return text if len(text) <= REASON_LENGTH_MAX else text[: REASON_LENGTH_MAX - 1] + "…"


def _check_size(items: Sequence[object]) -> None:
    if len(items) > BATCH_MAX:
        raise ValueError(f"One call carries at most {BATCH_MAX} items, not {len(items)}.")
