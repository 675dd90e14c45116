"""A profile as a table that tells where the time of a worker goes."""

import cProfile
import pstats
import time
from pathlib import Path
from typing import Any, cast

ROWS = 40
_PARTS_SHOWN = 3


def new_profile() -> cProfile.Profile:
    """A profile of processor time, so that neither waiting nor a busy machine shows in it.

    What is built in counts for its caller: a profiled call of `isinstance` costs many times the call itself.
    """
    return cProfile.Profile(time.thread_time, builtins=False)


def profile_table(profile: cProfile.Profile) -> str:
    """The functions with the most time of their own, one a line. Being profiled slows calls down: read the shares."""
    stats = cast("Any", pstats.Stats(profile)).stats
    whole_seconds = sum(own for _, _, own, _, _ in stats.values())
    lines = [f"{'own s':>8} {'own %':>6} {'with callees s':>14} {'calls':>10}  function"]
    ranked = sorted(stats.items(), key=lambda entry: entry[1][2], reverse=True)[:ROWS]
    for (file, line, function), (_, calls, own, cumulative, _) in ranked:
        share = 100 * own / whole_seconds
        lines.append(f"{own:8.3f} {share:6.1f} {cumulative:14.3f} {calls:10d}  {_place(file, line)} {function}")
    return "\n".join(lines)


def _place(file: str, line: int) -> str:
    return f"{'/'.join(Path(file).parts[-_PARTS_SHOWN:])}:{line}"
