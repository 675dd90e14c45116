-- name: lock_for_control
-- What an operator wants changed, held until the transaction ends, and what decides whether it may be.
SELECT
    jobs.job_id, jobs.state, jobs.has_live_lineage, jobs.archived_at IS NOT NULL AS is_archived,
    jobs.last_error ->> 'type' AS error_type, jobs.batch_job_id,
    coalesce(jobs.batch_children, 0) - (
        SELECT count(*) FROM coordination.jobs AS children
        WHERE children.batch_job_id = jobs.job_id AND children.state = 'dead' AND children.archived_at IS NULL
    ) AS children_missing
FROM coordination.jobs AS jobs
WHERE jobs.chain_id = $1 AND jobs.environment = $2 AND jobs.job_id = ANY ($3::uuid[])
ORDER BY jobs.job_id
FOR UPDATE OF jobs;

-- name: permit_replay!
-- The database lets an ended job go on only inside this named operation (DLV-7).
SELECT set_config('tayho.operation', 'replay', true);

-- name: replay_if_dead
-- The key and the history stay, the budget is new, and the delivery is of a new generation: what Redis kept of the last
-- one is not handed out again.
WITH dead AS (
    SELECT jobs.job_id FROM coordination.jobs AS jobs
    WHERE jobs.job_id = ANY ($1::uuid[]) AND jobs.state = 'dead' AND jobs.archived_at IS NULL
    ORDER BY jobs.job_id
    FOR UPDATE
),
queued AS (
    UPDATE coordination.jobs AS jobs
    SET state = 'queued', generation = jobs.generation + 1, attempts_spent = 0, cancel_requested_at = NULL,
        run_at = clock_timestamp(), ended_at = NULL, updated_at = clock_timestamp()
    FROM dead
    WHERE jobs.job_id = dead.job_id
    RETURNING jobs.job_id, jobs.chain_id, jobs.environment, jobs.run_at, jobs.priority, jobs.limit_key
)
INSERT INTO coordination.outbox (job_id, chain_id, environment, due_at, limit_key, rank_at)
SELECT
    queued.job_id, queued.chain_id, queued.environment, queued.run_at, queued.limit_key,
    -- As at the enqueue: a minute of waiting halves a priority number.
    queued.run_at + make_interval(secs => 60 * log(queued.priority::float8) / log(2::float8))
FROM queued
RETURNING job_id;

-- name: cancel_if_open
-- What does not run ends here; what runs is asked to stop, and its attempt ends it (DLV-15). A job whose nonce is taken
-- is left alone: its transaction may be mined.
WITH wanted AS (
    SELECT jobs.job_id, jobs.state <> 'processing' AS ends_now FROM coordination.jobs AS jobs
    WHERE jobs.job_id = ANY ($1::uuid[]) AND jobs.state IN ('queued', 'retry', 'processing')
        AND NOT jobs.has_live_lineage AND jobs.cancel_requested_at IS NULL
    ORDER BY jobs.job_id
    FOR UPDATE
),
ended AS (
    UPDATE coordination.jobs AS jobs
    SET state = 'dead', cancel_requested_at = clock_timestamp(), ended_at = clock_timestamp(),
        updated_at = clock_timestamp(), last_error = $2
    FROM wanted
    WHERE jobs.job_id = wanted.job_id AND wanted.ends_now
    RETURNING jobs.job_id, jobs.limit_key
),
asked AS (
    UPDATE coordination.jobs AS jobs
    SET cancel_requested_at = clock_timestamp(), updated_at = clock_timestamp()
    FROM wanted
    WHERE jobs.job_id = wanted.job_id AND NOT wanted.ends_now
    RETURNING jobs.job_id
),
unpromised AS (
    DELETE FROM coordination.outbox AS outbox
    WHERE outbox.job_id = ANY (
        ARRAY(
            SELECT promised.job_id FROM coordination.outbox AS promised
            WHERE promised.job_id = ANY (ARRAY(SELECT ended.job_id FROM ended))
            ORDER BY promised.job_id
            FOR UPDATE
        )
    )
)
SELECT ended.job_id, true AS has_ended, ended.limit_key IS NOT NULL AS frees_a_limit FROM ended
UNION ALL
SELECT asked.job_id, false, false FROM asked;

