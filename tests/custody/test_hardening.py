"""What a process does before it reads a key."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, resource
from tayho.custody.module import harden_process
applied = harden_process()
again = harden_process()
dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
limits = resource.getrlimit(resource.RLIMIT_CORE)
print(applied.core_dumps_off, applied.not_dumpable, again == applied, *limits, dumpable)
"""
FORBIDDEN = """
import resource
from tayho.custody import hardening
def refuse(*_):
    raise ValueError("not allowed")
resource.setrlimit = refuse
hardening.sys.platform = "other"
print(hardening.harden_process())
"""


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_DUMPABLE is Linux's")
def test_a_hardened_process_leaves_no_core() -> None:
    """Goal: keys do not reach a dump. Method: harden a child of our own; ask the kernel for limit and flag."""
    assert run(PROGRAM) == "True True True 0 0 0"


def test_what_could_not_be_applied_is_told() -> None:
    """Goal: a forbidden measure is reported, not assumed. Method: a child in which both are impossible."""
    assert run(FORBIDDEN) == "Hardening(core_dumps_off=False, not_dumpable=False)"
