"""What operators and retention do while the play goes on: each is asked for again, as its documentation says."""

from contextlib import suppress
from functools import partial
from typing import Final
from uuid import UUID

import trio
from attrs import frozen

from tayho.coordination.control.bulk import BulkControl
from tayho.coordination.control.errors import NotDead
from tayho.coordination.control.instances import Instances
from tayho.coordination.control.throttles import Throttles
from tayho.coordination.control.types import Deed, JobFilter, Limit
from tayho.coordination.explaining.facts import Explainer
from tayho.coordination.retention import Retention
from tests.sweep.asking import asked_again
from tests.sweep.parts import PAUSED_KIND, PAUSED_PART, REPLAYED_TAG, RUNNING_PART, TENANT, UNWANTED_TAG, Handlers
from tests.sweep.stage import CHAIN_ID, ENVIRONMENT, PAST, ROLE, SETTINGS, Plane, Stage

DEED: Final = Deed("operator", "the sweep")
# Room for all of the tenant's parts, so that it holds none of them back.
LIMIT: Final = Limit(concurrent_max=5)
AWAITED_SECONDS = 10


@frozen
class Operator:
    """Acts over the way that may be broken. Where the jobs are it is told from behind the scenes."""

    stage: Stage
    control: BulkControl
    throttles: Throttles
    instances: Instances

    @classmethod
    def of(cls, stage: Stage) -> "Operator":
        at = (stage.front.database, CHAIN_ID, ENVIRONMENT)
        return cls(stage, BulkControl(*at), Throttles(*at), Instances(*at))

    async def hold_back(self) -> None:
        """Before anything is published: a kind is paused; one key is given numbers, and another loses its own."""
        await asked_again(partial(self.throttles.pause, ROLE, DEED, kind=PAUSED_KIND))
        await asked_again(partial(self.throttles.set_limit, TENANT, LIMIT, DEED))
        passing = Limit(rate_max=1, rate_seconds=60)
        await asked_again(partial(self.throttles.set_limit, "passing", passing, DEED))
        await asked_again(partial(self.throttles.remove_limit, "passing", DEED))

    async def drain(self) -> None:
        """Every process that beats is drained, and undrained. One whose registration was not answered says nothing."""
        for live in await asked_again(self.stage.front.coordination.live_workers):
            name = str(live.worker_id)
            drained = await asked_again(partial(self.instances.drain, name, DEED))
            await asked_again(partial(self.instances.await_drained, drained, 0.5))
            await asked_again(partial(self.instances.undrain, name, DEED))

    async def replay(self) -> None:
        """One dead job by its id, and those that a filter finds."""
        job_id = await self._job_id("replayed")
        # The answer was lost, and the job is queued already. One that never was replayed does not end as it must.
        with suppress(NotDead):
            await asked_again(partial(self.control.replay, job_id, DEED))
        await asked_again(partial(self.control.replay_many, JobFilter(tag=REPLAYED_TAG), DEED))

    async def cancel_waiting(self) -> None:
        """Jobs whose records wait in the queue: one by its id, and those that a filter finds."""
        cancelled = await asked_again(partial(self.control.cancel, await self._job_id("cancelled"), DEED))
        assert cancelled.has_ended
        done = await asked_again(partial(self.control.cancel_many, JobFilter(tag=UNWANTED_TAG), DEED))
        assert not done.still_running

    async def cancel_running(self, handlers: Handlers) -> None:
        """A job whose handler would never end."""
        await handlers.runs_for_ever.wait()
        job_id = await self._job_id(RUNNING_PART)
        await asked_again(partial(self.control.cancel, job_id, DEED))
        states = await asked_again(partial(self.control.await_end, [job_id], seconds=AWAITED_SECONDS))
        assert states == {job_id: "dead"}

    async def resume(self) -> None:
        """End the pause, after a look at what it holds back."""
        [pause] = await asked_again(self.throttles.list_pauses)
        assert (pause.role, pause.kind, pause.actor) == (ROLE, PAUSED_KIND, DEED.actor)
        [backlog] = await asked_again(self.throttles.backlog_by_role)
        assert backlog.role == ROLE
        queue = self.stage.front.queue
        explainer = Explainer(
            self.stage.front.database, lambda _: queue, CHAIN_ID, ENVIRONMENT, fair_window=SETTINGS.fair_window
        )
        explanation = await asked_again(partial(explainer.explain, await self._job_id(PAUSED_PART)))
        assert explanation is not None
        await asked_again(partial(self.throttles.resume, ROLE, DEED, kind=PAUSED_KIND))
        assert await asked_again(self.throttles.list_pauses) == []

    async def look_back(self) -> None:
        """What is left when all is quiet: the dead, and the numbers as they were set."""
        dead = await asked_again(self.control.list_dead)
        assert {"cancelled", RUNNING_PART, "fails for ever"} <= {line.idempotency_key for line in dead}
        [line] = await asked_again(self.throttles.list_limits)
        assert (line.limit_key, line.concurrent_max, line.rate_max) == (TENANT, LIMIT.concurrent_max, LIMIT.rate_max)

    async def _job_id(self, name: str) -> UUID:
        async with self.stage.back.database.connection() as connection:
            return await connection.fetchval(
                "SELECT job_id FROM coordination.jobs WHERE environment = $1 AND idempotency_key = $2",
                ENVIRONMENT,
                name,
            )


async def retain(stage: Stage) -> None:
    """Retention of another environment, where everything is old: until its job is archived and its worker forgotten."""
    retention = Retention(stage.front.database, CHAIN_ID, PAST, days=0)
    while not await _is_forgotten(stage.back):
        await asked_again(retention.turn)
        await trio.lowlevel.checkpoint()


async def _is_forgotten(plane: Plane) -> bool:
    async with plane.database.connection() as connection:
        return await connection.fetchval(
            "SELECT NOT EXISTS (SELECT FROM coordination.workers WHERE environment = $1)"
            " AND NOT EXISTS (SELECT FROM coordination.jobs WHERE environment = $1 AND archived_at IS NULL)",
            PAST,
        )
