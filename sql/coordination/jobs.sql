-- name: enqueue
-- The job and its outbox row in one statement (DLV-1). A key that is taken inserts nothing: the caller reads it back
-- with `find_by_key`, in a statement of its own, because this one's snapshot may be older than the winner's commit.
WITH asked AS (
    SELECT a.*
    FROM unnest(
        $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::timestamptz[], $10::text[],
        $11::text[]
    ) AS a (job_id, idempotency_key, role, kind, request, priority, run_at, limit_key, tags)
),
recorded AS (
    INSERT INTO coordination.jobs
        (
            job_id, chain_id, environment, idempotency_key, request_digest, role, kind, request, priority, run_at,
            limit_key, tags, state
        )
    SELECT
        asked.job_id, $1, $2, asked.idempotency_key,
        sha256(convert_to(asked.kind || E'\n' || asked.request::jsonb::text, 'UTF8')),
        asked.role, asked.kind, asked.request::jsonb, asked.priority,
        -- What is due in the past is due now: an old date buys no place before the others.
        greatest(asked.run_at, clock_timestamp()), asked.limit_key, asked.tags::text[], 'queued'
    FROM asked
    ORDER BY asked.idempotency_key
    ON CONFLICT (chain_id, environment, idempotency_key) DO NOTHING
    RETURNING job_id, idempotency_key, priority, run_at, limit_key, state
),
promised AS (
    INSERT INTO coordination.outbox (job_id, chain_id, environment, due_at, limit_key, rank_at)
    SELECT
        recorded.job_id, $1, $2, recorded.run_at, recorded.limit_key,
        -- A minute of waiting halves a priority number.
        recorded.run_at + make_interval(secs => 60 * log(recorded.priority::float8) / log(2::float8))
    FROM recorded
)
SELECT
    recorded.idempotency_key, recorded.job_id, recorded.state,
    -- Delivered when the caller commits; many in one transaction are one.
    CASE WHEN $12::boolean THEN pg_notify('tayho_outbox', '') END AS woken
FROM recorded;

-- name: mark_batch
-- A batch that meets a conflict leaves the caller's transaction as it was before.
SAVEPOINT tayho_batch;

-- name: forget_batch
ROLLBACK TO SAVEPOINT tayho_batch;

-- name: keep_batch
RELEASE SAVEPOINT tayho_batch;

-- name: find_by_key
SELECT
    asked.idempotency_key, jobs.job_id, jobs.state, jobs.request_digest AS recorded_digest,
    sha256(convert_to(asked.kind || E'\n' || asked.request::jsonb::text, 'UTF8')) AS asked_digest
FROM unnest($3::text[], $4::text[], $5::text[]) AS asked (idempotency_key, kind, request)
JOIN coordination.jobs AS jobs
    ON jobs.chain_id = $1 AND jobs.environment = $2 AND jobs.idempotency_key = asked.idempotency_key;

-- name: inspect^
SELECT
    jobs.*,
    outbox.due_at AS outbox_due_at,
    outbox.published_at AS outbox_published_at
FROM coordination.jobs AS jobs
LEFT JOIN coordination.outbox AS outbox USING (job_id)
WHERE jobs.job_id = $1;

-- name: jobs_by_id
SELECT
    jobs.job_id, jobs.chain_id, jobs.environment, jobs.role, jobs.kind, jobs.idempotency_key, jobs.request,
    jobs.generation, jobs.has_live_lineage, jobs.created_at
FROM coordination.jobs AS jobs
WHERE jobs.job_id = ANY ($1::uuid[]);

-- name: progress
-- How far each has come, for those who wait for it.
SELECT jobs.job_id, jobs.state, jobs.result, jobs.last_error, jobs.updated_at
FROM coordination.jobs AS jobs
WHERE jobs.chain_id = $1 AND jobs.environment = $2 AND jobs.job_id = ANY ($3::uuid[]);

-- name: attempts_of_job
SELECT
    attempts.attempt_number, attempts.generation, attempts.state, attempts.started_at, attempts.ended_at,
    attempts.detail, attempts.worker_id, coalesce(workers.instance_id, attempts.worker_id::text) AS instance_id
FROM coordination.attempts AS attempts
LEFT JOIN coordination.workers AS workers USING (worker_id)
WHERE attempts.job_id = $1
ORDER BY attempts.attempt_number;

-- name: list_recent
SELECT
    job_id, role, kind, idempotency_key, state, attempt_number, attempts_spent, has_live_lineage, run_at, created_at,
    updated_at, last_error
FROM coordination.jobs
WHERE chain_id = $1 AND environment = $2 AND ($3::text IS NULL OR state = $3) AND ($4::text IS NULL OR role = $4)
ORDER BY job_id DESC
LIMIT $5;

-- name: count_by_state
SELECT state, count(*) AS jobs FROM coordination.jobs
WHERE chain_id = $1 AND environment = $2
GROUP BY state;

-- name: count_by_kind
SELECT kind, state, count(*) AS jobs FROM coordination.jobs
WHERE chain_id = $1 AND environment = $2
GROUP BY kind, state;
