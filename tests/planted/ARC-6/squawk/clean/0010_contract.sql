-- contract
DROP TABLE coordination.jobs;
ALTER TABLE coordination.fresh DROP COLUMN attempt_number;
