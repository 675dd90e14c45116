"""The recovery benchmark runs and tells what it promises to tell. Its figures are nobody's test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.services
def test_a_quick_run_recovers_everything_and_prints_one_document() -> None:
    """Goal: must-show 7 can be had by programs too, and only of work that took effect once. Method: the quick size, as
    a person starts it: all was sent again, then final, nothing lost or doubled."""
    command = [sys.executable, "-m", "tests.bench", "recovery", "--json", "--quick"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["lineages"] == found["rebroadcast"] == found["completed"] == 24
    assert (found["duplicates"], found["lost"]) == (0, 0)
    times = ("first_worker_seconds", "first_rebroadcast_seconds", "last_rebroadcast_seconds", "all_final_seconds")
    assert 0 < found[times[1]] <= found[times[2]] < found[times[3]]
    assert found[times[0]] > 0
