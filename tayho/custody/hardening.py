"""Keeping a signing process's memory out of core dumps and other processes' reach."""

from __future__ import annotations

import ctypes
import resource
import sys

from attrs import frozen

_PR_SET_DUMPABLE = 4  # prctl(2)
_NOT_DUMPABLE = 0


@frozen
class Hardening:
    """What was applied. A False is worth a warning at start, not a refusal: containers forbid some of it."""

    core_dumps_off: bool
    not_dumpable: bool


def harden_process() -> Hardening:
    """Set RLIMIT_CORE to zero and, on Linux, PR_SET_DUMPABLE to zero. Call it before keys are read.

    The limit stops core files; only the second stops dumps piped to a handler, and another process of the same user
    reading memory or environment through ptrace and /proc. Root is stopped by neither. Children inherit the limit but
    become dumpable again when they exec.
    """
    return Hardening(core_dumps_off=_forbid_core_dumps(), not_dumpable=_forbid_dumping())


def _forbid_core_dumps() -> bool:
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (OSError, ValueError):
        return False
    return True


def _forbid_dumping() -> bool:
    if sys.platform != "linux":
        return False
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return prctl(_PR_SET_DUMPABLE, _NOT_DUMPABLE, 0, 0, 0) == 0
