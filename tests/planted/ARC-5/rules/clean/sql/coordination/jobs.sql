-- name: claim
SELECT job_id FROM coordination.jobs LIMIT $1;
-- name: end!
DELETE FROM coordination.outbox WHERE job_id = $1;
