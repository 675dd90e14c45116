"""Guards of jobs, their delivery and their attempts."""

from __future__ import annotations

from tests.guards.guard import Guard

_REVIVING = "tests/coordination/test_reviving.py"
_LIMITS = "tests/coordination/test_limits.py"
_PAUSES = "tests/coordination/test_control_pauses.py"
_OUTBOX = "sql/coordination/outbox.sql"

OF_COORDINATION_2 = (
    Guard(
        "a job with a limit key ages only from its publication",
        _OUTBOX,
        "greatest(jobs.run_at, due.limited_until)",
        "jobs.run_at",
        f"{_LIMITS}::test_the_backlog_of_a_flood_does_not_age_past_fresh_jobs",
    ),
    Guard(
        "a worker hears of pauses before its first fetch",
        "tayho/coordination/module.py",
        "            # Before the first fetch: what is paused now must not be taken first and put back after.\n"
        "            await once()\n",
        "            pass\n",
        f"{_PAUSES}::test_what_waits_in_the_queue_of_a_paused_role_stays_there",
    ),
    Guard(
        "a job that owns a nonce is not cancelled",
        "tayho/coordination/control/rules.py",
        "job.has_live_lineage or job.state",
        "job.state",
        "tests/coordination/test_control_jobs.py::"
        "test_a_job_that_owns_a_nonce_is_not_cancelled_and_a_cancelled_one_gets_none",
    ),
    Guard(
        "a job that owns a nonce is not revived beside it",
        "sql/coordination/revive.sql",
        "    WHERE NOT jobs.has_live_lineage AND jobs.cancel_requested_at IS NULL",
        "    WHERE jobs.cancel_requested_at IS NULL",
        f"{_REVIVING}::test_a_job_that_is_not_the_lineages_any_more_is_left_alone",
    ),
    Guard(
        "a revival reads after it has locked",
        "tayho/coordination/reviving.py",
        "    await lock_jobs(tx, [revival.job_id for revival in revivals])\n",
        "",
        f"{_REVIVING}::test_a_revival_that_waited_for_a_begin_leaves_no_attempt_running",
    ),
)
