"""The coordinator: takes the front of the line, a batch at a time, whichever replica is first (INT-4, INT-5, INT-6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile

import structlog
from attrs import frozen

from nursery.drain import Drain
from nursery.periodic import every
from rpc import methods
from rpc.errors import NoQuorum, Reverted, RpcError, RpcRefused, is_passing
from rpc.reads import Call as Question
from rpc.reads import Reads
from rpc.values import Header
from storage.commits import again_if_lost
from storage.database import Connection, Database
from storage.errors import StorageError
from tayho.contracts.coordination import Coordination, NewJob, Quarantine
from tayho.intents import store
from tayho.intents.batch_kind import BatchRequest
from tayho.intents.batch_rules import (
    GAS_LIMIT_MAX,
    Entry,
    Estimated,
    Sized,
    Unbatchable,
    Undecided,
    gas_cap,
    gas_of,
    plan,
)
from tayho.intents.constants import BATCH_KIND, ROLE
from tayho.intents.errors import LineDrifted, LineWaits
from tayho.intents.types import BatchContract, BatchSettings, Carried, Happening, IntentDomain, Observe, Waiting
from tayho.kernel.ids import new_id
from tayho.kernel.steps import step

log = structlog.get_logger("tayho.batcher")

BACKOFF_SECONDS_MAX = 5


@frozen
class Sight:
    """How the coordinator sees the chain: ordinary reads, a head and reads that a majority agrees on."""

    reads: Reads
    head: Callable[[], Awaitable[Header]]
    # None where one endpoint decides alone.
    agreed: Callable[[], Awaitable[Reads]] | None = None
    # The highest number that a majority tells at least, each of the questions by itself; None likewise.
    reached: Callable[[Sequence[Question[int]]], Awaitable[Sequence[int | NoQuorum]]] | None = None


class Batcher:
    """Makes batches of the line of one protocol. Every relayer runs one; the line's row lets one claim at a time."""

    def __init__(
        self,
        database: Database,
        coordination: Coordination,
        domain: IntentDomain,
        environment: str,
        contract: BatchContract,
        sight: Sight,
        settings: BatchSettings,
        observe: Observe,
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._line = (domain.chain_id, environment)
        self._protocol = domain.protocol
        self._contract = contract
        self._sight = sight
        self._settings = settings
        self._observe = observe

    async def run(self, drain: Drain) -> None:
        """Look at the line at each window until the drain."""
        await every(
            self._settings.window_milliseconds / 1_000,
            self.look,
            transient=(StorageError, RpcError, LineDrifted, LineWaits),
            backoff_seconds_max=BACKOFF_SECONDS_MAX,
            on_error=lambda error, failures: log.warning("batching_failed", failures=failures, error=str(error)),
            stop=drain,
        )

    async def look(self) -> bool:
        """Make one batch of the front of the line; True where another can be made at once.

        Raises RpcError, StorageError, LineWaits where it could not be found out what the first of the line needs.
        """
        waiting = await self._waiting()
        if not waiting:
            return False
        head = await self._sight.head()
        cap = gas_cap(head.gas_limit, self._settings)
        line = list(zip(waiting, await self._sized(waiting, head), strict=True))
        entries = plan(self._contract, line, self._settings, cap)
        if not entries:
            raise LineWaits(next(sized.reason for _, sized in line if isinstance(sized, Undecided)))
        claimed = await again_if_lost(lambda: self._claim(entries))
        self._tell(claimed)
        if len(claimed) < len(entries):
            return True  # Another replica was first.
        if len(entries) < len(waiting):
            return not isinstance(line[len(entries)][1], Undecided)
        return len(waiting) == self._settings.items_max

    async def _waiting(self) -> list[Waiting]:
        async with self._database.connection() as connection:
            rows = await store.WAITING(connection, *self._line, self._protocol.value, self._settings.items_max)
        return [store.waiting_of(row) for row in rows]

    async def _sized(self, waiting: Sequence[Waiting], head: Header) -> list[Sized]:
        """What each needs alone. That one can never be carried is believed of a majority, and of nothing less."""
        found = [_late(one, head) or one for one in waiting]
        timely = [one for one in found if isinstance(one, Waiting)]
        answers = await self._needed(timely)
        doubtful = [one for one, answer in zip(timely, answers, strict=True) if not isinstance(answer, int)]
        sized = {one.job_id: self._verdict(answer) for one, answer in zip(timely, answers, strict=True)}
        if doubtful and self._sight.agreed is not None:
            again = await self._simulate(await self._sight.agreed(), doubtful)
            sized |= {one.job_id: self._verdict(answer) for one, answer in zip(doubtful, again, strict=True)}
        return [sized[one.job_id] if isinstance(one, Waiting) else one for one in found]

    async def _needed(self, waiting: Sequence[Waiting]) -> Sequence[int | RpcError]:
        """The gas that each would use, as much of it as a majority tells at least.

        On one endpoint's word an intent could be given too little, and fail for good.
        """
        if self._sight.reached is None or not waiting:
            return await self._simulate(self._sight.reads, waiting)
        return await self._sight.reached(self._questions(waiting))

    async def _simulate(self, reads: Reads, waiting: Sequence[Waiting]) -> list[int | RpcError]:
        return await reads.ask_many(self._questions(waiting)) if waiting else []

    def _questions(self, waiting: Sequence[Waiting]) -> list[Question[int]]:
        return [methods.estimate_gas(self._contract.alone(one.signed, GAS_LIMIT_MAX), "latest") for one in waiting]

    def _verdict(self, answer: int | RpcError) -> Sized:
        if isinstance(answer, int):
            return Estimated(answer)
        refused = _refusal(answer)
        if refused is None:
            return Undecided(str(answer))
        named = self._contract.refusal(refused.data) if isinstance(refused, Reverted) else None
        return Unbatchable("would_revert", named or getattr(refused, "reason", None) or refused.message)

    async def _claim(self, entries: Sequence[Entry]) -> list[Entry]:
        """Take what still is the front of the line, in one transaction; what was taken, or ended, of the entries.

        Who waited for the line's row finds another front, and takes only what both see alike from the very first on.
        """
        async with self._database.transaction() as tx:
            if not await store.LOCK_LINE(tx, *self._line):
                raise LineDrifted("the line is not registered")
            front = await store.FRONT_OF_LINE(tx, *self._line, self._protocol.value, len(entries))
            pairs = zip(entries, front, strict=False)
            same = [entry for entry, _ in takewhile(lambda pair: pair[0].waiting.job_id == pair[1]["job_id"], pairs)]
            if not same:
                return []
            await self._carry(tx, [(one.waiting, one.verdict) for one in same if isinstance(one.verdict, Carried)])
            await self._quarantine(
                tx, [(one.waiting, one.verdict) for one in same if isinstance(one.verdict, Unbatchable)]
            )
            await store.LEAVE_LINE(tx, [one.waiting.job_id for one in same])
        step("batch.after_claim")
        await self._coordination.wake_publishers()
        return same

    async def _carry(self, tx: Connection, children: Sequence[tuple[Waiting, Carried]]) -> None:
        if not children:
            return
        request = BatchRequest(
            executor=self._contract.address,
            protocol=self._protocol,
            digests=[waiting.digest for waiting, _ in children],
            gas_limit_min=gas_of(self._contract, [carried for _, carried in children]),
        )
        batch = await self._coordination.enqueue(
            NewJob(kind=BATCH_KIND, role=ROLE, idempotency_key=f"batch/{new_id()}", request=request.document()), tx=tx
        )
        job_ids = [waiting.job_id for waiting, _ in children]
        if await self._coordination.batch_if_pending(tx, batch.job_id, job_ids) != frozenset(job_ids):
            raise LineDrifted("an intent at the front of the line does not wait for a batch")
        await store.CLAIM_CHILDREN(tx, batch.job_id, job_ids, [carried.gas_stipend for _, carried in children])

    async def _quarantine(self, tx: Connection, unbatchable: Sequence[tuple[Waiting, Unbatchable]]) -> None:
        if not unbatchable:
            return
        quarantines = [
            Quarantine(waiting.job_id, {"type": "Unbatchable", "code": verdict.code, "message": verdict.reason})
            for waiting, verdict in unbatchable
        ]
        ended = await self._coordination.quarantine_if_pending(tx, quarantines)
        if len(ended) != len(quarantines):
            raise LineDrifted("an intent at the front of the line does not wait for a batch")

    def _tell(self, claimed: Sequence[Entry]) -> None:
        children = sum(isinstance(one.verdict, Carried) for one in claimed)
        codes = Counter(one.verdict.code for one in claimed if isinstance(one.verdict, Unbatchable))
        if children:
            self._observe(Happening.BATCHED, "", 1)
            self._observe(Happening.CHILDREN, "", children)
        for code, count in codes.items():
            self._observe(Happening.QUARANTINED, code, count)
        if claimed:
            log.info("batched", children=children, quarantined=sum(codes.values()))


def _late(waiting: Waiting, head: Header) -> Unbatchable | None:
    """No later block can execute it. The head is a majority's."""
    deadline = waiting.signed.intent.deadline
    if deadline >= head.timestamp_seconds:
        return None
    return Unbatchable(
        "deadline_passed", f"its deadline, {deadline}, is before the head's time, {head.timestamp_seconds}"
    )


def _refusal(error: RpcError) -> RpcRefused | None:
    """That the call itself is refused, and not that a node could not answer; of several voters, of a majority."""
    if isinstance(error, RpcRefused) and not is_passing(error):
        return error
    if isinstance(error, NoQuorum):
        said = [vote.outcome for vote in error.votes]
        refusals = [one for one in said if isinstance(one, RpcRefused) and not is_passing(one)]
        return refusals[0] if len(refusals) >= error.needed else None
    return None
