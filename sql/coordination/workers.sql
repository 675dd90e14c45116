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
