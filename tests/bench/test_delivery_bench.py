"""The delivery benchmark runs and tells what it promises to tell. Its figures are nobody's test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.delivery.parts import Figures, Part, in_turn
from tests.bench.delivery.report import document, medians
from tests.bench.delivery.services import Services
from tests.bench.delivery.sizes import Sizes

ROOT = Path(__file__).resolve().parents[2]
JOBS = 120
PACED = 50
PEERS = {"procrastinate", "bullmq_python", "bullmq_node", "graphile", "graphile_local_queue"}
TAYHO = {
    "enqueue_per_second",
    "enqueue_single_per_second",
    "enqueue_wal_bytes_per_job",
    "jobs_per_second",
    "jobs_per_second_at_16",
    "jobs_completed",
    "start_ms",
    "wal_bytes_per_job",
    "commits_per_job",
    "redis_round_trips_per_job",
    "dead_tuples",
    "cpu_seconds_per_1000_jobs",
}


@pytest.mark.services
def test_a_quick_run_counts_every_job_and_prints_one_document() -> None:
    """Goal: the figures can be had, by programs too, and only of finished work. Method: the quick size of tayho and one
    peer, as a person starts it; the shape of the last line, each figure positive, every job counted."""
    command = [sys.executable, "-m", "tests.bench", "delivery", "--json", "--quick", "--only", "tayho,bullmq_node"]
    ended = subprocess.run([*command, "--jobs", str(JOBS)], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found.keys() == {"tayho", "peers"}
    tayho, peers = found["tayho"], found["peers"]
    assert tayho.keys() == TAYHO
    assert tayho["jobs_completed"] == {"1": JOBS, "2": JOBS, "4": JOBS, "at_16": JOBS, "paced": PACED}
    assert tayho["jobs_per_second"].keys() == {"1", "2", "4"}
    assert tayho["start_ms"].keys() == {"p50", "p95", "p99"}
    flat = {**tayho, **tayho["jobs_per_second"], **tayho["start_ms"], **tayho["jobs_completed"]}
    assert all(value > 0 for value in flat.values() if not isinstance(value, dict))
    assert peers.keys() == PEERS
    assert peers.pop("bullmq_node") > 0
    assert set(peers.values()) == {None}
    assert "jobs_per_second at 16" in ended.stderr


def test_a_side_that_does_not_exist_is_refused() -> None:
    """Goal: a misspelt side is no empty table. Method: ask for one; the message names it."""
    command = [sys.executable, "-m", "tests.bench", "delivery", "--only", "nobody"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "no such side: nobody" in ended.stderr


async def _nothing(_services: Services, _sizes: Sizes) -> Figures:
    return {}


def test_no_side_is_always_the_later_one() -> None:
    """Goal: warm servers favour nobody. Method: two parts of ours, three of peers, three repeats."""
    ours = [Part("tayho", title, _nothing) for title in "ab"]
    peers = [Part("peer", title, _nothing) for title in "xyz"]
    orders = ["".join(part.title for part in in_turn(ours, peers, repeat)) for repeat in (0, 1, 2)]
    assert orders == ["axbyz", "zybxa", "axbyz"]


def test_a_peer_counts_with_its_best_concurrency_and_a_figure_with_its_median() -> None:
    """Goal: a peer is shown at its best, and one odd repeat decides nothing. Method: three repeats, put together."""
    slow, fast, ours = ("peers", "bullmq_python", "64"), ("peers", "bullmq_python", "16"), ("tayho", "start_ms", "p50")
    figures = medians([{slow: 500.0, fast: rate, ours: 3.0} for rate in (900.0, 700.0, 10.0)])
    found = document(figures)
    assert found["peers"]["bullmq_python"] == 700.0
    assert found["peers"]["graphile"] is None
    assert found["tayho"] == {"start_ms": {"p50": 3.0}}
