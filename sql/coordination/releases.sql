-- name: release_lineages
-- The lineages of these jobs ended unsigned and without their doing: they try again at another nonce. A running attempt is
-- fenced off, and is not counted. Needs `lock_jobs` before it, in the same transaction, as `settle` does.
WITH open_ones AS (
    SELECT jobs.job_id, jobs.state = 'processing' AS was_running
    FROM coordination.jobs AS jobs
    WHERE jobs.job_id = ANY ($1::uuid[]) AND jobs.has_live_lineage AND jobs.state IN ('processing', 'retry')
    ORDER BY jobs.job_id
    FOR UPDATE
),
changed AS (
    UPDATE coordination.jobs AS jobs
    SET state = 'retry', has_live_lineage = false, attempt_token = NULL, attempt_worker_id = NULL,
        attempts_spent = jobs.attempts_spent - open_ones.was_running::int, updated_at = clock_timestamp()
    FROM open_ones
    WHERE jobs.job_id = open_ones.job_id
    RETURNING jobs.job_id, jobs.attempt_number
),
fenced AS (
    UPDATE coordination.attempts AS attempts
    SET state = 'returned', ended_at = clock_timestamp(), detail = jsonb_build_object('reason', $2::text)
    FROM changed
    WHERE attempts.job_id = changed.job_id AND attempts.attempt_number = changed.attempt_number
        AND attempts.ended_at IS NULL
)
SELECT changed.job_id FROM changed;

-- name: let_go_of_lineage_if_current
-- The attempt goes on without the nonce that it had: it was given up unsigned in this transaction.
WITH current_ones AS (
    SELECT jobs.job_id
    FROM unnest($1::uuid[], $2::int[], $3::text[], $4::uuid[]) AS asked (job_id, attempt_number, token, worker_id)
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE jobs.state = 'processing' AND jobs.attempt_number = asked.attempt_number
        AND jobs.attempt_token = asked.token AND jobs.attempt_worker_id = asked.worker_id
        AND jobs.has_live_lineage
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
)
UPDATE coordination.jobs AS jobs SET has_live_lineage = false, updated_at = clock_timestamp()
FROM current_ones
WHERE jobs.job_id = current_ones.job_id
RETURNING jobs.job_id;
