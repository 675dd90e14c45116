-- What squawk refuses outside a contract migration.

CREATE INDEX jobs_role ON coordination.jobs (role); -- breaks require-concurrent-index-creation
DROP TABLE coordination.jobs; -- breaks ban-drop-table
DROP SCHEMA coordination; -- breaks ban-drop-schema
DROP TYPE coordination.kind; -- breaks ban-drop-type
DROP FUNCTION tayho.refuse_change(); -- breaks ban-drop-function
DROP INDEX coordination.jobs_role; -- breaks require-concurrent-index-deletion
DROP VIEW coordination.open_jobs; -- breaks ban-drop-view
DROP SEQUENCE coordination.numbers; -- breaks ban-drop-sequence
TRUNCATE coordination.jobs CASCADE; -- breaks ban-truncate-cascade
ALTER TABLE coordination.jobs DROP COLUMN role; -- breaks ban-drop-column
ALTER TABLE coordination.jobs ALTER COLUMN role TYPE bigint; -- breaks changing-column-type
ALTER TABLE coordination.jobs ALTER COLUMN role SET NOT NULL; -- breaks adding-not-nullable-field
ALTER TABLE coordination.jobs ADD COLUMN note text NOT NULL; -- breaks adding-required-field
ALTER TABLE coordination.jobs ADD CONSTRAINT jobs_role CHECK (role <> ''); -- breaks constraint-missing-not-valid
ALTER TABLE coordination.jobs ADD CONSTRAINT jobs_one UNIQUE (role); -- breaks disallowed-unique-constraint
ALTER TABLE coordination.jobs DROP CONSTRAINT jobs_one; -- breaks ban-drop-constraint
ALTER TABLE coordination.jobs RENAME TO work; -- breaks renaming-table
ALTER TABLE coordination.jobs RENAME COLUMN role TO duty; -- breaks renaming-column
