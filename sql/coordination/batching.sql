-- Jobs that another job carries out: admitted without a promise of their own, batched under a parent, ended by its result
-- (INT-3, INT-4, INT-7). Only the parent has an outbox row, an attempt and a lineage.

-- name: admit
-- As `enqueue`, without an outbox row: whoever batches the job promises it. A key that is taken inserts nothing.
INSERT INTO coordination.jobs
    (
        job_id, chain_id, environment, idempotency_key, request_digest, role, kind, request, priority, run_at,
        limit_key, tags, state
    )
SELECT
    asked.job_id, $1, $2, asked.idempotency_key,
    sha256(convert_to(asked.kind || E'\n' || asked.request::jsonb::text, 'UTF8')),
    asked.role, asked.kind, asked.request::jsonb, asked.priority, clock_timestamp(), asked.limit_key,
    asked.tags::text[], 'pending_batch'
FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::text[], $10::text[])
    AS asked (job_id, idempotency_key, role, kind, request, priority, limit_key, tags)
ORDER BY asked.idempotency_key
ON CONFLICT (chain_id, environment, idempotency_key) DO NOTHING
RETURNING job_id, idempotency_key, priority, run_at, limit_key, state;

-- name: batch_if_pending
-- Under the parent $1, which the same transaction enqueues.
WITH pending AS (
    SELECT jobs.job_id FROM coordination.jobs AS jobs
    WHERE jobs.job_id = ANY ($2::uuid[]) AND jobs.state = 'pending_batch'
    ORDER BY jobs.job_id
    FOR UPDATE
),
batched AS (
    UPDATE coordination.jobs AS jobs SET state = 'batched', batch_job_id = $1, updated_at = clock_timestamp()
    FROM pending
    WHERE jobs.job_id = pending.job_id
    RETURNING jobs.job_id
),
counted AS (
    UPDATE coordination.jobs AS jobs SET batch_children = coalesce(jobs.batch_children, 0) + counted.children
    FROM (SELECT count(*)::integer AS children FROM batched) AS counted
    WHERE jobs.job_id = $1 AND counted.children > 0
)
SELECT batched.job_id FROM batched;

-- name: quarantine_if_pending
-- What can be in no batch ends here, so that those behind it go on (INT-6).
WITH asked AS (
    SELECT * FROM unnest($1::uuid[], $2::jsonb[]) AS a (job_id, detail)
),
pending AS (
    SELECT jobs.job_id, asked.detail
    FROM asked
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE jobs.state = 'pending_batch'
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
)
UPDATE coordination.jobs AS jobs
SET state = 'quarantined', last_error = pending.detail, ended_at = clock_timestamp(), updated_at = clock_timestamp()
FROM pending
WHERE jobs.job_id = pending.job_id
RETURNING jobs.job_id;

-- name: settle_if_batched
-- Each child by its own result, in the transaction that ends its parent.
WITH asked AS (
    SELECT * FROM unnest($2::uuid[], $3::text[], $4::jsonb[]) AS a (job_id, next_state, detail)
),
batched AS (
    SELECT jobs.job_id, asked.next_state, asked.detail
    FROM asked
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE jobs.state = 'batched' AND jobs.batch_job_id = $1
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
)
UPDATE coordination.jobs AS jobs
SET state = batched.next_state,
    result = CASE WHEN batched.next_state = 'completed' THEN batched.detail END,
    last_error = CASE WHEN batched.next_state = 'dead' THEN batched.detail ELSE jobs.last_error END,
    ended_at = clock_timestamp(), updated_at = clock_timestamp()
FROM batched
WHERE jobs.job_id = batched.job_id
RETURNING jobs.job_id;

-- name: permit_children!
-- Back into the line, or back under the parent: only inside a named operation (DLV-7).
SELECT set_config('tayho.operation', $1, true);

-- name: standing_of_batch^
-- Needs `lock_jobs` before it.
SELECT jobs.state, jobs.has_live_lineage, jobs.batch_children FROM coordination.jobs AS jobs
WHERE jobs.chain_id = $1 AND jobs.environment = $2 AND jobs.job_id = $3;

-- name: release_children
-- The parent took no effect and never will: its children wait for another.
WITH dead AS (
    SELECT jobs.job_id FROM coordination.jobs AS jobs
    WHERE jobs.batch_job_id = $1 AND jobs.state = 'dead' AND jobs.archived_at IS NULL
    ORDER BY jobs.job_id
    FOR UPDATE
)
UPDATE coordination.jobs AS jobs
SET state = 'pending_batch', batch_job_id = NULL, ended_at = NULL, updated_at = clock_timestamp()
FROM dead
WHERE jobs.job_id = dead.job_id
RETURNING jobs.job_id;

-- name: restore_children
-- Parents live again, by a replay or because the chain took their block back: so do their children, under them.
WITH ended AS (
    SELECT jobs.job_id FROM coordination.jobs AS jobs
    WHERE jobs.batch_job_id = ANY ($1::uuid[]) AND jobs.state IN ('completed', 'dead') AND jobs.archived_at IS NULL
    ORDER BY jobs.job_id
    FOR UPDATE
)
UPDATE coordination.jobs AS jobs
SET state = 'batched', result = NULL, ended_at = NULL, updated_at = clock_timestamp()
FROM ended
WHERE jobs.job_id = ended.job_id
RETURNING jobs.job_id;
