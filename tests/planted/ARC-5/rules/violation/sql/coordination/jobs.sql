-- breaks ARC-5: two modules bind this file
-- name: claim
SELECT job_id FROM coordination.jobs;
-- name: orphan^  -- breaks ARC-5
SELECT job_id FROM coordination.jobs;
