-- The ledger of applied migrations, kept by the migration runner (OPS-1).

-- name: lock!
-- One runner at a time: a second waits here, and then finds its work done. Given back at the end of the transaction,
-- so that no pooler can keep it.
SELECT pg_advisory_xact_lock(7881419234470124);

-- name: bound_lock_wait!
-- Milliseconds; for this transaction only.
SELECT set_config('lock_timeout', $1, true);

-- name: create_schema!
CREATE SCHEMA IF NOT EXISTS tayho;

-- name: create_ledger!
CREATE TABLE IF NOT EXISTS tayho.schema_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    checksum bytea NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    applied_by text NOT NULL DEFAULT session_user
);

-- name: ledger_exists$
SELECT to_regclass('tayho.schema_migrations') IS NOT NULL;

-- name: applied
SELECT version, name, checksum FROM tayho.schema_migrations ORDER BY version;

-- name: record!
INSERT INTO tayho.schema_migrations (version, name, checksum) VALUES ($1, $2, $3);

-- name: version$
SELECT coalesce(max(version), 0) FROM tayho.schema_migrations;

-- name: is_owner$
-- Whether this session may do with the schema what its owner may: the owner, a member of it, a superuser.
SELECT pg_has_role(session_user, namespace.nspowner, 'MEMBER') FROM pg_namespace AS namespace
WHERE namespace.nspname = 'tayho';
