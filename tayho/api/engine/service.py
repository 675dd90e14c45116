"""What the routes do, without HTTP: an intent taken, a status read, and every outage under its own name."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import structlog
import trio

from nursery.coalesce import Coalescer, CoalescerClosed
from rpc.errors import RpcError
from storage.errors import CommitUnknown, StorageError
from tayho.api.engine import codes
from tayho.api.engine.refusals import RequestRefused, away
from tayho.api.engine.wire import read_submission
from tayho.contracts.intents import IntentNotPermitted, IntentRefused
from tayho.intents.module import Intents
from tayho.intents.types import Accepted, IntentDomain, IntentStatus

log = structlog.get_logger("tayho.engine")

# A submission asks the chain and commits; more at once would only wait for connections.
SUBMISSIONS_AT_ONCE = 128
SUBMISSION_SECONDS = 10.0
STATUS_SECONDS = 5.0
# Statuses read by one statement, and how many may wait for it.
STATUSES_TOGETHER = 256
STATUSES_WAITING = 4_096


class IntentService:
    """The line of intents as strangers reach it. Its `run` and that of the intents must run."""

    def __init__(self, intents: Intents, domain: IntentDomain) -> None:
        self._intents = intents
        self._domain = domain
        self._turns = trio.CapacityLimiter(SUBMISSIONS_AT_ONCE)
        self._reads: Coalescer[UUID, IntentStatus | None] = Coalescer(
            self._statuses, name="statuses", items_max=STATUSES_TOGETHER, queued_max=STATUSES_WAITING, parallel=2
        )

    async def run(self) -> None:
        """Read statuses for all who ask, until cancelled."""
        await self._reads.run()

    async def submit(self, body: bytes) -> Accepted:
        """Take the intent of a body. Raises RequestRefused.

        What is cut off by the deadline may have been taken: the answer then says so, and the same intent again is
        the same job.
        """
        signed = read_submission(body, self._domain)
        has_begun = False
        try:
            with trio.fail_after(SUBMISSION_SECONDS):
                async with self._turns:
                    has_begun = True
                    accepted = await self._intents.submit(signed)
        except IntentRefused as error:
            raise _refused(error) from error
        except RpcError as error:
            raise away(
                codes.NO_CHAIN, "The chain cannot be asked whether it would take the intent: try again."
            ) from error
        except (CommitUnknown, CoalescerClosed) as error:
            raise away(codes.UNKNOWN_OUTCOME, "Submit the same intent again: it is taken once.") from error
        except StorageError as error:
            raise away(codes.NO_STORE, "The intent cannot be recorded now, and was not: try again.") from error
        except trio.TooSlowError as error:
            if not has_begun:
                raise away(codes.BUSY, "Too many submissions are under way here: try again.") from error
            raise away(codes.UNKNOWN_OUTCOME, "Submit the same intent again: it is taken once.") from error
        if accepted.created:
            log.info("intent_accepted", job_id=str(accepted.job_id), digest=f"0x{accepted.digest.hex()}")
        return accepted

    async def status(self, job_id: UUID) -> IntentStatus:
        """How far an intent has come. Raises RequestRefused."""
        try:
            with trio.fail_after(STATUS_SECONDS):
                found = await self._reads.submit(job_id)
        except (StorageError, CoalescerClosed) as error:
            raise away(codes.NO_STORE, "Statuses cannot be read now: try again.") from error
        except trio.TooSlowError as error:
            raise away(codes.BUSY, "Too many statuses are being read here: try again.") from error
        if found is None:
            raise RequestRefused(codes.UNKNOWN_INTENT, "There is no intent of this id here.")
        return found

    async def _statuses(self, job_ids: Sequence[UUID]) -> Sequence[IntentStatus | None]:
        found = await self._intents.statuses(job_ids)
        return [found.get(job_id) for job_id in job_ids]


def _refused(error: IntentRefused) -> RequestRefused:
    code = codes.OF_INTENTS.get(error.code, codes.MALFORMED_INTENT)
    members = {"reason": error.reason} if isinstance(error, IntentNotPermitted) else {}
    return RequestRefused(code, f"{error}.", members=members)
