"""`tayho demo` and `tayho dev` end as they promise and leave nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from tayho.demo.types import DemoReport
from tests.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.services]

COMMAND = [sys.executable, "-m", "tayho"]


async def test_the_demo_kills_a_replica_and_counts_every_effect_once() -> None:
    """Goal: must-show 2 in small. Method: run it as a process; the last line of stdout is the report."""
    ended = await trio.run_process(
        [*COMMAND, "demo", "--jobs", "40", "--replicas", "2", "--kill", "--json"],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()[-2000:]
    report = json.loads(ended.stdout.decode().splitlines()[-1])
    assert report.keys() >= {"chain_seconds", "jobs_per_second"}
    told = {name: report[name] for name in ("jobs", "completed", "effects", "duplicates", "lost", "killed")}
    assert told == {"jobs": 40, "completed": 40, "effects": 40, "duplicates": 0, "lost": 0, "killed": 1}


@pytest.mark.parametrize(
    "change",
    [{"completed": 9}, {"effects": 9, "lost": 1}, {"duplicates": 1}, {"exit_codes": (0, 1)}],
    ids=["incomplete", "lost", "doubled", "a bad end"],
)
def test_a_report_with_anything_wrong_is_not_right(change: dict[str, object]) -> None:
    """Goal: the demo cannot pass by accident. Method: a good report, and each fault in it."""
    good = {
        "jobs": 10,
        "completed": 10,
        "effects": 10,
        "duplicates": 0,
        "lost": 0,
        "killed": 1,
        "chain_seconds": 1,
        "jobs_per_second": 1,
        "exit_codes": (0,),
    }
    assert DemoReport(**good).is_right  # pyright: ignore[reportArgumentType]
    assert not DemoReport(**{**good, **change}).is_right  # pyright: ignore[reportArgumentType]


async def test_dev_prints_a_working_stack_and_ctrl_c_takes_it_away(tmp_path: Path) -> None:
    """Goal: a complete local stack. Method: start it, use the variables that it prints, interrupt it; the database is
    gone and no process of it is left."""
    out = tmp_path / "out"
    with out.open("wb") as stdout:
        process = await trio.lowlevel.open_process(
            [*COMMAND, "dev"], stdout=stdout, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        await until(lambda: "runs until Ctrl-C" in out.read_text(), seconds=60, what="the stack to be up")
        variables = dict(re.findall(r"export ([A-Z_]+)='([^']*)'", out.read_text()))
        async with (
            open_bridge(),
            Database.open(variables["DATABASE_URL"], pool_size=1, application_name="tests") as database,
            database.connection() as connection,
        ):
            assert await connection.fetchval("SELECT count(*) FROM tayho.transitions") > 0
    finally:
        process.send_signal(signal.SIGINT)
        with trio.move_on_after(20):
            await process.wait()
    assert process.returncode == 0, out.read_text()
    await until(lambda: not _alive(process.pid), seconds=10, what="its servers to be gone")


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
