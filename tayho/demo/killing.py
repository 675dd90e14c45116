"""SIGKILL of a relayer in the middle of a batch."""

from __future__ import annotations

import trio

from tayho.coordination.module import JobReader
from tayho.demo.deployment import RELAYER
from tayho.demo.fleet import Fleet

BATCH_KIND = "intents.batch"
# An attempt at a batch is short: whoever looks seldom never sees one.
LOOK_SECONDS = 0.02


async def kill_in_mid_batch(jobs: JobReader, replicas: Fleet) -> str:
    """Wait for a batch that a relayer is at work on, and kill that relayer. Returns its name."""
    while True:
        for line in await jobs.list_recent(state="processing", role=RELAYER, lines_max=5):
            record = await jobs.inspect(line.job_id)
            if line.kind != BATCH_KIND or record is None or not record.attempts:
                continue
            holder = max(record.attempts, key=lambda attempt: attempt.attempt_number).instance_id
            for replica in replicas.living:
                if replica.instance_id == holder:
                    replica.kill()
                    return holder
        await trio.sleep(LOOK_SECONDS)
