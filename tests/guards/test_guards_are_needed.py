"""A test that passes without its guard guards nothing (PRF-4)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guards.guard import Guard
from tests.guards.table import GUARDS

ROOT = Path(__file__).parents[2]
COPIED = ("nursery", "storage", "rpc", "sql", "tayho", "tests")
LINKED = (".venv", "tools")
SECONDS_MAX = 240
# pytest's exit code when tests ran and failed; every other code says that they did not run as they should.
TESTS_FAILED = 1


@pytest.mark.services
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name.replace(" ", "_"))
def test_its_test_fails_without_the_guard(guard: Guard, tmp_path: Path) -> None:
    """Goal: each listed guard is attacked by a test that needs it. Method: take the guard away in a copy of the tree,
    run its test there, and see it fail."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    file = tmp_path / guard.file
    text = file.read_text()
    assert text.count(guard.text) == 1, (
        f"the guard stands {text.count(guard.text)} times in {guard.file}: mend the table"
    )
    file.write_text(text.replace(guard.text, guard.without))

    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", guard.test]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert ran.returncode == TESTS_FAILED, (
        f"without the guard, {guard.test} ended {ran.returncode}:\n{ran.stdout[-3000:]}"
    )
    assert "FAILED" in ran.stdout, ran.stdout[-3000:]
