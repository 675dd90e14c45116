"""One handler from its begun attempt to an end that PostgreSQL knows, and its delivery's acknowledgement (DLV-6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import structlog
from attrs import frozen

from nursery.cleanup import CleanupExpired, finish
from nursery.coalesce import Coalescer, CoalescerClosed
from rpc.errors import RpcError, is_passing
from storage.commits import isolating
from storage.database import Asks
from storage.delivery import DeliveryQueue
from storage.errors import CommitUnknown, ReplyLost, SerializationLost, StorageError, StoreUnavailable
from storage.records import Acknowledgement, Completion, Delivery, Failure, Return
from tayho.coordination.attempts import End, EndedJob, Ends, end_of, failed
from tayho.coordination.held import Held, HeldDeliveries
from tayho.coordination.types import Handler, Happening, Observe, WorkerSettings
from tayho.kernel.jobs import Attempt, Ended, Job, Postponed, Quarantined, RequestRefused, StaleAttempt
from tayho.kernel.steps import step

log = structlog.get_logger("tayho.worker")

# An attempt that met an outage comes back after this, and spends nothing of its job's budget.
OUTAGE_DELAY_SECONDS = 5
OUTAGES = (StoreUnavailable, SerializationLost, CommitUnknown, ReplyLost)
END_SECONDS = 10
JOB_RETRY = "retry"
ENDS_MAX = 500
# While one batch of ends is acknowledged in Redis, the next is written to PostgreSQL.
ENDS_PARALLEL = 2


@frozen
class _Finish:
    held: Held
    attempt: Attempt
    end: End | Ended


class Runner:
    """Runs handlers. `run_upkeep` must run for as long as any of them does."""

    def __init__(
        self,
        own: Asks,
        handlers: Mapping[str, Handler],
        settings: WorkerSettings,
        limit_freed: Callable[[], None],
        observe: Observe,
    ) -> None:
        """`own` writes the ends. `limit_freed` is called when a job ended that counted against a limit."""
        self._handlers = handlers
        self._ends = isolating(Ends(own, settings.attempts_max).end_all_if_current)
        self._limit_freed = limit_freed
        self._observe = observe
        self._finishes = Coalescer(
            self._finish_all, name="ends", items_max=ENDS_MAX, queued_max=10 * ENDS_MAX, parallel=ENDS_PARALLEL
        )
        self.held = HeldDeliveries(settings.lock_seconds, observe)

    async def run_upkeep(self) -> None:
        """Write ends until cancelled."""
        await self._finishes.run()

    async def run(self, queue: DeliveryQueue, delivery: Delivery, job: Job, attempt: Attempt) -> None:
        """Run the job's handler to an end that PostgreSQL knows, whatever happens to it."""
        try:
            with self.held.holding(queue, delivery, job.job_id) as held:
                # What is written if the drain runs out under the handler: the job returns, no attempt is spent.
                end: End | Ended = End(attempt, "returned", {"reason": "cut off by the drain"})
                try:
                    end = await self._handle(job, attempt, held)
                finally:
                    await finish(self._finishes.submit, _Finish(held, attempt, end), seconds=END_SECONDS)
        except StaleAttempt:
            # Another attempt owns the job, or the chain ended it.
            log.info("attempt_stale", job_id=str(job.job_id), kind=job.kind, attempt=attempt.attempt_number)
        except (StorageError, CleanupExpired, CoalescerClosed) as error:
            # The end, or only its acknowledgement, may be lost. The delivery comes again, and the fence decides.
            log.warning(
                "attempt_end_unknown",
                job_id=str(job.job_id),
                kind=job.kind,
                attempt=attempt.attempt_number,
                error=str(error),
            )

    async def _handle(self, job: Job, attempt: Attempt, held: Held) -> End | Ended:
        """The handler's end. A lost lock cancels the handler and returns the job without spending an attempt."""
        with held.scope:
            try:
                return end_of(attempt, await self._handlers[job.kind](job, attempt))
            except StaleAttempt:
                # Said by a fence. If it was the fence of a cancellation, this end is what the job still needs; else it
                # is refused like any other of a stale attempt.
                return End(attempt, "returned", {"reason": "refused by the fence"})
            except RequestRefused as error:
                return end_of(attempt, Quarantined(str(error)))
            except (*OUTAGES, RpcError) as error:
                if isinstance(error, RpcError) and not is_passing(error):
                    return failed(attempt, error)
                # An outage is no fault of the job: it must not spend the job's attempts.
                log.warning("attempt_met_an_outage", job_id=str(job.job_id), kind=job.kind, error=str(error))
                return end_of(attempt, Postponed(str(error), OUTAGE_DELAY_SECONDS))
            except Exception as error:  # noqa: BLE001 - recorded as the attempt's end; one job's bug stays its own
                log.warning("attempt_failed", job_id=str(job.job_id), kind=job.kind, error=repr(error))
                return failed(attempt, error)
        return End(attempt, "returned", {"reason": held.loss or "cancelled"})

    async def _finish_all(self, finishes: Sequence[_Finish]) -> Sequence[Exception | None]:
        """Write the ends, then acknowledge. Both are group commits: one statement, and one exchange a queue."""
        ends = [each.end for each in finishes if isinstance(each.end, End)]
        written = iter(await self._ends(ends) if ends else ())
        results = [next(written) if isinstance(each.end, End) else None for each in finishes]
        if any(isinstance(result, EndedJob) and result.frees_a_limit for result in results):
            self._limit_freed()
        self._count(results)
        await self._acknowledge(
            [
                (each.held, _acknowledgement(each, result))
                for each, result in zip(finishes, results, strict=True)
                # What PostgreSQL did not take down is not acknowledged; a stale end is: its job is another's.
                if not isinstance(result, Exception) or isinstance(result, StaleAttempt)
            ]
        )
        step("attempt.after_ack")
        return [result if isinstance(result, Exception) else None for result in results]

    def _count(self, results: Sequence[EndedJob | Exception | None]) -> None:
        states = Counter(result.state for result in results if isinstance(result, EndedJob))
        states["stale"] = sum(isinstance(result, StaleAttempt) for result in results)
        for state, count in states.items():
            self._observe(Happening.ENDED, state, count)

    async def _acknowledge(self, acknowledgements: Sequence[tuple[Held, Acknowledgement]]) -> None:
        """Tell BullMQ, best effort: PostgreSQL has decided (DLV-5)."""
        by_queue: dict[str, tuple[DeliveryQueue, list[Acknowledgement]]] = {}
        for held, acknowledgement in acknowledgements:
            held.is_acknowledging = True
            by_queue.setdefault(held.queue.name, (held.queue, []))[1].append(acknowledgement)
        for queue, of_queue in by_queue.values():
            try:
                await queue.acknowledge_many(of_queue)
            except StorageError as error:
                log.warning("acknowledgement_lost", queue=queue.name, deliveries=len(of_queue), error=str(error))


def _acknowledgement(finish: _Finish, result: EndedJob | Exception | None) -> Acknowledgement:
    delivery = finish.held.delivery
    if isinstance(result, StaleAttempt):
        return Completion(delivery)
    goes_on = isinstance(result, EndedJob) and result.state == JOB_RETRY
    match finish.end:
        case End(verdict="failed", detail=detail):
            return Failure(delivery, str(detail["message"]), retry=goes_on)
        case End(verdict="returned", delay_seconds=delay_seconds) if goes_on:
            return Return(delivery, delay_seconds)
        case _:
            return Completion(delivery)
