"""SIGKILL around the results of transactions, and around the batches that carry intents (PRF-2, INT-4, INT-7)."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import UUID

import pytest
import trio
from attrs import define

from storage.delivery import DeliveryQueue
from tayho.coordination.control.errors import NotABatch
from tayho.coordination.module import Coordination, Deed, JobControl, enqueue_jobs
from tayho.coordination.types import NewJob
from tayho.custody.recovery import recovered
from tayho.demo.fleet import Replica
from tayho.faults import CRASH_AT
from tayho.intents.module import Intents, Line
from tayho.intents.types import SignedIntent
from tayho.protocol.intents import permit_of
from tests.coordination.conftest import SETTINGS
from tests.crash.world import ENVIRONMENT, World
from tests.protocol.reference import Reference, reference_at
from tests.services.chain import CHAIN_ID
from tests.services.plug_in import plug_in

pytestmark = [pytest.mark.crash, pytest.mark.services]

READING = """
import os
from tayho.kinds import ResultMissing
from tayho.protocol.counter import CounterRecord

class Reading(CounterRecord):
    name = "planted.reading"

    def result_of(self, job, receipt):
        if "BLIND" in os.environ:
            raise ResultMissing("nothing can be read")
        return len(receipt.logs)
"""


async def test_killed_after_it_held_for_a_result_the_job_ends_once_it_is_read(crashing: World, tmp_path: Path) -> None:
    """Goal: a result that is missing ends nothing, whoever dies over it, and loses nothing. Method: a kind that cannot
    read its receipt; the replica dies when it has held it; one that can read goes on."""
    kinds = plug_in(tmp_path, READING, "Reading")
    job = NewJob("planted.reading", "automation", "reading", {"contract": str(crashing.contract)})
    (answer,) = await enqueue_jobs(crashing.database, CHAIN_ID, ENVIRONMENT, [job])
    await crashing.await_death(await crashing.start(crash_at="results.after_hold", plug_in=kinds, BLIND="1"))
    await crashing.await_state(answer.job_id, "confirming")
    await crashing.start(plug_in=kinds)
    assert await crashing.await_all_ended([answer.job_id]) == {answer.job_id: "completed"}
    record = await crashing.record(answer.job_id)
    assert isinstance(record.result, dict)
    assert record.result["result"] == 1
    await crashing.check()


DEED = Deed("ada", "a test")
INTENTS = 6
# Claim, build, submit, reconcile; and the very first of a relayer.
STEPS = (
    "intent.after_register",
    "batch.after_claim",
    "journal.after_persist",
    "broadcast.after_send",
    "reconcile.after_finalise",
)
SUBMIT = """
import os, sys, trio
from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from tayho.coordination.module import Coordination
from tayho.coordination.types import WorkerSettings
from tayho.custody.recovery import recovered
from tayho.faults import arm_from
from tayho.intents.module import Intents
from tayho.intents.types import Intent, IntentDomain, SignedIntent
from tayho.kernel.address import Address
async def permit(signed):
    return None
async def main():
    url, chain_id, environment, protocol = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    signature, account, market, payload = (bytes.fromhex(text) for text in sys.argv[5:9])
    salt, deadline = int(sys.argv[9]), int(sys.argv[10])
    intent = Intent(Address(account), 0, market, payload, salt, deadline)
    arm_from(os.environ, environment)
    async with open_bridge(), Database.open(url, pool_size=1, application_name='engine') as database:
        settings = WorkerSettings((), 1, 2, 2, 1, 100)
        coordination = Coordination(database, None, chain_id, environment, settings)
        domain = IntentDomain(chain_id, Address.parse(protocol))
        intents = Intents(database, coordination, domain, environment, permit, recovered)
        await intents.register()
        async with trio.open_nursery() as tasks:
            tasks.start_soon(intents.run)
            await intents.submit(SignedIntent(intent, signature))
            tasks.cancel_scope.cancel()
trio.run(main)
"""
RELEASE = """
import os, sys, trio
from uuid import UUID
from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from tayho.coordination.module import Deed, JobControl
from tayho.faults import arm_from
from tayho.intents.module import Line
async def main():
    url, chain_id, environment, batch = sys.argv[1], int(sys.argv[2]), sys.argv[3], UUID(sys.argv[4])
    arm_from(os.environ, environment)
    async with open_bridge(), Database.open(url, pool_size=1, application_name='operator') as database:
        control = JobControl(database, chain_id, environment)
        async def let_go(tx, batch_job_id):
            return await control.release_children(tx, batch_job_id, Deed('ada', 'a test'))
        await Line(database, chain_id, environment).release(batch, let_go)
