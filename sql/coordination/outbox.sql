-- name: claim_due
-- A short lease instead of a lock held over Redis: a publisher that dies leaves the row due again after it.
WITH due AS (
    SELECT outbox.job_id FROM coordination.outbox AS outbox
    WHERE outbox.chain_id = $1 AND outbox.environment = $2 AND outbox.due_at <= now()
    ORDER BY outbox.due_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
),
leased AS (
    UPDATE coordination.outbox AS outbox SET due_at = now() + make_interval(secs => $4)
    FROM due
    WHERE outbox.job_id = due.job_id
    RETURNING outbox.job_id, outbox.published_at
)
SELECT jobs.job_id, jobs.role, jobs.kind, jobs.generation, jobs.priority, leased.published_at
FROM leased
JOIN coordination.jobs AS jobs USING (job_id)
ORDER BY jobs.run_at, jobs.job_id;

-- name: mark_published!
-- Rows are locked in the order of their jobs, like wherever else many are: two orders would deadlock.
WITH marked AS (
    SELECT outbox.job_id
    FROM unnest($1::uuid[], $2::int[]) AS published (job_id, generation)
    JOIN coordination.jobs AS jobs ON jobs.job_id = published.job_id AND jobs.generation = published.generation
    JOIN coordination.outbox AS outbox ON outbox.job_id = published.job_id
    ORDER BY outbox.job_id
    FOR UPDATE OF outbox
)
UPDATE coordination.outbox AS outbox
SET due_at = now() + make_interval(secs => $3), published_at = coalesce(outbox.published_at, clock_timestamp())
FROM marked
WHERE outbox.job_id = marked.job_id;

-- name: advance_generation_if_unfinished
-- The delivery ended in BullMQ and the job did not: only here does a generation move (DLV-4).
WITH unfinished AS (
    SELECT jobs.job_id
    FROM unnest($1::uuid[], $2::int[]) AS ended (job_id, generation)
    JOIN coordination.jobs AS jobs ON jobs.job_id = ended.job_id AND jobs.generation = ended.generation
    WHERE jobs.state IN ('queued', 'retry', 'processing')
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
)
UPDATE coordination.jobs AS jobs SET generation = jobs.generation + 1, updated_at = clock_timestamp()
FROM unfinished
WHERE jobs.job_id = unfinished.job_id
RETURNING jobs.job_id, jobs.generation;

-- name: wake!
SELECT pg_notify('tayho_outbox', '');

-- name: backlog^
SELECT
    count(*) AS rows,
    count(*) FILTER (WHERE published_at IS NULL) AS unpublished,
    coalesce(extract(epoch FROM now() - min(due_at) FILTER (WHERE due_at <= now())), 0)::float8 AS oldest_due_seconds
FROM coordination.outbox
WHERE chain_id = $1 AND environment = $2;
