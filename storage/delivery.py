"""The delivery plane: one BullMQ queue, driven by our own tasks (DLV-3 to DLV-6).

The official bullmq package decides everything inside Redis. What is ours is when a call is made, that it is made once,
and what is believed when its answer does not come. Only `wait` and the calls that may be repeated are cancellable; what
takes, renews or ends a delivery runs shielded to its end, and also runs when the caller is cancelled already.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast
from uuid import uuid4

import trio
from attrs import frozen

from nursery.cleanup import CleanupExpired, finish
from storage.bullmq_package import unrecoverable
from storage.bullmq_records import Kept, QueueView, delivery_of
from storage.bullmq_scripts import Conversation, RefusalCode, ScriptRefused, converse
from storage.errors import QueueUnavailable, ReplyLost, StorageError
from storage.records import AckOutcome, Completion, Delivery, Record, RecordInvalid, RecordState
from storage.redis_client import RedisServer, repeatable
from storage.unanswered import UnansweredFetches

# What one call sends at most, so that no single exchange holds up Redis or the event loop for long.
BATCH_MAX: Final = 1000
# A connection is not left to block longer than BullMQ leaves its own (worker.py, maximumBlockTimeout).
WAIT_SECONDS_MAX: Final = 10.0
# Redis before 7.0.8 treats a shorter block as for ever.
BLOCK_SECONDS_MIN: Final = 0.01
REASON_LENGTH_MAX: Final = 2000
# PostgreSQL owns the poison policy: BullMQ's own, which condemns a record after a few lost holders, must never act.
STALLED_COUNT_MAX: Final = 1_000_000_000
# A shielded call makes a few exchanges, each bounded by the server's command_seconds.
SHIELDED_EXCHANGES: Final = 4

_STATES: Final = {
    **{state.value: state for state in RecordState},
    # A queue's order of service is no concern of its readers: both wait.
    "prioritized": RecordState.WAITING,
}
_COUNTED: Final = ("waiting", "prioritized", "delayed", "active", "waiting-children", "completed", "failed")
_BENIGN: Final = {
    RefusalCode.RECORD_GONE: AckOutcome.GONE,
    RefusalCode.NOT_ACTIVE: AckOutcome.GONE,
    RefusalCode.LOCK_GONE: AckOutcome.LOCK_LOST,
    RefusalCode.LOCK_OF_ANOTHER: AckOutcome.LOCK_LOST,
    RefusalCode.CHILDREN_PENDING: AckOutcome.CHILDREN_PENDING,
    RefusalCode.CHILDREN_FAILED: AckOutcome.CHILDREN_PENDING,
}


@frozen
class _Taken:
    """What one round of fetching brought."""

    deliveries: list[Delivery]
    # Why a part of the round failed, if it did: a ReplyLost means that more may have been taken than is known.
    trouble: StorageError | None


class DeliveryQueue:
    """One BullMQ queue. All its tasks share one object; it holds no connection and starts no task."""

    def __init__(
        self,
        server: RedisServer,
        *,
        prefix: str,
        name: str,
        lock_seconds: float,
        stalled_interval_seconds: float | None = None,
        completed_kept: Kept = Kept(count=1000, age_seconds=3600),  # noqa: B008 - frozen
        failed_kept: Kept = Kept(count=1000, age_seconds=7 * 24 * 3600),  # noqa: B008 - frozen
    ) -> None:
        """
        `lock_seconds`: how long a delivery is its holder's without being extended.
        `stalled_interval_seconds`: the least time between two stalled scans, whichever process makes them; half the
        lock time if not given. A delivery whose holder vanished is handed out again after the lock time and at most
        two intervals.

        Raises:
            ValueError: a name or prefix that BullMQ cannot carry.
        """
        if not name or ":" in name or not prefix:
            raise ValueError(f"Queue name {name!r} with prefix {prefix!r}: neither may be empty, nor the name hold ':'.")
        self.name = name
        self.lock_seconds = lock_seconds
        self.stalled_interval_seconds = (
            lock_seconds / 2 if stalled_interval_seconds is None else stalled_interval_seconds
        )
        self._server = server
        self._lock_milliseconds = int(lock_seconds * 1000)
        self._view = QueueView(
            prefix=prefix,
            name=name,
            lock_milliseconds=self._lock_milliseconds,
            completed=completed_kept,
            failed=failed_kept,
        )
        self._unanswered = UnansweredFetches(remember_seconds=lock_seconds)
        # The last fetch left nothing behind: the next one asks for a single record before it asks for many.
        self._drained = False
        # When the earliest delayed record is due, in wall-clock milliseconds as BullMQ's scores; None if none is known.
        self._due_at: float | None = None
        # A wake-up was lost with its reply, or never given: the next wait must not block.
        self._woken = False

    async def publish_many(self, records: Sequence[Record]) -> list[RecordState]:
        """Add the records in one round trip; where each of them is now, in order.

        An id that BullMQ still keeps is not added again, in whatever state it is: that state is then returned, and
        the record stays as it was. So publishing again what may have been published is always right.

        Raises:
            ReplyLost: some may have been added and some not.
            QueueUnavailable: none was added, or Redis had no room for all.
            RecordInvalid: the data of a record are no JSON; none was added.
            ValueError: more than BATCH_MAX records.
        """
        _check_size(records)
        added = [self._adding(record) for record in records]
        states = [self._state_of(record.delivery_id) for record in records]
        outcomes = await converse(self._server, [*added, *states])
        for outcome in outcomes:
            if isinstance(outcome, StorageError):
                raise outcome
        found = [_state(value) for value in outcomes[len(records) :]]
        # The state script may have run where the adding one was not loaded yet: then it looked too early.
        early = [at for at, state in enumerate(found) if state is RecordState.MISSING]
        if early:
            again = await self.states([records[at].delivery_id for at in early])
            for at, state in zip(early, again, strict=True):
                found[at] = state
        return found

    async def wait(self, seconds: float) -> bool:
        """Block until there may be something to fetch; True if so, False once `seconds` (at most 10) have passed.

        Fetch in either case: a wake-up is a hint, and one that another process took and lost comes only by the clock.

        Raises:
            QueueUnavailable: Redis cannot be reached, or went away while waiting.
            QueueRefused: the queue's marker is of another type, or may not be read.
        """
        deadline = trio.current_time() + min(seconds, WAIT_SECONDS_MAX)
        while True:
            if self._woken or self._seconds_to_due() <= 0:
                self._woken, self._due_at = False, None
                await trio.lowlevel.checkpoint()
                return True
            left = deadline - trio.current_time()
            if left <= 0:
                await trio.lowlevel.checkpoint()
                return False
            due_at = await self._popped_marker(max(BLOCK_SECONDS_MIN, min(left, self._seconds_to_due())))
            if due_at is not None:
                self._due_at = due_at if self._due_at is None else min(self._due_at, due_at)

    async def fetch(self, count: int) -> list[Delivery]:
        """Take up to `count` deliveries that are ready, never waiting for more; each is locked by a token of its own.

        Returns what it took even if the caller was cancelled meanwhile: the caller owns it, and puts back what it
        will not run. After a lost reply it looks for what was taken and returns that; if it cannot, it remembers the
        tokens and the next fetch looks first.

        Raises:
            QueueUnavailable: nothing was taken as far as can be known.
            QueueRefused: the queue's keys are not BullMQ's.
            ValueError: `count` is not 1 to BATCH_MAX.
        """
        if not 1 <= count <= BATCH_MAX:
            raise ValueError(f"A fetch takes 1 to {BATCH_MAX} deliveries, not {count}.")
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            return await self._shielded(self._fetch, count)
        except ReplyLost as error:
            raise QueueUnavailable(str(error)) from error

    async def extend(self, held: Sequence[Delivery]) -> set[str]:
        """Lock the deliveries for another `lock_seconds`; the ids of those whose lock is lost for good.

        Raises:
            QueueUnavailable: it is not known whether they were extended; try again within the lock time.
        """
        # msgpack, in which the ids travel, cannot carry what is no text; such a delivery is damaged in any case.
        lost = {each.delivery_id for each in held if not _is_encodable(each.delivery_id)}
        renewable = [each for each in held if each.delivery_id not in lost]
        for start in range(0, len(renewable), BATCH_MAX):
            part = renewable[start : start + BATCH_MAX]
            ids, tokens = [each.delivery_id for each in part], [each.token for each in part]
            call = Conversation(self._view.backend.extendLocks(ids, tokens, self._lock_milliseconds))
            try:
                [outcome] = await self._shielded(converse, self._server, [call])
            except ReplyLost as error:
                raise QueueUnavailable(str(error)) from error
            lost.update(cast("list[str]", repeatable(outcome)))
        return lost

    async def complete_many(self, completions: Sequence[Completion]) -> list[AckOutcome]:
        """Complete the deliveries in one round trip; what came of each, in order. For after the PostgreSQL commit.

        Raises:
            ReplyLost: some may be completed and some not. Nothing is to be done: what is not comes again, and is
                found done in PostgreSQL.
            QueueUnavailable: none was completed. The same holds.
            TypeError, ValueError: a result is no JSON; none was completed. ValueError also for more than BATCH_MAX.
        """
        _check_size(completions)
        calls: list[Conversation] = []
        for each in completions:
            job = self._view.held_job(each.delivery)
            kept = job.opts["removeOnComplete"]
            # Without fetch_next: a record taken in the same script would have no token of its own.
            move = self._view.backend.moveToCompleted(job, each.result, kept, each.delivery.token, fetch_next=False)
            calls.append(Conversation(move))
        outcomes = await self._shielded(converse, self._server, calls)
        return [_acknowledged(outcome, AckOutcome.COMPLETED) for outcome in outcomes]

    async def fail(self, delivery: Delivery, reason: str, *, retry: bool) -> AckOutcome:
        """Record a failed attempt. BullMQ retries it after its backoff while attempts remain, unless not `retry`.

        Raises:
            ReplyLost: it may have been recorded. If not, the delivery comes again when its lock has run out.
            QueueUnavailable: it was not recorded.
        """
        job = self._view.held_job(delivery)
        text = _storable(reason)
        error = Exception(text) if retry else unrecoverable(text)
        [outcome] = await self._shielded(
            converse, self._server, [Conversation(job.moveToFailed(error, delivery.token))]
        )
        return _acknowledged(outcome, AckOutcome.FAILED if job.finishedOn else AckOutcome.RETRIED)

    async def put_back(self, delivery: Delivery, *, delay_seconds: float) -> AckOutcome:
        """Give the delivery up unharmed: it is handed out again after the delay, and no attempt is counted.

        Raises:
            ReplyLost, QueueUnavailable: as `fail`.
        """
        delay = max(0, int(delay_seconds * 1000))
        move = self._view.backend.moveToDelayed(
            delivery.delivery_id, int(time.time() * 1000), delay, delivery.token, {"skipAttempt": True}
        )
        [outcome] = await self._shielded(converse, self._server, [Conversation(move)])
        return _acknowledged(outcome, AckOutcome.PUT_BACK)

    async def recover_stalled(self) -> list[str]:
        """Make one stalled scan, unless one was made in the last interval; the ids that wait again because of it.

        A scan marks what is active, and what an earlier scan marked and nobody has extended since, and whose lock has
        run out, it moves back. So it takes two.

        Raises:
            QueueUnavailable: no answer; the scan may have been made.
        """
        interval = max(1, int(self.stalled_interval_seconds * 1000))
        call = Conversation(self._view.backend.moveStalledJobsToWait(STALLED_COUNT_MAX, interval))
        [outcome] = await converse(self._server, [call])
        return list(cast("list[str]", repeatable(outcome)))

    async def states(self, delivery_ids: Sequence[str]) -> list[RecordState]:
        """Where the records are, in order.

        Raises:
            QueueUnavailable: no answer.
            ValueError: more than BATCH_MAX ids.
        """
        _check_size(delivery_ids)
        outcomes = await converse(self._server, [self._state_of(each) for each in delivery_ids])
        return [_state(repeatable(outcome)) for outcome in outcomes]

    async def counts(self) -> Mapping[str, int]:
        """How many records are in each of BullMQ's sets, by BullMQ's names; finished ones as far as they are kept.

        Raises:
            QueueUnavailable: no answer.
        """
        [outcome] = await converse(self._server, [Conversation(_called(self._view.backend.getCounts(_COUNTED)))])
        return dict(zip(_COUNTED, cast("list[int]", repeatable(outcome)), strict=True))

    async def active_with_token(self, tokens: Collection[str]) -> list[Delivery]:
        """The active deliveries that are locked by one of these tokens, their locks extended anew.

        Raises:
            QueueUnavailable: no answer.
        """
        keys = self._view.backend.keys
        active = cast("list[str]", await self._server.ask_one(("LRANGE", keys["active"], 0, -1)))
        locked: dict[str, str] = {}
        for start in range(0, len(active), BATCH_MAX):
            part = active[start : start + BATCH_MAX]
            locks = await self._server.ask_one(("MGET", *(f"{keys['']}{each}:lock" for each in part)))
            locked.update((each, lock) for each, lock in zip(part, locks, strict=True) if lock in tokens)
        raw = await self._server.ask([("HGETALL", keys[""] + each) for each in locked]) if locked else []
        deliveries = [
            delivery_of(identifier, token, _pairs(cast("list[str]", repeatable(fields))))
            for (identifier, token), fields in zip(locked.items(), raw, strict=True)
        ]
        lost = await self.extend(deliveries)
        return [each for each in deliveries if each.delivery_id not in lost]

    async def _fetch(self, count: int) -> list[Delivery]:
        taken = await self._resolved()
        trouble: StorageError | None = None
        while len(taken) < count and trouble is None:
            probing = self._drained
            try:
                round_ = await self._taken(1 if probing else count - len(taken))
            except QueueUnavailable as error:
                trouble = error
                break
            taken += round_.deliveries
            trouble = round_.trouble
            if self._drained:
                break
        if not taken and isinstance(trouble, ReplyLost):
            taken = await self._resolved()
        if not taken and trouble is not None:
            raise trouble
        return taken

    async def _taken(self, count: int) -> _Taken:
        """Run `count` fetch scripts at once, each under a fresh token. Nothing that one of them took is lost here."""
        tokens = [uuid4().hex for _ in range(count)]
        opts = {"lockDuration": self._lock_milliseconds}
        try:
            calls = [Conversation(self._view.backend.moveToActive(token, opts)) for token in tokens]
            outcomes = await converse(self._server, calls)
        except QueueUnavailable:
            raise
        except BaseException:
            self._unanswered.add(tokens, now=trio.current_time())
            raise
        deliveries: list[Delivery] = []
        trouble: StorageError | None = None
        for token, outcome in zip(tokens, outcomes, strict=True):
            if isinstance(outcome, ReplyLost):
                self._unanswered.add([token], now=trio.current_time())
            if isinstance(outcome, StorageError):
                trouble = trouble or outcome
                continue
            fields, identifier, limited_milliseconds, due_at = outcome
            if fields:
                deliveries.append(delivery_of(identifier, token, fields))
            else:
                self._due_at = _earliest(limited_milliseconds, due_at)
        self._drained = len(deliveries) < count
        return _Taken(deliveries, trouble)

    async def _resolved(self) -> list[Delivery]:
        """What earlier fetches took without our knowing, now known."""
        due = self._unanswered.take_due(now=trio.current_time())
        if not due:
            return []
        try:
            found = await self.active_with_token(due.keys())
        except BaseException:
            self._unanswered.restore(due)
            raise
        self._unanswered.give_back(due, found={each.token for each in found}, now=trio.current_time())
        return found

    async def _popped_marker(self, seconds: float) -> float | None:
        """Block for the queue's marker; when the record it announces is due (0 for at once), None if none came."""
        marker = self._view.backend.keys["marker"]
        try:
            popped = await self._server.block(("BZPOPMIN", marker, f"{seconds:.3f}"), seconds=seconds)
        except QueueUnavailable:
            raise
        except ReplyLost as error:
            self._woken = True
            raise QueueUnavailable(f"The wait for queue {self.name} broke: {error}") from error
        except BaseException:
            # Redis may have popped the marker for a reply that nobody reads.
            self._woken = True
            raise
        return None if popped is None else float(popped[2])

    def _seconds_to_due(self) -> float:
        return float("inf") if self._due_at is None else self._due_at / 1000 - time.time()

    def _adding(self, record: Record) -> Conversation:
        try:
            return Conversation(self._view.backend.addJob(self._view.new_job(record)))
        except (TypeError, ValueError, RecursionError) as error:
            raise RecordInvalid(f"Record {record.delivery_id}: its data are no JSON: {error}.") from error

    def _state_of(self, identifier: str) -> Conversation:
        return Conversation(self._view.backend.getState(identifier))

    async def _shielded(self, fn: Any, *args: Any) -> Any:
        seconds = SHIELDED_EXCHANGES * self._server.command_seconds
        try:
            return await finish(partial(fn, *args), seconds=seconds)
        except CleanupExpired as error:
            raise ReplyLost(f"Redis at {self._server.shown} did not answer within {seconds:g} s.") from error


