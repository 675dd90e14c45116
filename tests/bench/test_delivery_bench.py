"""The delivery benchmark runs and tells what it promises to tell. Its figures are nobody's test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.services

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


def test_a_quick_run_counts_every_job_and_prints_one_document() -> None:
    """Goal: the figures can be had, by programs too, and only of finished work. Method: the quick size of tayho and one
    peer, as a person starts it; the shape of the last line, each figure positive, every job counted."""
    command = [sys.executable, "-m", "tests.bench", "delivery", "--json", "--quick", "--only", "tayho,bullmq_node"]
    ended = subprocess.run([*command, "--jobs", str(JOBS)], cwd=ROOT, capture_output=True, text=True, timeout=120)
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
