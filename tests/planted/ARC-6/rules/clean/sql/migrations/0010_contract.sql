-- contract
DELETE FROM coordination.jobs WHERE state = 'dead';
DROP TRIGGER jobs_kept ON coordination.jobs;