-- name: page_of_dead
-- Through the index of what is set aside, which is small whatever has ended well. What a batch carried is replayed with it.
SELECT jobs.job_id, jobs.role, jobs.kind, jobs.idempotency_key, jobs.state, jobs.created_at, clock_timestamp() AS now
FROM coordination.jobs AS jobs
WHERE jobs.chain_id = $1 AND jobs.environment = $2 AND jobs.set_aside AND jobs.state = 'dead'
    AND jobs.archived_at IS NULL AND jobs.batch_job_id IS NULL AND jobs.job_id > $3
    AND ($5::text IS NULL OR jobs.role = $5)
    AND ($6::text IS NULL OR jobs.kind = $6)
    AND ($7::text IS NULL OR $7 = ANY (jobs.tags))
    AND ($8::text IS NULL OR jobs.limit_key = $8)
    AND ($9::text IS NULL OR jobs.last_error ->> 'type' = $9)
    AND ($10::timestamptz IS NULL OR jobs.created_at >= $10)
    AND ($11::timestamptz IS NULL OR jobs.created_at < $11)
ORDER BY jobs.job_id
LIMIT $4;

-- name: page_of_open
-- Through the outbox, which holds a row for each job that is to be delivered and for no other.
SELECT jobs.job_id, jobs.role, jobs.kind, jobs.idempotency_key, jobs.state, jobs.created_at, clock_timestamp() AS now
FROM coordination.outbox AS outbox
JOIN coordination.jobs AS jobs ON jobs.job_id = outbox.job_id
WHERE outbox.chain_id = $1 AND outbox.environment = $2 AND outbox.job_id > $3
    AND NOT jobs.has_live_lineage AND jobs.cancel_requested_at IS NULL
    AND ($5::text IS NULL OR jobs.role = $5)
    AND ($6::text IS NULL OR jobs.kind = $6)
    AND ($7::text IS NULL OR $7 = ANY (jobs.tags))
    AND ($8::text IS NULL OR jobs.limit_key = $8)
    AND ($9::text IS NULL OR jobs.last_error ->> 'type' = $9)
    AND ($10::timestamptz IS NULL OR jobs.created_at >= $10)
    AND ($11::timestamptz IS NULL OR jobs.created_at < $11)
    AND ($12::text IS NULL OR jobs.state = $12)
ORDER BY outbox.job_id
LIMIT $4;

-- name: list_dead
-- The newest first. A job that retention has emptied is shown too: its key stays taken.
SELECT
    jobs.job_id, jobs.role, jobs.kind, jobs.idempotency_key, jobs.state, jobs.attempt_number, jobs.attempts_spent,
    jobs.run_at, jobs.updated_at, jobs.last_error
FROM coordination.jobs AS jobs
WHERE jobs.chain_id = $1 AND jobs.environment = $2 AND jobs.set_aside AND jobs.state = 'dead'
    AND ($3::text IS NULL OR jobs.kind = $3)
    AND ($4::text IS NULL OR jobs.last_error ->> 'type' = $4)
ORDER BY jobs.job_id DESC
LIMIT $5;

-- name: record_action!
INSERT INTO coordination.operator_actions (chain_id, environment, action, actor, job_ids, detail)
VALUES ($1, $2, $3, $4, $5, $6);

-- name: wake_workers!
SELECT pg_notify('tayho_control', '');

-- name: states_of
SELECT jobs.job_id, jobs.state FROM coordination.jobs AS jobs
WHERE jobs.chain_id = $1 AND jobs.environment = $2 AND jobs.job_id = ANY ($3::uuid[]);
