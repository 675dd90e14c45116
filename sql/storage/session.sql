-- The verbs of a session. Isolation levels are PostgreSQL's own.

-- name: begin_read_committed!
BEGIN ISOLATION LEVEL READ COMMITTED;

-- name: begin_repeatable_read!
BEGIN ISOLATION LEVEL REPEATABLE READ;

-- name: begin_serializable!
BEGIN ISOLATION LEVEL SERIALIZABLE;

-- name: commit!
COMMIT;

-- name: rollback!
ROLLBACK;

-- name: renew_plans!
-- Each statement is planned again at its next use, and each foreign key's look-up; what is prepared stays prepared.
DISCARD PLANS;
