"""Fault injection for the crash suite: the process kills itself at a named step."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from tayho.kernel.steps import STEPS, on_step
from tayho.refusals import EnvironmentRefused

CRASH_AT = "TAYHO_CRASH_AT"


def arm_from(environ: Mapping[str, str], environment: str) -> None:
    """Arm `TAYHO_CRASH_AT=step[:n]`: SIGKILL at the n-th passing of that step. Refused in a live environment.

    Raises EnvironmentRefused.
    """
    asked = environ.get(CRASH_AT)
    if asked is None:
        return
    name, _, count = asked.partition(":")
    if environment == "live":
        raise EnvironmentRefused([f"{CRASH_AT} is set, and environment live takes no injected faults: unset it"])
    if name not in STEPS or not (count or "1").isdigit():
        raise EnvironmentRefused([f"{CRASH_AT}={asked!r}: expected step[:n] with one of {', '.join(sorted(STEPS))}"])
    remaining = int(count or "1")

    def die(step: str) -> None:
        nonlocal remaining
        if step == name:
            remaining -= 1
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    on_step(die)
