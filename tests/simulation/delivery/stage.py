"""What the jobs of a simulation do, and what is counted of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from uuid import UUID

import trio
from attrs import define, field

from tayho.kernel.jobs import Attempt, Completed, Job, NotActionable, Outcome, Postponed, RequestRefused

# How a job of each behaviour may end that nobody cancelled and whose workers did not die too often.
ENDS = {
    "complete": "completed",
    "slow": "completed",
    "fail": "completed",
    "postpone": "completed",
    "raise": "dead",
    "unstorable": "dead",
    "not_actionable": "not_actionable",
    "refuse": "quarantined",
}


@define
class Stage:
    """Shared by the handlers of all replicas, like the world outside of the processes."""

    # The tokens under which each job ran, in order.
    runs: defaultdict[UUID, list[str]] = field(factory=lambda: defaultdict(list))
    effects: Counter[UUID] = field(factory=Counter)
    is_open_for_good: bool = False
    _gate: trio.Event = field(factory=trio.Event)

    def release(self) -> None:
        """Let the slow handlers that wait now go on."""
        self._gate.set()
        if not self.is_open_for_good:
            self._gate = trio.Event()

    def open_for_good(self) -> None:
        self.is_open_for_good = True
        self.release()

    async def handle(self, job: Job, attempt: Attempt) -> Outcome:
        """The one handler: it does as the job's request says."""
        behaviour, _, times = str(job.request["do"]).partition(":")
        runs_before = len(self.runs[job.job_id])
        self.runs[job.job_id].append(attempt.token)
        if behaviour == "slow" and not self.is_open_for_good:
            await self._gate.wait()
        else:
            await trio.lowlevel.checkpoint()
        match behaviour:
            case "raise":
                raise ZeroDivisionError("as it always does")
            case "fail" if runs_before < int(times):
                raise ZeroDivisionError("not yet")
            case "postpone" if runs_before < int(times):
                return Postponed("not yet", 0)
            case "not_actionable":
                return NotActionable("nothing to do")
            case "refuse":
                raise RequestRefused("never")
            case "unstorable":
                return Completed("a\x00b")
            case _:
                self.effects[job.job_id] += 1
                return Completed({"run": attempt.token})
