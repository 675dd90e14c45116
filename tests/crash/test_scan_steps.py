"""SIGKILL around what a scanner writes (PRF-2, DLV-13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.world import World
from tests.services.plug_in import plug_in

pytestmark = [pytest.mark.crash, pytest.mark.services]

FINDING = """
from tayho.kinds import Completed, Discovered, Finding, Work

class Finder:
    name, role = "planted.find", "automation"

    async def discover(self, reads):
        return Discovered(
            tuple(Work(f"w{number}", {}) for number in range(3)),
            (Finding("a source", "silent", "nothing was heard"),),
        )

    async def run(self, job, reads):
        return Completed("done")
"""


@pytest.mark.parametrize("step", ["scan.after_findings", "scan.after_record"])
async def test_killed_while_it_scans_all_work_is_found_once(crashing: World, tmp_path: Path, step: str) -> None:
    """Goal: whoever dies over a look, its work is found by the next, once, and its finding kept once. Method: a replica
    dies at the step; two others start and find the same; every piece of work has one completed job."""
    kinds = plug_in(tmp_path, FINDING, "Finder")
    await crashing.await_death(await crashing.start(crash_at=step, plug_in=kinds, SCAN_SECONDS="1"))
    for _ in range(2):
        await crashing.start(plug_in=kinds, SCAN_SECONDS="1")
    found = await crashing.await_found("planted.find", 3)
    assert [(key.rpartition("/")[2], state) for key, state, _ in found] == [(f"w{n}", "completed") for n in range(3)]
    async with crashing.database.connection() as connection:
        rows = await connection.fetch("SELECT subject, name FROM discovery.findings GROUP BY subject, name, hour_at")
        assert {(row["subject"], row["name"]) for row in rows} == {("a source", "silent")}
        assert await connection.fetchval("SELECT count(*) FROM discovery.findings") == len(rows)
