-- name: lock_instance
-- Every process that ever ran under the name, or the one of that id, the newest first, held until the transaction ends.
SELECT
    workers.worker_id, workers.instance_id, workers.roles, workers.host, workers.process_id, workers.started_at,
    workers.draining, workers.drain_asked_at, workers.drained_at, workers.stopping_at, workers.stopped_at,
    extract(epoch FROM clock_timestamp() - workers.heartbeat_at)::float8 AS heartbeat_age_seconds
FROM coordination.workers AS workers
WHERE workers.chain_id = $1 AND workers.environment = $2
    AND (workers.instance_id = $3 OR workers.worker_id::text = $3)
ORDER BY workers.started_at DESC
LIMIT 100
FOR UPDATE;

-- name: drain_worker!
UPDATE coordination.workers SET draining = true, drain_asked_at = clock_timestamp() WHERE worker_id = $1;

-- name: undrain_worker!
UPDATE coordination.workers SET draining = false, drain_asked_at = NULL, drained_at = NULL WHERE worker_id = $1;

-- name: standing_of_worker^
-- How far a drain has come: what the process has said, and how much of its work is not ended.
SELECT
    workers.drained_at IS NOT NULL AS is_drained, workers.stopped_at IS NOT NULL AS has_stopped,
    extract(epoch FROM clock_timestamp() - workers.heartbeat_at)::float8 AS heartbeat_age_seconds,
    (
        SELECT count(*) FROM coordination.attempts AS attempts
        WHERE attempts.worker_id = workers.worker_id AND attempts.state = 'running'
    ) AS running
FROM coordination.workers AS workers
WHERE workers.worker_id = $1;
