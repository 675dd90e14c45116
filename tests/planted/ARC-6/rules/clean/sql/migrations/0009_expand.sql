-- Only adds, and is free with what it made itself.

CREATE TABLE coordination.fresh (id bigint PRIMARY KEY, n bigint NOT NULL);
INSERT INTO coordination.fresh (id, n) VALUES (1, 2);
UPDATE coordination.fresh SET n = 3;
DELETE FROM coordination.fresh WHERE id = 1;
ALTER TABLE coordination.jobs ADD COLUMN note text;
UPDATE coordination.jobs SET note = 'old' WHERE job_id IS NULL;