async def _called(awaitable: Any) -> Any:
    """The package answers some calls with a bare awaitable, where a conversation needs a coroutine."""
    return await awaitable


def _acknowledged(outcome: object, success: AckOutcome) -> AckOutcome:
    if isinstance(outcome, ScriptRefused) and outcome.code in _BENIGN:
        return _BENIGN[RefusalCode(outcome.code)]
    if isinstance(outcome, StorageError):
        raise outcome
    return success


def _state(value: object) -> RecordState:
    return _STATES[cast("str", value)]


def _earliest(limited_milliseconds: int | None, due_at: int | None) -> float | None:
    """When to look again although no marker comes: BullMQ gives none at the end of a rate limit."""
    limited_until = time.time() * 1000 + limited_milliseconds if limited_milliseconds else None
    return min((at for at in (limited_until, due_at) if at), default=None)


def _pairs(flat: Sequence[str]) -> dict[str, str]:
    """RESP2's hash reply, field after value after field, as a mapping."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _storable(reason: str) -> str:
    """A failure reason that Redis takes: a lone surrogate would fail its encoding and leave the record active."""
    text = reason.encode("utf-8", "replace").decode()
    return text if len(text) <= REASON_LENGTH_MAX else text[: REASON_LENGTH_MAX - 1] + "…"


def _is_encodable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _check_size(items: Sequence[object]) -> None:
    if len(items) > BATCH_MAX:
        raise ValueError(f"One call carries at most {BATCH_MAX} items, not {len(items)}.")
