"""What holds in PostgreSQL at every moment, whatever happens (I6, I8, DLV-4, DLV-15). Usable while anything runs."""

from __future__ import annotations

from storage.database import Connection

# Each part finds what may not be there. $1 chain, $2 environment, $3 how far ahead a row may be due at most.
_BROKEN = """
WITH ours AS (SELECT * FROM coordination.jobs WHERE chain_id = $1 AND environment = $2)
SELECT 'I6: an attempt runs that is not its job''s current one' AS what, jobs.job_id, jobs.state
FROM ours AS jobs JOIN coordination.attempts AS attempts USING (job_id)
WHERE attempts.state = 'running'
    AND (jobs.state <> 'processing' OR jobs.attempt_number <> attempts.attempt_number
         OR jobs.attempt_token <> attempts.token OR jobs.attempt_worker_id <> attempts.worker_id)
UNION ALL
SELECT 'I6: a job is processed by no attempt', jobs.job_id, jobs.state
FROM ours AS jobs
WHERE jobs.state = 'processing' AND NOT EXISTS (
    SELECT FROM coordination.attempts AS attempts WHERE attempts.job_id = jobs.job_id AND attempts.state = 'running'
)
UNION ALL
SELECT 'I8: an open job is promised to nobody', jobs.job_id, jobs.state
FROM ours AS jobs
WHERE jobs.state IN ('queued', 'retry', 'processing')
    AND NOT EXISTS (SELECT FROM coordination.outbox AS outbox WHERE outbox.job_id = jobs.job_id)
UNION ALL
SELECT 'DLV-4: an open job is looked at too late', jobs.job_id, jobs.state
FROM ours AS jobs JOIN coordination.outbox AS outbox USING (job_id)
WHERE outbox.due_at > greatest(jobs.run_at, clock_timestamp()) + make_interval(secs => $3)
UNION ALL
SELECT 'DLV-12: an outbox row has outlived its job', jobs.job_id, jobs.state
FROM ours AS jobs JOIN coordination.outbox AS outbox USING (job_id)
WHERE jobs.state NOT IN ('queued', 'retry', 'processing')
UNION ALL
SELECT 'DLV-6: attempts are not numbered one by one', jobs.job_id, jobs.state
FROM ours AS jobs LEFT JOIN coordination.attempts AS attempts USING (job_id)
GROUP BY jobs.job_id, jobs.state, jobs.attempt_number
HAVING jobs.attempt_number <> count(attempts.attempt_number)
    OR jobs.attempt_number <> coalesce(max(attempts.attempt_number), 0)
UNION ALL
SELECT 'DLV-8: more of the budget is spent than attempts were made', jobs.job_id, jobs.state
FROM ours AS jobs LEFT JOIN coordination.attempts AS attempts USING (job_id)
GROUP BY jobs.job_id, jobs.state, jobs.attempts_spent
HAVING jobs.attempts_spent > count(attempts.attempt_number) FILTER (WHERE attempts.state <> 'returned')
UNION ALL
SELECT 'I6: a completed job has not exactly one completed attempt, with its result', jobs.job_id, jobs.state
FROM ours AS jobs LEFT JOIN coordination.attempts AS attempts
    ON attempts.job_id = jobs.job_id AND attempts.state = 'completed'
GROUP BY jobs.job_id, jobs.state, jobs.result
HAVING count(attempts.attempt_number) <> (jobs.state = 'completed')::int
    OR (jobs.state = 'completed' AND NOT bool_and(attempts.detail = jobs.result))
UNION ALL
SELECT 'DLV-15: more jobs of a key are in flight than its limit allows: ' || limits.limit_key, NULL, NULL
FROM coordination.limits AS limits
WHERE limits.chain_id = $1 AND limits.environment = $2 AND limits.concurrent_max < (
    SELECT count(*) FROM coordination.outbox AS outbox
    WHERE outbox.chain_id = $1 AND outbox.environment = $2 AND outbox.limit_key = limits.limit_key
        AND outbox.published_at IS NOT NULL
)
"""

# Where every open job stands: the published invariant of DLV-4. $4 is how late a publisher may be.
_STANDING = """
SELECT
    jobs.job_id, jobs.state,
    CASE
        WHEN jobs.run_at > now() THEN 'due in the future'
        WHEN jobs.state = 'processing' AND EXISTS (
            SELECT FROM coordination.attempts AS attempts
            JOIN coordination.workers AS workers USING (worker_id)
            WHERE attempts.job_id = jobs.job_id AND attempts.state = 'running' AND attempts.token = jobs.attempt_token
                AND workers.stopped_at IS NULL AND workers.heartbeat_at > now() - make_interval(secs => $3)
        ) THEN 'held by a live attempt'
        WHEN EXISTS (
            SELECT FROM coordination.pauses AS pauses
            WHERE pauses.chain_id = $1 AND pauses.environment = $2 AND pauses.role = jobs.role
                AND pauses.kind IN ('', jobs.kind)
        ) THEN 'held back by a pause'
        WHEN outbox.published_at IS NOT NULL AND outbox.due_at > now() - make_interval(secs => $3) THEN 'published'
        WHEN outbox.due_at > now() - make_interval(secs => $3) THEN 'due now'
        WHEN outbox.limit_key IS NOT NULL AND outbox.published_at IS NULL AND EXISTS (
            SELECT FROM coordination.outbox AS ahead
            WHERE ahead.chain_id = $1 AND ahead.environment = $2 AND ahead.limit_key = outbox.limit_key
                AND ahead.published_at IS NOT NULL
        ) THEN 'held back by a limit'
        ELSE 'nowhere'
    END AS standing
FROM coordination.jobs AS jobs
LEFT JOIN coordination.outbox AS outbox USING (job_id)
WHERE jobs.chain_id = $1 AND jobs.environment = $2 AND jobs.state IN ('queued', 'retry', 'processing')
"""


async def check_always(connection: Connection, chain_id: int, environment: str, *, due_seconds_max: float) -> None:
    """Fail with every row that breaks what holds at every moment."""
    rows = await connection.fetch(_BROKEN, chain_id, environment, due_seconds_max)
    assert not rows, "\n".join(f"{row['what']}: job {row['job_id']}, {row['state']}" for row in rows)


async def check_published(connection: Connection, chain_id: int, environment: str, *, late_seconds_max: float) -> None:
    """Fail with every open job that stands nowhere although a publisher runs (DLV-4)."""
    rows = await connection.fetch(_STANDING, chain_id, environment, late_seconds_max)
    lost = [row for row in rows if row["standing"] == "nowhere"]
    assert not lost, f"DLV-4: open jobs that nobody will deliver: {[(row['job_id'], row['state']) for row in lost]}"
