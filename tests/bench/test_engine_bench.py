"""The benchmark of the engine runs and tells what it promises to tell. Its figures are nobody's test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.services
def test_a_quick_run_measures_both_sides_and_prints_one_document() -> None:
    """Goal: the figures can be had, by programs too. Method: the quick size, as a person starts it; the shape of the
    last line; a client over its budget put no statement to PostgreSQL."""
    command = [sys.executable, "-m", "tests.bench", "engine", "--json", "--quick"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found.keys() == {
        *("accepted_per_second", "accepted_to_bare", "known_per_second", "statuses_per_second", "statuses_to_bare"),
        *("bare_posts_per_second", "bare_gets_per_second", "limited_per_second", "limited_statements"),
        *("gas_alone", "gas_one_of_32"),
    }
    assert found["limited_statements"] == 0
    assert found["gas_one_of_32"] < found["gas_alone"]
    assert min(found[name] for name in found.keys() - {"limited_statements"}) > 0
