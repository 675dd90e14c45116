"""What a receipt means is its kind's to say; a job does not end without it, and nothing is guessed (INT-7)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define, evolve, field

from rpc.values import Receipt
from storage.connection import Connection
from tayho.kernel.jobs import Attempt, Ended, Job
from tayho.kernel.json_document import Json
from tayho.kinds import Call, ResultMissing
from tayho.protocol import abi, artifacts, counter
from tayho.transactions.constants import GAS_LIMIT_MAX
from tayho.transactions.errors import GasBeyondCap
from tayho.transactions.executor import Executor
from tayho.transactions.reconciler import Reconciler
from tayho.transactions.reorganising import Reorganisations
from tayho.transactions.results import Results
from tayho.transactions.sending import Sending
from tayho.transactions.types import WouldRevert
from tayho.voters import truth_of
from tests.invariants import check_invariants
from tests.services.chain import LocalChain, local_chain
from tests.transactions.conftest import Engine, any_call
from tests.transactions.test_executor import Kind
from tests.transactions.watching import findings, mine, rows, told


@pytest.fixture(scope="module")
def chain() -> Iterator[LocalChain]:
    """A node of this module's own: its past is not safe."""
    with local_chain(block_seconds=None) as running:
        yield running


@define
class Reading(Kind):
    """Reads the event that its call records, and settles in a table of its own."""

    wanted: Call = field(factory=any_call)
    refusal: str | None = None
    name: str = "kind"
    role: str = "automation"
    # What `settle` raises, once told to.
    error: Exception | None = None

    def result_of(self, job: Job, receipt: Receipt) -> Json:
        logs = [log for log in receipt.logs if log.address == self.wanted.to.value]
        if len(logs) != 1:
            raise ResultMissing(f"one event is due, and there are {len(logs)}")
        return {"event": f"0x{counter.read_recorded(logs[0].topics, logs[0].data).event_id.hex()}"}

    async def settle(self, tx: Connection, job: Job, receipt: Receipt) -> None:
        await tx.execute("CREATE TABLE IF NOT EXISTS settled (job_id uuid PRIMARY KEY)")
        await tx.execute("INSERT INTO settled VALUES ($1)", job.job_id)
        if self.error is not None:
            raise self.error

    async def unsettle(self, tx: Connection, job: Job) -> None:
        await tx.execute("DELETE FROM settled WHERE job_id = $1", job.job_id)


def reconciler(engine: Engine, *kinds: Reading) -> Reconciler:
    """A process that knows these kinds, and heals."""
    database, coordination = engine.plane.database, engine.plane.coordination
    settings = evolve(engine.settings, reorg_lookback_blocks=12)
    results = Results(database, coordination, kinds, "one")
    truth = truth_of([engine.node])
    healing = Reorganisations(database, coordination, truth, engine.executor.halts, settings, results)
    sending: Sending = engine.executor._sending  # pyright: ignore[reportPrivateUsage]
    custody = engine.executor._custody  # pyright: ignore[reportPrivateUsage]
    return Reconciler(
        database, coordination, custody, truth, sending, engine.executor, settings, [healing.step], results
    )


def recording(engine: Engine, event: bytes) -> Reading:
    return Reading(Call(engine.contract, abi.encode_call(artifacts.load("Counter"), "record", [event])))


async def sent(engine: Engine, kind: Reading, key: str = "key") -> Attempt:
    """A job of the kind whose transaction is mined, and deep enough."""
    (attempt,) = await engine.attempts(1, key)
    assert await engine.executor.execute(kind, await engine.job(attempt), attempt) == Ended()
    await mine(engine, 2)
    return attempt


async def result(engine: Engine, attempt: Attempt) -> Any:
    record = await engine.plane.coordination.inspect(attempt.job_id)
    assert record is not None
    return record.result


async def held(engine: Engine, attempt: Attempt) -> list[tuple[str, str | None]]:
    found = await rows(engine, "SELECT state, hold FROM transactions.lineages WHERE job_id = $1", attempt.job_id)
    return [tuple(row) for row in found]


async def settled(engine: Engine) -> set[object]:
    return {job_id for (job_id,) in await rows(engine, "SELECT job_id FROM settled")}


async def test_the_kind_says_what_the_effect_was(engine: Engine) -> None:
    """Goal: a caller learns the effect and not only the hash. Method: a kind that reads its event; what it read stands
    beside the transaction in the job's result, and what it settled was committed with it."""
    event = os.urandom(32)
    kind = recording(engine, event)
    attempt = await sent(engine, kind)
    await reconciler(engine, kind).tick()
    found = await result(engine, attempt)
    assert found["result"] == {"event": f"0x{event.hex()}"}
    assert found["tx_hash"].startswith("0x")
    assert await settled(engine) == {attempt.job_id}


