-- A migration that is not marked as a contract.

CREATE TABLE coordination.fresh (id bigint PRIMARY KEY);
DELETE FROM coordination.jobs WHERE state = 'dead';  -- breaks ARC-6
UPDATE coordination.jobs SET priority = 5;  -- breaks ARC-6
TRUNCATE coordination.outbox;  -- breaks ARC-6
LOCK TABLE coordination.jobs;  -- breaks ARC-6
CLUSTER coordination.jobs USING jobs_pkey;  -- breaks ARC-6
DROP TRIGGER jobs_kept ON coordination.jobs;  -- breaks ARC-6
DROP POLICY jobs_readable ON coordination.jobs;  -- breaks ARC-6
DROP ROLE tayho_runtime;  -- breaks ARC-6
ALTER TABLE coordination.jobs SET UNLOGGED;  -- breaks ARC-6
ALTER TABLE coordination.jobs DISABLE TRIGGER ALL;  -- breaks ARC-6
