"""SIGKILL around the results of transactions, and around the batches that carry intents (PRF-2, INT-4, INT-7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tayho.coordination.module import enqueue_jobs
from tayho.coordination.types import NewJob
from tests.crash.world import ENVIRONMENT, World
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
