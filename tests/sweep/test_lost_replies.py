"""Whatever answer is lost, and whatever request, no job is lost and none is done twice."""

import pytest

from tests.sweep.cases import LOADING, Case, cases, labels_of
from tests.sweep.play import play
from tests.sweep.stage import load_scripts, open_stage

pytestmark = pytest.mark.services


@pytest.mark.parametrize("case", cases(), ids=str)
async def test_whatever_is_lost_once_every_job_ends_as_it_must(database_url: str, redis_url: str, case: Case) -> None:
    """Goal: must-show 2: a reply or request lost anywhere in the delivery plane loses no job, commits none twice, and
    leaves none that nobody looks after. Method: a play in which every script and every statement passes; one of them
    meets a connection that breaks; the play goes on until all is quiet, and the books are checked on the way and at
    the end."""
    async with open_stage(database_url, redis_url) as stage:
        scripts = frozenset[str]() if case.passed.label == LOADING else labels_of("redis")
        await load_scripts(stage.back.redis, scripts)
        await play(stage, fault=lambda: case.set_fault(stage))
        assert stage.redis.sprung, f"the play went by without {case}"
        assert stage.postgres.sprung, f"the play went by without {case}"
