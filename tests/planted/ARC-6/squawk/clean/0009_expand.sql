-- Only adds: fresh tables with their indexes, keys and checks, and what blocks nobody.

CREATE TABLE coordination.fresh (
    fresh_id uuid PRIMARY KEY,
    job_id uuid NOT NULL REFERENCES coordination.jobs,
    attempt_number integer NOT NULL CHECK (attempt_number > 0),
    CONSTRAINT fresh_one UNIQUE (job_id, attempt_number)
);
CREATE INDEX fresh_of_job ON coordination.fresh (job_id);
CREATE UNIQUE INDEX fresh_first ON coordination.fresh (job_id) WHERE attempt_number = 1;
ALTER TABLE coordination.jobs ADD COLUMN note text;
ALTER TABLE coordination.jobs ADD CONSTRAINT jobs_note CHECK (length(note) < 100) NOT VALID;
