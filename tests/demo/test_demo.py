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
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from nursery.asyncio_bridge import open_bridge
from rpc.values import Log
from storage.database import Database
from tayho.demo.counting import ChainTally
from tayho.demo.figures import percentile
from tayho.demo.types import DemoReport, Figures, Wishes
from tayho.demo.wishing import wishes_of
from tayho.kernel.address import Address
from tayho.kernel.roles import ROLES
from tayho.protocol import abi
from tayho.protocol.artifacts import load
from tests.waiting import until

PROTOCOL_ADDRESS, EXECUTOR_ADDRESS = Address(b"\x01" * 20), Address(b"\x02" * 20)

COMMAND = [sys.executable, "-m", "tayho"]


@pytest.mark.crash
@pytest.mark.services
async def test_the_demo_kills_a_relayer_and_counts_every_intent_once() -> None:
    """Goal: must-show 1 in small. Method: run it as a process; the last line of stdout is the report, whose figures are
    counted on the chain. One process of each role, but two engines and two relayers: a test's world is small."""
    ended = await trio.run_process(
        [*COMMAND, "demo", "--intents", "40", "--replicas", "1", "--kill", "--json"],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()[-2000:]
    report = json.loads(ended.stdout.decode().splitlines()[-1])
    told = {name: report[name] for name in ("accepted", "completed", "quarantined", "duplicates", "lost", "killed")}
    assert told == {"accepted": 40, "completed": 39, "quarantined": 1, "duplicates": 0, "lost": 0, "killed": 1}
    assert (report["orders"], report["claims"]) == (37, 2)
    assert report["batches"] >= 1
    assert 0 < report["accept_to_final_ms_p50"] <= report["accept_to_final_ms_p99"]
    assert report["roles"].keys() == {name for name, role in ROLES.items() if role.signs}
    assert all(count > 0 for count in report["roles"].values())


FIGURES = Figures(
    accepted=10,
    completed=9,
    quarantined=1,
    batches=2,
    children_per_batch_mean=4.5,
    children_per_batch_max=5,
    accept_to_final_ms_p50=4_000,
    accept_to_final_ms_p99=5_000,
    orders=8,
    claims=1,
    duplicates=0,
    lost=0,
    roles={"relayer": 9, "payouts": 1},
    dead=0,
)
REPORT = DemoReport(
    wishes=Wishes(orders=7, orders_due=1, claims=1, hopeless=1),
    wanted={"relayer": 9, "payouts": 1},
    figures=FIGURES,
    killed=0,
    seconds=9.0,
    exit_codes=(0, 0),
)


@pytest.mark.parametrize(
    "fault",
    [
        evolve(REPORT, figures=evolve(FIGURES, accepted=9)),
        evolve(REPORT, figures=evolve(FIGURES, completed=8)),
        evolve(REPORT, figures=evolve(FIGURES, orders=9)),
        evolve(REPORT, figures=evolve(FIGURES, orders=9, claims=0)),
        evolve(REPORT, figures=evolve(FIGURES, quarantined=0)),
        evolve(REPORT, figures=evolve(FIGURES, duplicates=1)),
        evolve(REPORT, figures=evolve(FIGURES, lost=1)),
        evolve(REPORT, figures=evolve(FIGURES, dead=1)),
        evolve(REPORT, figures=evolve(FIGURES, roles={"relayer": 9})),
        evolve(REPORT, exit_codes=(0, 1)),
    ],
    ids=[
        "unheard",
        "incomplete",
        "an order more",
        "another sort",
        "carried",
        "doubled",
        "lost",
        "dead",
        "idle",
        "bad end",
    ],
)
def test_a_report_with_anything_wrong_is_not_right(fault: DemoReport) -> None:
    """Goal: the demo cannot pass by accident. Method: a good report, and each fault in it."""
    assert REPORT.is_right
    assert not fault.is_right


def test_effects_are_counted_by_what_the_chain_says_of_each_intent() -> None:
    """Goal: a second execution, a stranger's and a missing one are each seen. Method: logs of two intents, one of
    which is executed twice, and of one that nobody asked for."""
    tally = ChainTally(PROTOCOL_ADDRESS, EXECUTOR_ADDRESS)
    for number in (1, 1, 9):
        tally.count(_executed(bytes([number]) * 32))
    digests = [bytes([number]) * 32 for number in (1, 2)]
    assert (tally.duplicates(digests), tally.missing(digests), tally.roles["relayer"]) == (2, 1, 3)


@given(count=st.integers(4, 2_000))
def test_the_wishes_are_as_many_as_the_intents(count: int) -> None:
    """Goal: the report's sums hold for every size. Method: any count; no sort of wish is missing."""
    wishes = wishes_of(count)
    assert wishes.executed + wishes.hopeless == count
    assert min(wishes.orders, wishes.orders_due, wishes.claims, wishes.hopeless) >= 1


def test_a_percentile_is_one_of_the_values() -> None:
    """Goal: p99 of few is the greatest, p50 the middle one. Method: a hundred values, one, none."""
    hundred = range(1, 101)
    assert (percentile(hundred, 50), percentile(hundred, 99)) == (50, 99)
    assert (percentile([7], 50), percentile([7], 99), percentile([], 99)) == (7, 7, 0)


@pytest.mark.crash
@pytest.mark.services
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


def _executed(digest: bytes) -> Log:
    """The protocol's log of an execution."""
    topics = (abi.event_topic(load("Protocol"), "IntentExecuted"), digest, bytes(32))
    return Log(PROTOCOL_ADDRESS.value, topics, bytes(32), 0, False, bytes(32), 0, bytes(32), 1)