trio.run(main)
"""


@define
class Relayed:
    """The reference protocol on the chain of a crash test, and clients of its line."""

    crashing: World
    reference: Reference
    intents: Intents

    async def relayer(self, **changes: str) -> Replica:
        """A replica that relays; it kills itself at `crash_at` if given."""
        crash_at = changes.pop("crash_at", None)
        variables = {
            "PROTOCOL_ADDRESS": str(self.reference.protocol),
            "BATCH_EXECUTOR_ADDRESS": str(self.reference.executor),
            "BATCH_MAX_GAS": "5000000",
            **changes,
        }
        return await self.crashing.start("relayer", crash_at=crash_at, **variables)

    def signed(self) -> SignedIntent:
        order = self.reference.order()
        return SignedIntent(order, self.reference.signed(order).signature)

    async def submit(self, count: int) -> list[UUID]:
        return [(await self.intents.submit(self.signed())).job_id for _ in range(count)]

    async def check(self, job_ids: Sequence[UUID]) -> None:
        """Each intent took effect once, by its own result, in one batch."""
        assert set((await self.crashing.await_all_ended(job_ids)).values()) == {"completed"}
        assert await self.reference.view("orderCount") == len(job_ids)
        await self.crashing.check()

    async def die(self, script: str, step: str, database_url: str, *arguments: str) -> None:
        """Run it in a process that kills itself at the step."""
        command = [sys.executable, "-c", script, database_url, str(CHAIN_ID), ENVIRONMENT, *arguments]
        died = await trio.run_process(command, env={**os.environ, CRASH_AT: step}, check=False, capture_stderr=True)
        assert died.returncode == -9, died.stderr.decode()


@pytest.fixture
async def relayed(crashing: World) -> AsyncIterator[Relayed]:
    """Contracts of accounts that no replica signs for, and a line."""
    reference = await reference_at(crashing.node, owner=4, holder=5)

    def no_queue(role: str) -> DeliveryQueue:
        raise AssertionError(role)

    coordination = Coordination(crashing.database, no_queue, CHAIN_ID, ENVIRONMENT, SETTINGS)
    permit = permit_of(crashing.node, reference.domain)
    intents = Intents(crashing.database, coordination, reference.domain, ENVIRONMENT, permit, recovered)
    await intents.register()
    async with trio.open_nursery() as tasks:
        tasks.start_soon(intents.run)
        yield Relayed(crashing, reference, intents)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("step", STEPS)
async def test_killed_at_a_step_of_a_batch_each_intent_takes_effect_once(relayed: Relayed, step: str) -> None:
    """Goal: must-show 2: a relayer that dies in the claim, the build, the submission or the reconciliation loses and
    doubles nothing. Method: intents wait; the relayer dies at the step; another goes on."""
    job_ids = await relayed.submit(INTENTS)
    await relayed.crashing.await_death(await relayed.relayer(crash_at=step, BATCH_MAX_ITEMS="4"))
    await relayed.crashing.check()
    await relayed.relayer(BATCH_MAX_ITEMS="4")
    await relayed.check(job_ids)


async def test_a_relayer_killed_in_mid_batch_changes_nothing(relayed: Relayed) -> None:
    """Goal: must-show 4: nobody notices that one of two relayers is gone. Method: both carry a growing line; when
    transactions of theirs are under way, one is killed, and nobody is started."""
    first, second = await relayed.relayer(BATCH_MAX_ITEMS="4"), await relayed.relayer(BATCH_MAX_ITEMS="4")
    for replica in (first, second):
        await relayed.crashing.await_word(replica, "started")
    job_ids = await relayed.submit(10)
    await relayed.crashing.await_state(job_ids[0], "batched", "completed")
    first.kill()
    job_ids += await relayed.submit(10)
    await relayed.check(job_ids)


async def test_killed_after_it_took_an_intent_the_intent_is_there_once(relayed: Relayed, database_url: str) -> None:
    """Goal: a client that hears nothing asks again, and finds its intent. Method: a process takes an intent and dies
    after its commit; the same intent is submitted again, and carried."""
    one = relayed.signed()
    await relayed.die(SUBMIT, "intent.after_accept", database_url, str(relayed.reference.protocol), *_words_of(one))
    again = await relayed.intents.submit(one)
    assert not again.created
    await relayed.relayer()
    await relayed.check([again.job_id])


async def test_killed_after_it_let_children_go_they_are_carried_by_another(relayed: Relayed, database_url: str) -> None:
    """Goal: a release is whole, and asking again is harmless. Method: a batch is cancelled before it ran; an operator
    lets its children go and dies; asked again he is refused; a relayer carries them."""
    job_ids = await relayed.submit(2)
    doomed = await relayed.relayer(crash_at="batch.after_claim")
    await relayed.crashing.await_death(doomed)
    (place,) = await Line(relayed.crashing.database, CHAIN_ID, ENVIRONMENT).places(job_ids[0])
    batch = place.batch_job_id
    assert batch is not None
    control = JobControl(relayed.crashing.database, CHAIN_ID, ENVIRONMENT)
    await control.cancel(batch, DEED)
    await relayed.die(RELEASE, "batch.after_release", database_url, str(batch))
    await relayed.crashing.check()
    with pytest.raises(NotABatch):
        async with relayed.crashing.database.transaction() as tx:
            await control.release_children(tx, batch, DEED)
    await relayed.relayer()
    await relayed.check(job_ids)


def _words_of(one: SignedIntent) -> list[str]:
    intent = one.intent
    parts = (one.signature, intent.account.value, intent.market, intent.payload)
    return [*(part.hex() for part in parts), str(intent.salt), str(intent.deadline)]
