-- name: claim
UPDATE coordination.jobs AS j
SET state = 'processing'
WHERE j.state IN ('queued', 'retry');
-- name: enqueue
INSERT INTO coordination.jobs (job_id, state)
VALUES ($1, 'queued'), ($2, 'pending_batch'::text)
ON CONFLICT (job_id) DO UPDATE SET state = excluded.state;
-- name: end_attempts
WITH ended AS (
    UPDATE coordination.attempts SET state = CASE WHEN $1 THEN 'completed' ELSE 'failed' END
    WHERE state = 'running' RETURNING job_id, state
)
SELECT e.job_id FROM ended AS e WHERE e.state = 'completed';
-- name: replay
UPDATE coordination.jobs SET state = 'queued' WHERE state = ANY(ARRAY['dead']);
