-- name: register!
INSERT INTO coordination.workers
    (worker_id, instance_id, chain_id, environment, roles, host, process_id, version, kinds)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: heartbeat^
-- Answers what operators want of this worker: to take nothing new, to leave roles alone, to stop jobs that it holds ($2).
-- And notes what it says of itself: that it was told to end ($3), that it took nothing new and has nothing in hand ($4).
UPDATE coordination.workers AS workers
SET heartbeat_at = clock_timestamp(),
    draining = workers.draining OR $3,
    stopping_at = CASE WHEN $3 THEN coalesce(workers.stopping_at, clock_timestamp()) ELSE workers.stopping_at END,
    drained_at = CASE WHEN workers.draining AND $4 THEN coalesce(workers.drained_at, clock_timestamp()) END
WHERE workers.worker_id = $1
RETURNING
    workers.draining,
    ARRAY(
        SELECT pauses.role FROM coordination.pauses AS pauses
        WHERE pauses.chain_id = workers.chain_id AND pauses.environment = workers.environment AND pauses.kind = ''
    ) AS paused_roles,
    ARRAY(
        SELECT jobs.job_id FROM coordination.jobs AS jobs
        WHERE jobs.job_id = ANY ($2::uuid[]) AND jobs.attempt_worker_id = $1 AND jobs.cancel_requested_at IS NOT NULL
    ) AS unwanted;

-- name: stop!
UPDATE coordination.workers SET draining = true, stopped_at = clock_timestamp() WHERE worker_id = $1;

-- name: live_workers
-- Who is at work, and how much of it: for people, probes and the demo.
SELECT
    workers.worker_id, workers.instance_id, workers.roles, workers.process_id, workers.draining,
    extract(epoch FROM clock_timestamp() - workers.heartbeat_at)::float8 AS heartbeat_age_seconds,
    (
        SELECT count(*) FROM coordination.attempts AS attempts
        WHERE attempts.worker_id = workers.worker_id AND attempts.state = 'running'
    ) AS running
FROM coordination.workers AS workers
WHERE workers.chain_id = $1 AND workers.environment = $2 AND workers.stopped_at IS NULL
    AND workers.heartbeat_at > clock_timestamp() - make_interval(secs => $3)
ORDER BY workers.started_at;

-- name: connections_of_server^
-- How many processes are alive in the whole database, and how many connections the server has for them.
SELECT
    (
        SELECT count(*) FROM coordination.workers AS workers
        WHERE workers.stopped_at IS NULL AND workers.heartbeat_at > clock_timestamp() - make_interval(secs => $1)
    ) AS live,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS connections;
