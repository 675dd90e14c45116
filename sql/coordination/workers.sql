-- name: register!
INSERT INTO coordination.workers
    (worker_id, instance_id, chain_id, environment, roles, host, process_id, version)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: heartbeat$
-- Answers whether an operator asked this worker to drain.
UPDATE coordination.workers SET heartbeat_at = clock_timestamp()
WHERE worker_id = $1
RETURNING draining;

-- name: drain!
UPDATE coordination.workers SET draining = true WHERE worker_id = $1;

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
