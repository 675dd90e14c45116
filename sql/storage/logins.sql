-- Logins and what they may do (OPS-2). Names and privileges have no parameters in DDL: these statements write the DDL,
-- quoted by the server, and the caller runs it in the same transaction.

-- name: creation$
-- A login that is there already gives nothing.
SELECT format('CREATE ROLE %I LOGIN', $1::text)
WHERE NOT EXISTS (SELECT FROM pg_roles AS known WHERE known.rolname = $1::text);

-- name: password$
-- The verifier, never the password: the server stores it as it is.
SELECT format('ALTER ROLE %I LOGIN PASSWORD %L VALID UNTIL ''infinity''', $1::text, $2::text);

-- name: is_own$
-- Whether it is the login that this runs as.
SELECT $1::text IN (session_user, current_user);

-- name: attributes
-- Each attribute that a login of ours must not have: whether it has it, and what takes it away.
SELECT
    attribute.name, attribute.has,
    format('ALTER ROLE %I %s', known.rolname, attribute.without) AS statement
FROM pg_roles AS known
CROSS JOIN LATERAL (VALUES
    ('SUPERUSER', known.rolsuper, 'NOSUPERUSER'),
    ('CREATEDB', known.rolcreatedb, 'NOCREATEDB'),
    ('CREATEROLE', known.rolcreaterole, 'NOCREATEROLE'),
    ('REPLICATION', known.rolreplication, 'NOREPLICATION'),
    ('BYPASSRLS', known.rolbypassrls, 'NOBYPASSRLS')
) AS attribute (name, has, without)
WHERE known.rolname = $1::text
ORDER BY attribute.name;

-- name: memberships
-- What it would inherit from, or could become.
SELECT parent.rolname AS role
FROM pg_auth_members AS membership
JOIN pg_roles AS parent ON parent.oid = membership.roleid
JOIN pg_roles AS member ON member.oid = membership.member
WHERE member.rolname = $1::text
ORDER BY parent.rolname;

-- name: owned
-- What it owns, in this database or shared by all: an owner may do anything with it, and grant it.
SELECT pg_describe_object(dependency.classid, dependency.objid, dependency.objsubid) AS object
FROM pg_shdepend AS dependency
JOIN pg_roles AS owner ON owner.oid = dependency.refobjid
WHERE
    owner.rolname = $1::text AND dependency.refclassid = 'pg_authid'::regclass AND dependency.deptype = 'o'
    AND dependency.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
ORDER BY object
LIMIT 10;

-- name: revocations
-- Everything that it was ever granted here, and what everybody has of ours: what may be done is said anew each time.
WITH schemas AS (
    SELECT namespace.nspname AS name FROM pg_namespace AS namespace
    WHERE namespace.nspname <> 'information_schema' AND namespace.nspname !~ '^pg_'
),
whom AS (
    SELECT schemas.name AS schema_name, whom.name
    FROM schemas
    CROSS JOIN (VALUES (quote_ident($1::text)), ('PUBLIC')) AS whom (name)
    -- What other programs keep in `public` is theirs.
    WHERE NOT (schemas.name = 'public' AND whom.name = 'PUBLIC')
)
SELECT format('REVOKE ALL ON ALL %s IN SCHEMA %I FROM %s', kind.name, whom.schema_name, whom.name) AS statement
FROM whom
CROSS JOIN (VALUES ('TABLES'), ('SEQUENCES'), ('ROUTINES')) AS kind (name)
UNION ALL
SELECT format('REVOKE ALL ON SCHEMA %I FROM %s', whom.schema_name, whom.name) FROM whom
UNION ALL
SELECT 'REVOKE CREATE ON SCHEMA public FROM PUBLIC' FROM schemas WHERE schemas.name = 'public'
UNION ALL
SELECT format('REVOKE ALL ON DATABASE %I FROM %I', current_database(), $1::text)
UNION ALL
SELECT format('REVOKE CREATE, TEMPORARY ON DATABASE %I FROM PUBLIC', current_database())
UNION ALL
-- What a later migration makes is nobody's until the grants are said again.
SELECT format('ALTER DEFAULT PRIVILEGES REVOKE ALL ON %s FROM PUBLIC', kind.name)
FROM (VALUES ('TABLES'), ('SEQUENCES'), ('ROUTINES')) AS kind (name);

-- name: grants
-- $2 and $3 are privileges and the tables that they are on, in step; $4 the routines it may call.
SELECT format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), $1::text) AS statement
UNION ALL
SELECT format('GRANT USAGE ON SCHEMA %I TO %I', namespace.nspname, $1::text)
FROM pg_namespace AS namespace
WHERE namespace.nspname = ANY (SELECT split_part(name, '.', 1) FROM unnest($3::text[] || $4::text[]) AS name)
UNION ALL
SELECT format('GRANT %s ON TABLE %s TO %I', asked.privileges, asked.table_name::regclass, $1::text)
FROM unnest($2::text[], $3::text[]) AS asked (privileges, table_name)
UNION ALL
SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I', known.oid::regprocedure, $1::text)
FROM unnest($4::text[]) AS asked (routine)
JOIN pg_proc AS known ON known.pronamespace = split_part(asked.routine, '.', 1)::regnamespace
WHERE known.proname = split_part(asked.routine, '.', 2);

-- name: row_rules
-- Row security and its policies, where they are not yet as asked. $1 login, $2 policy names, $3 tables, $4 commands,
-- $5 which rows are seen, $6 which may come of it, $7 what tells each from another, which the policy keeps as its
-- comment: one that is as asked is left alone, because to make it anew would lock the table.
WITH asked AS (
    SELECT * FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
        AS a (name, table_name, command, sees, makes, digest)
),
differing AS (
    SELECT asked.* FROM asked
    LEFT JOIN pg_policy AS policy ON policy.polrelid = asked.table_name::regclass AND policy.polname = asked.name
    WHERE obj_description(policy.oid, 'pg_policy') IS DISTINCT FROM asked.digest
)
SELECT statement FROM (
    SELECT DISTINCT
        1 AS place, known.relname::text AS name,
        format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', known.oid::regclass) AS statement
    FROM asked
    JOIN pg_class AS known ON known.oid = asked.table_name::regclass
    WHERE NOT known.relrowsecurity
    UNION ALL
    SELECT 2, name, format('DROP POLICY IF EXISTS %I ON %s', name, table_name::regclass) FROM differing
    UNION ALL
    SELECT
        3, name,
        format(
            'CREATE POLICY %I ON %s FOR %s TO %I%s%s', name, table_name::regclass, command, $1::text,
            ' USING (' || sees || ')', ' WITH CHECK (' || makes || ')'
        )
    FROM differing
    UNION ALL
    SELECT 4, name, format('COMMENT ON POLICY %I ON %s IS %L', name, table_name::regclass, digest) FROM differing
) AS made (place, name, statement)
ORDER BY place, name;
