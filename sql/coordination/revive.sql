-- name: permit_revival!
-- The database lets an ended job go on only inside this named operation (DLV-7).
SELECT set_config('tayho.operation', 'revive', true);

-- name: revive
-- The chain took back what ended the job (TX-6): its lineage lives again, and so does the job, in the same transaction.
-- A job that an operator replayed meanwhile and that owns no nonce yet takes the old lineage up instead of a second one;
-- who owns another already, whom an operator wants ended, who ended for a reason of its own, and a batch whose children went
-- elsewhere meanwhile is left alone. Needs
-- `lock_jobs` before it: its snapshot must be younger than whatever it waited for.
WITH asked AS (
    SELECT * FROM unnest($1::uuid[], $2::jsonb[]) AS a (job_id, detail)
),
without_lineage AS (
    SELECT jobs.job_id, jobs.attempt_number, asked.detail
    FROM asked
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE NOT jobs.has_live_lineage AND jobs.cancel_requested_at IS NULL AND jobs.archived_at IS NULL
        AND jobs.state IN ('completed', 'dead', 'queued', 'retry', 'processing')
        AND (
            jobs.batch_children IS NULL
            OR jobs.batch_children = (
                SELECT count(*) FROM coordination.jobs AS children
                WHERE children.batch_job_id = jobs.job_id AND children.archived_at IS NULL
            )
        )
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
),
revived AS (
    UPDATE coordination.jobs AS jobs
    SET state = 'retry', has_live_lineage = true, attempt_token = NULL, attempt_worker_id = NULL,
        generation = jobs.generation + 1, attempts_spent = 0, run_at = clock_timestamp(),
        result = NULL, last_error = without_lineage.detail, ended_at = NULL, updated_at = clock_timestamp()
    FROM without_lineage
    WHERE jobs.job_id = without_lineage.job_id
    RETURNING jobs.job_id, jobs.chain_id, jobs.environment, jobs.run_at, jobs.priority, jobs.limit_key
),
fenced AS (
    UPDATE coordination.attempts AS attempts
    SET state = 'lost', ended_at = clock_timestamp(),
        detail = '{"reason": "a reorganisation gave the job its earlier transaction back"}'
    FROM without_lineage
    WHERE attempts.job_id = without_lineage.job_id AND attempts.attempt_number = without_lineage.attempt_number
        AND attempts.ended_at IS NULL
),
promised AS (
    INSERT INTO coordination.outbox AS outbox (job_id, chain_id, environment, due_at, limit_key, rank_at)
    SELECT
        revived.job_id, revived.chain_id, revived.environment, revived.run_at, revived.limit_key,
        -- As at the enqueue: a minute of waiting halves a priority number.
        revived.run_at + make_interval(secs => 60 * log(revived.priority::float8) / log(2::float8))
    FROM revived
    ORDER BY revived.job_id
    ON CONFLICT (job_id) DO UPDATE SET due_at = excluded.due_at, published_at = NULL
)
SELECT revived.job_id FROM revived;
