"""`tayho intents`, as processes: the line, where an intent stands, and letting go of what a dead batch carried."""

from __future__ import annotations

import json
from functools import partial
from uuid import UUID

import pytest

from tayho.coordination.module import JobControl
from tayho.intents.module import Line as Places
from tests.cli.test_control import Tayho, _run
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, plane
from tests.intents.conftest import Line, line
from tests.intents.relaying import DEED
from tests.intents.test_line import batcher, submit

__all__ = ["line", "plane"]

pytestmark = pytest.mark.services


@pytest.fixture
def tayho(database_url: str, redis_url: str) -> Tayho:
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "CHAIN_ID": str(CHAIN_ID),
        "ENVIRONMENT": ENVIRONMENT,
        "RPC_URL": "http://127.0.0.1:9",
    }
    return partial(_run, environment)


async def test_an_operator_finds_an_intent_and_lets_a_dead_batch_go(line: Line, tayho: Tayho) -> None:
    """Goal: INT-7 from a shell. Method: two intents of a cancelled batch and one that waits: list, inspect by batch, by
    job and by digest, release, list again; a second release and an unknown name are refused with exit 1."""
    carried = await submit(line, 1, 2)
    await batcher(line).look()
    (place,) = await Places(line.plane.database, CHAIN_ID, ENVIRONMENT).places(carried[0])
    batch = place.batch_job_id
    assert batch is not None
    await JobControl(line.plane.database, CHAIN_ID, ENVIRONMENT).cancel(batch, DEED)
    (waiting,) = await submit(line, 3)

    look, only = map(json.loads, tayho("intents", "list", "--json").stdout.splitlines())
    assert (look["waiting"], only["job_id"], only["state"]) == (1, str(waiting), "pending_batch")
    whole = [json.loads(one) for one in tayho("intents", "inspect", str(batch), "--json").stdout.splitlines()]
    assert [(UUID(one["job_id"]), one["state"], one["child_index"]) for one in whole] == [
        (carried[0], "dead", 0),
        (carried[1], "dead", 1),
    ]
    assert json.loads(tayho("intents", "inspect", whole[1]["digest"], "--json").stdout)["job_id"] == str(carried[1])

    released = tayho("intents", "release", str(batch), "--reason", "a wrong executor", "--json")
    assert json.loads(released.stdout) == {"batch": str(batch), "released": 2}
    assert "3 wait" in tayho("intents", "list").stdout
    again = tayho("intents", "release", str(batch))
    assert (again.returncode, "nothing to release" in again.stderr) == (1, True)
    assert tayho("intents", "inspect", str(UUID(int=1))).returncode == 1
    async with line.plane.database.connection() as connection:
        (action,) = await connection.fetch("SELECT * FROM coordination.operator_actions WHERE action = 'release'")
    assert (action["actor"], set(action["job_ids"])) == ("ada", set(carried))
    assert action["detail"] == {"batch_job_id": str(batch), "reason": "a wrong executor"}
