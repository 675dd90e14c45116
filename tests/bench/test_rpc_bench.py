"""The read benchmark runs and tells what it promises to tell. Its figures are nobody's test."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LATENCY = {"p50_ms", "p99_ms", "max_ms", "failed", "reads", "extra_requests_share"}


def test_a_quick_run_measures_each_scenario_and_prints_one_document() -> None:
    """Goal: the figures can be had, by programs too. Method: the quick size, as a person starts it, of tayho, one peer
    and the throughput; the shape of the last line, every read answered, and what is a ratio of what."""
    command = [
        sys.executable,
        "-m",
        "tests.bench",
        "rpc",
        "--json",
        "--quick",
        "--only",
        "tayho,viem_fallback,throughput",
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found.keys() == {"tayho", "viem_fallback", "throughput", "receipts"}
    for side in ("tayho", "viem_fallback"):
        assert found[side].keys() == {"healthy", "hung", "slow"}
        assert found[side]["healthy"].keys() == LATENCY
        for scenario in ("hung", "slow"):
            assert found[side][scenario].keys() == LATENCY | {"p99_to_healthy"}
    assert all(found["tayho"][scenario]["failed"] == 0 for scenario in found["tayho"])
    assert all(found["tayho"][scenario]["reads"] == 60 for scenario in found["tayho"])
    assert found["throughput"].keys() == {
        "bare_per_second",
        "pool_per_second",
        "pool_to_bare",
        "bare_processor_us",
        "pool_processor_us",
    }
    assert found["receipts"]["batched_to_single"] > 0


def test_a_part_that_does_not_exist_is_refused() -> None:
    """Goal: a misspelt part is no empty table. Method: ask for one; the message names it."""
    command = [sys.executable, "-m", "tests.bench", "rpc", "--only", "nobody"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "no such part: nobody" in ended.stderr
