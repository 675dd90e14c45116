-- What a login can do, asked by itself (OPS-2).

-- name: attributes
SELECT
    known.rolname AS login, known.rolsuper AS superuser, known.rolcreatedb AS createdb,
    known.rolcreaterole AS createrole, known.rolreplication AS replication, known.rolbypassrls AS bypassrls
FROM pg_roles AS known
WHERE known.rolname = session_user;

-- name: creations
-- Where it may make new things.
SELECT 'database ' || current_database() AS place WHERE has_database_privilege(current_database(), 'CREATE')
UNION ALL
SELECT 'temporary tables' WHERE has_database_privilege(current_database(), 'TEMPORARY')
UNION ALL
SELECT 'schema ' || namespace.nspname FROM pg_namespace AS namespace
WHERE has_schema_privilege(namespace.oid, 'CREATE') AND namespace.nspname !~ '^pg_(toast|temp)';

-- name: tables
-- Every relation that is not the server's own: what it may do with all of it, and with which columns what more.
SELECT
    format('%I.%I', namespace.nspname, relation.relname) AS name,
    array(
        SELECT privilege FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'])
            WITH ORDINALITY AS asked (privilege, place)
        WHERE has_table_privilege(relation.oid, privilege)
        ORDER BY place
    ) AS privileges,
    array(
        SELECT format('%s(%I)', privilege, attribute.attname)
        FROM pg_attribute AS attribute
        CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES']) AS privilege
        WHERE
            attribute.attrelid = relation.oid AND attribute.attnum > 0 AND NOT attribute.attisdropped
            AND has_column_privilege(relation.oid, attribute.attnum, privilege)
            AND NOT has_table_privilege(relation.oid, privilege)
        ORDER BY attribute.attnum
    ) AS of_columns
FROM pg_class AS relation
JOIN pg_namespace AS namespace ON namespace.oid = relation.relnamespace
WHERE
    relation.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND namespace.nspname <> 'information_schema' AND namespace.nspname !~ '^pg_'
ORDER BY name;

-- name: routines
-- Every function of ours that it may call itself. A trigger's needs no privilege to fire.
SELECT format('%I.%I', namespace.nspname, routine.proname) AS name
FROM pg_proc AS routine
JOIN pg_namespace AS namespace ON namespace.oid = routine.pronamespace
WHERE
    namespace.nspname <> 'information_schema' AND namespace.nspname !~ '^pg_' AND namespace.nspname <> 'public'
    AND has_function_privilege(routine.oid, 'EXECUTE')
ORDER BY name;

-- name: row_rules
-- The policies that are this login's, and whether the table heeds them.
SELECT
    policy.polname AS name, policy.polrelid::regclass::text AS table_name, relation.relrowsecurity AS is_heeded,
    obj_description(policy.oid, 'pg_policy') AS digest
FROM pg_policy AS policy
JOIN pg_class AS relation ON relation.oid = policy.polrelid
JOIN pg_roles AS login ON login.oid = ANY (policy.polroles) AND login.rolname = session_user
ORDER BY name, table_name;

-- name: everybodys_row_rules
-- A policy of PUBLIC would let in rows that no rule of ours names.
SELECT policy.polname AS name, policy.polrelid::regclass::text AS table_name
FROM pg_policy AS policy
WHERE 0 = ANY (policy.polroles)
ORDER BY name, table_name;
