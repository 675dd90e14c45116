-- A database to try the migrations in. Its name cannot be a parameter of the statement, so the server writes it.

-- name: create_statement$
-- template0, because a site may have put things into template1.
SELECT format('CREATE DATABASE %I TEMPLATE template0', $1::text);

-- name: drop_statement$
SELECT format('DROP DATABASE IF EXISTS %I WITH (FORCE)', $1::text);
