"""A kind without a chain, plugged into replicas: what is asked is delivery alone."""

from __future__ import annotations

from pathlib import Path

from tests.services.plug_in import plug_in

_SOURCE = '''
import time
from pathlib import Path

import trio

from tayho.kinds import Completed


def is_first(job, folder):
    """Whether this attempt is the job's first, by the file that it leaves behind."""
    try:
        (folder / f"{job.idempotency_key}.begun").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Work:
    name, role = "planted.work", "automation"

    async def run(self, job, reads):
        do, folder = job.request.get("do", "complete"), Path(job.request.get("folder", "."))
        if do == "complete" or not is_first(job, folder):
            return Completed("done")
        if do == "fail_once":
            raise ZeroDivisionError("not yet")
        released = folder / f"{job.idempotency_key}.released"
        while not released.exists():
            if do == "block_first":
                time.sleep(0.01)
            else:
                await trio.sleep(0.01)
        return Completed("done by the first")
'''


def planted(folder: Path) -> str:
    """Write the kind below the folder; what PYTHONPATH takes."""
    home = folder / "planted"
    home.mkdir()
    return plug_in(home, _SOURCE, "Work")
