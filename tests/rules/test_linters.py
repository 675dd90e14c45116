"""The ready-made linters, as configured here, catch what is planted against them (ARC-6, ARC-8, ARC-7)."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.lint_migrations import squawk

ROOT = Path(__file__).resolve().parents[2]
PLANTED = ROOT / "tests" / "planted"
ASYNC_CODE = PLANTED / "ARC-8" / "linters" / "swallows_and_blocks.py"
# Given from standard input under a name in the product, since the planted folder itself is excluded.
PRETENDED = "storage/planted.py"


def marks_in(path: Path) -> set[tuple[int, str]]:
    """The line and code of each violation that a planted file marks."""
    return {
        (number, code)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for code in re.findall(r"[\w-]+", line.partition("breaks ")[2])
    }


@pytest.fixture(scope="module")
def by_ruff() -> set[tuple[int, str]]:
    """What ruff finds in the planted async code, under our settings."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "json", "--stdin-filename", PRETENDED, "-"]
    ran = subprocess.run(command, cwd=ROOT, input=ASYNC_CODE.read_text(), capture_output=True, text=True)
    return {(finding["location"]["row"], finding["code"]) for finding in json.loads(ran.stdout)}


@pytest.fixture(scope="module")
def by_flake8() -> set[tuple[int, str]]:
    """What flake8-async finds there, under our settings."""
    command = [sys.executable, "-m", "flake8", "--stdin-display-name", PRETENDED, "-"]
    ran = subprocess.run(command, cwd=ROOT, input=ASYNC_CODE.read_text(), capture_output=True, text=True)
    return {(int(line), code) for line, code in re.findall(r":(\d+):\d+: (\w+) ", ran.stdout)}


def test_async_code_that_swallows_or_blocks_is_caught(
    by_ruff: set[tuple[int, str]], by_flake8: set[tuple[int, str]]
) -> None:
    """Goal: our settings of ruff and flake8-async keep catching it. Method: their findings are exactly the marks."""
    watched = re.compile(r"ASYNC|BLE|E722|S1|S6|SIM105|PTH")
    assert {(line, code) for line, code in by_ruff | by_flake8 if watched.match(code)} == marks_in(ASYNC_CODE)


def test_flake8_async_says_what_ruff_does_not(by_ruff: set[tuple[int, str]], by_flake8: set[tuple[int, str]]) -> None:
    """Goal: the second linter earns its time. Method: some marked violations are in its findings alone."""
    assert {code for _, code in by_flake8 - by_ruff} >= {"ASYNC103", "ASYNC900"}


def test_a_migration_that_destroys_or_blocks_is_caught() -> None:
    """Goal: squawk, as configured, refuses each. Method: every marked line is among its findings, and the run fails."""
    folder = PLANTED / "ARC-6" / "squawk" / "violation"
    said = squawk(folder, "--reporter", "json")
    found = {(finding["line"] + 1, finding["rule_name"]) for finding in json.loads(said.stdout)}
    assert said.returncode != 0
    assert marks_in(folder / "0009_careless.sql") <= found


def test_a_migration_that_only_adds_passes_and_a_contract_is_let_through() -> None:
    """Goal: fresh tables need no ceremony, and a marked contract may destroy. Method: a clean folder of both passes."""
    said = squawk(PLANTED / "ARC-6" / "squawk" / "clean")
    assert said.returncode == 0, said.stdout


def test_the_migrations_pass() -> None:
    """Goal: no migration blocks a running version. Method: lint those of the product."""
    said = squawk(ROOT / "sql" / "migrations")
    assert said.returncode == 0, said.stdout