async def test_without_its_result_a_job_is_held_and_the_others_end(engine: Engine) -> None:
    """Goal: fail closed, told once, and harming nobody else. Method: one call logs nothing, another what it must; two
    looks; then a release that can read the first."""
    silent, good = Reading(any_call()), recording(engine, os.urandom(32))
    first, second = await sent(engine, silent, "silent"), await sent(engine, good, "good")
    replica = reconciler(engine, good)
    await replica.tick()
    await replica.tick()
    assert await held(engine, first) == [("broadcast", "result_missing")]
    assert (await engine.plane.state(first.job_id), await result(engine, first)) == ("confirming", None)
    assert await engine.plane.state(second.job_id) == "completed"
    assert await settled(engine) == {second.job_id}
    ((kind, detail),) = await findings(engine)
    assert (kind, detail["reason"]) == ("result_missing", "one event is due, and there are 0")
    newer = recording(engine, bytes(32))
    newer.result_of = lambda job, receipt: "read"  # pyright: ignore[reportAttributeAccessIssue]
    await reconciler(engine, newer).tick()
    assert (await held(engine, first), (await result(engine, first))["result"]) == ([("mined", None)], "read")
    await check_invariants(engine.plane.database, engine.node, engine.contract)


@pytest.mark.parametrize("error", [ResultMissing("two are missing"), ZeroDivisionError()], ids=["missing", "a bug"])
async def test_what_cannot_be_settled_is_held_and_the_others_end(engine: Engine, error: Exception) -> None:
    """Goal: one kind's failure rolls back its own end alone. Method: of two final receipts one cannot be settled; then
    it can."""
    bad, good = recording(engine, os.urandom(32)), recording(engine, os.urandom(32))
    bad.error = error
    first, second = await sent(engine, bad, "bad"), await sent(engine, good, "good")

    async def settle(tx: Connection, job: Job, receipt: Receipt) -> None:
        await Reading.settle(bad if job.job_id == first.job_id else good, tx, job, receipt)

    good_and_bad = recording(engine, bytes(32))
    good_and_bad.settle = settle  # pyright: ignore[reportAttributeAccessIssue]
    replica = reconciler(engine, good_and_bad)
    await replica.tick()
    assert await held(engine, first) == [("broadcast", "result_missing")]
    assert await engine.plane.state(second.job_id) == "completed"
    assert await settled(engine) == {second.job_id}
    bad.error = None
    await replica.tick()
    assert await settled(engine) == {first.job_id, second.job_id}


async def test_a_process_that_does_not_know_the_kind_ends_nothing_of_it(engine: Engine) -> None:
    """Goal: in a rolling release the old processes guess nothing. Method: one that knows no kind looks first, then one
    that does; after a reorganisation too."""
    kind = recording(engine, os.urandom(32))
    attempt = await sent(engine, kind)
    stranger, friend = reconciler(engine), reconciler(engine, kind)
    await stranger.tick()
    assert await held(engine, attempt) == [("broadcast", "result_missing")]
    await friend.tick()
    assert await held(engine, attempt) == [("mined", None)]
    await told(engine, "anvil_reorg", 3, [])
    await mine(engine)
    await stranger.tick()
    assert await held(engine, attempt) == [("mined", None)]
    await friend.tick()
    assert await held(engine, attempt) == [("signed", None)]


async def test_what_a_reorganisation_takes_back_is_settled_anew_once(engine: Engine) -> None:
    """Goal: a result of a block that is gone counts no more (TX-6). Method: settle, take the block away, look: nothing
    is settled; mine it again: settled once more."""
    kind = recording(engine, os.urandom(32))
    attempt = await sent(engine, kind)
    replica = reconciler(engine, kind)
    await replica.tick()
    await told(engine, "anvil_reorg", 3, [])
    await mine(engine)
    await replica.tick()
    assert await engine.plane.state(attempt.job_id) == "retry"
    assert await settled(engine) == set()
    for _ in range(4):
        await replica.tick()
        await mine(engine)
    assert await engine.plane.state(attempt.job_id) == "completed"
    assert await settled(engine) == {attempt.job_id}


async def test_the_kinds_least_gas_is_signed_also_by_whoever_resumes(engine: Engine) -> None:
    """Goal: what a batch must carry is signed whatever a node estimates (INT-5). Method: a call that needs little and
    asks for much; its allocation is resumed from the journal by another process, which knows no kind."""
    (attempt,) = await engine.attempts(1)
    kind = Kind(evolve(any_call(), gas_limit_min=1_234_567))
    begun = await engine.executor._begin(kind, await engine.job(attempt), attempt)  # pyright: ignore[reportPrivateUsage]
    assert isinstance(begun, tuple)
    lineage = await engine.journal.live_lineage(attempt.job_id)
    assert lineage is not None
    for one, foreseen in ((lineage, None), begun):
        member = await engine.executor.sign(one, foreseen)
        assert not isinstance(member, WouldRevert)
        assert member.gas_limit == 1_234_567


async def test_gas_that_no_transaction_can_have_takes_no_nonce(engine: Engine) -> None:
    """Goal: what cannot be signed blocks no lane. Method: ask for one gas more than EIP-7825 allows."""
    (attempt,) = await engine.attempts(1)
    kind = Kind(evolve(any_call(), gas_limit_min=GAS_LIMIT_MAX + 1))
    executor: Executor = engine.executor
    with pytest.raises(GasBeyondCap, match=str(GAS_LIMIT_MAX + 1)):
        await executor.execute(kind, await engine.job(attempt), attempt)
    assert await engine.journal.live_lineage(attempt.job_id) is None
