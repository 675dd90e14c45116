"""The chain benchmark runs and tells what it promises to tell. Its figures are nobody's test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.chain.processors import bound
from tests.bench.chain.report import document
from tests.bench.chain.sizes import Sizes

ROOT = Path(__file__).resolve().parents[2]
RATES = {"sent", "final"}
COSTS = {"submit_to_broadcast_ms", "rpc_round_trips", "commits", "cpu_milliseconds", "cores"}


@pytest.mark.services
def test_a_quick_run_measures_each_side_and_prints_one_document() -> None:
    """Goal: the figures can be had, by programs too, and only of work that took effect once. Method: the quick size of
    the limit, one peer and tayho, as a person starts it; the shape of the last line, each figure positive."""
    command = [sys.executable, "-m", "tests.bench", "chain", "--json", "--quick", "--only"]
    ended = subprocess.run(
        [*command, "limit_presigned,viem_batch,tayho"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found.keys() == {"limit_presigned", "tayho", "peers"}
    assert found["tayho"].keys() == {"lanes_2_replicas_1"}
    ours = found["tayho"]["lanes_2_replicas_1"]
    assert ours.keys() == RATES | COSTS
    assert ours["submit_to_broadcast_ms"].keys() == {"p50", "p99"}
    assert found["limit_presigned"].keys() == found["peers"]["viem_batch"].keys() == RATES
    assert found["peers"]["viem"] is None
    assert found["peers"]["web3py"] is None
    assert {"replicas", "postgresql", "node"} <= ours["cores"].keys()
    assert "lanes_2_replicas_1: bounded by" in ended.stderr
    flat = {**ours.pop("submit_to_broadcast_ms"), **ours.pop("cores"), **ours}
    # So short a run may end before the first of its transactions is final.
    assert all(value > 0 for name, value in flat.items() if name != "final")
    assert all(value > 0 for value in found["limit_presigned"].values())
    assert "SIGNER_LANE_DEPTH" in ended.stderr


def test_a_side_that_does_not_exist_is_refused() -> None:
    """Goal: a misspelt side is no empty table. Method: ask for one; the message names it."""
    command = [sys.executable, "-m", "tests.bench", "chain", "--only", "nobody"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "no such side: nobody" in ended.stderr


def test_a_side_that_was_left_out_is_null() -> None:
    """Goal: whoever reads the document finds every side. Method: figures of one configuration alone."""
    found = document(
        {("tayho", "lanes_16_replicas_2", "sent"): 1234.56, ("tayho", "lanes_16_replicas_2", "final"): 9.8}
    )
    assert found["tayho"] == {"lanes_16_replicas_2": {"sent": 1234.6, "final": 9.8}}
    assert found["limit_presigned"] is None
    assert found["peers"] == {"viem_batch": None, "viem": None, "web3py": None}


@pytest.mark.parametrize(
    ("cores", "replicas", "what"),
    [
        ({"replicas": 0.97, "postgresql": 0.6, "node": 0.4}, 1, "one Python process"),
        ({"replicas": 1.8, "postgresql": 0.1}, 2, "each replica's processor"),
        ({"replicas": 0.7, "postgresql": 0.7, "node": 0.5}, 1, "the machine's 2 processors"),
        ({"replicas": 0.3, "postgresql": 0.2, "node": 0.1}, 1, "no processor of this run"),
    ],
)
def test_a_run_says_what_bounds_it(cores: dict[str, float], replicas: int, what: str) -> None:
    """Goal: a figure comes with its reason. Method: one example of each."""
    assert what in bound(cores, replicas, processors=2)


def test_the_lane_depth_is_one_that_the_product_takes() -> None:
    """Goal: no replica is refused for the benchmark's setting. Method: every number of lanes of a full run."""
    assert Sizes().depth == {1: 1_000, 2: 1_000, 4: 1_000, 16: 256}
