"""The snapshot shows every kind of object, and can be read back by the server that wrote it."""

from storage.database import Database
from storage.snapshot import snapshot_of
from storage.throw_away import throw_away_database

SCHEMA = """
CREATE SCHEMA one;
CREATE SCHEMA "Two";
CREATE EXTENSION vector SCHEMA one;
CREATE TYPE one.mood AS ENUM ('sad', 'o''k', 'happy');
CREATE DOMAIN one.amount AS numeric(78, 0) DEFAULT 0 NOT NULL CONSTRAINT amount_positive CHECK (VALUE >= 0);
CREATE SEQUENCE one.numbers AS integer START 5 INCREMENT 2 MINVALUE 1 MAXVALUE 99 CACHE 1 CYCLE;
CREATE FUNCTION one.double(value integer) RETURNS integer LANGUAGE sql IMMUTABLE RETURN value * 2;
CREATE PROCEDURE one.nothing() LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE FUNCTION one.stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TABLE one.parents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    mood one.mood DEFAULT 'sad' NOT NULL,
    fee one.amount,
    twice integer GENERATED ALWAYS AS (one.double(3)) STORED,
    at timestamptz DEFAULT now() NOT NULL,
    span int4range,
    CONSTRAINT parents_name UNIQUE (name) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT parents_span EXCLUDE USING gist (span WITH &&),
    CONSTRAINT parents_name_long CHECK (length(name) > 1)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 10);
ALTER TABLE one.parents ADD CONSTRAINT parents_later CHECK (name <> 'x') NOT VALID;
CREATE UNLOGGED TABLE "Two"."Children" (
    "Parent id" bigint NOT NULL REFERENCES one.parents ON DELETE CASCADE,
    number integer DEFAULT nextval('one.numbers'::regclass) NOT NULL
);
CREATE TABLE one.events (at date NOT NULL, id integer NOT NULL, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);
CREATE TABLE one.events_2026 PARTITION OF one.events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE INDEX events_id ON one.events (id);
CREATE UNIQUE INDEX children_one ON "Two"."Children" ("Parent id") WHERE number > 3;
CREATE VIEW one.moods AS SELECT id, mood FROM one.parents WHERE mood <> 'sad';
CREATE MATERIALIZED VIEW one.counts AS SELECT count(*) AS n FROM one.parents;
CREATE TRIGGER stamp BEFORE UPDATE ON one.parents FOR EACH ROW WHEN (OLD.name <> NEW.name)
EXECUTE FUNCTION one.stamp();
CREATE TRIGGER asleep BEFORE INSERT ON one.parents FOR EACH ROW EXECUTE FUNCTION one.stamp();
ALTER TABLE one.parents DISABLE TRIGGER asleep;
ALTER TABLE one.parents ENABLE ROW LEVEL SECURITY;
ALTER TABLE one.parents FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON one.parents AS RESTRICTIVE FOR UPDATE TO PUBLIC USING (id > 0) WITH CHECK (id > 1);
"""

CHANGES = (
    "ALTER TYPE one.mood ADD VALUE 'angry'",
    "ALTER DOMAIN one.amount DROP CONSTRAINT amount_positive",
    "ALTER SEQUENCE one.numbers CACHE 7",
    "CREATE OR REPLACE FUNCTION one.stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN OLD; END $$",
    "ALTER TABLE one.parents ALTER COLUMN span SET NOT NULL",
    "ALTER TABLE one.parents ALTER COLUMN at DROP DEFAULT",
    "ALTER TABLE one.parents SET (fillfactor = 71)",
    "ALTER TABLE one.parents VALIDATE CONSTRAINT parents_later",
    'ALTER TABLE "Two"."Children" DROP CONSTRAINT "Children_Parent id_fkey"',
    'ALTER TABLE "Two"."Children" SET LOGGED',
    "ALTER TABLE one.events DETACH PARTITION one.events_2026",
    'DROP INDEX "Two".children_one',
    "ALTER TABLE one.parents ENABLE TRIGGER asleep",
    "ALTER TABLE one.parents NO FORCE ROW LEVEL SECURITY",
    "ALTER POLICY own ON one.parents USING (id > 2)",
    "DROP VIEW one.moods",
    "DROP EXTENSION vector",
)


async def _snapshot_after(url: str, sql: str) -> str:
    async with (
        throw_away_database(url) as empty,
        Database.open(empty, pool_size=1, application_name="tests") as database,
    ):
        async with database.connection() as connection:
            await connection.execute(sql)
        return await snapshot_of(database)


async def test_snapshot_makes_itself_again(empty_database_url: str, bridge: None) -> None:
    """Goal: nothing that the catalogue knows of a schema is lost in its snapshot.

    Method: a schema with every kind of object; its snapshot is run in an empty database, whose snapshot is the same.
    """
    text = await _snapshot_after(empty_database_url, SCHEMA)
    assert await _snapshot_after(empty_database_url, text) == text


async def test_every_change_shows(empty_database_url: str, bridge: None) -> None:
    """Goal: a change of anything changes the snapshot. Method: change one thing of each kind, one after another."""
    async with Database.open(empty_database_url, pool_size=1, application_name="tests") as database:
        before = ""
        for change in (SCHEMA, *CHANGES):
            async with database.connection() as connection:
                await connection.execute(change)
            after = await snapshot_of(database)
            assert after != before, change
            before = after
