-- What a login must be refused (OPS-2, OPS-3). `tayho db qualify` runs each as the login, in a transaction that is rolled
-- back: whoever may do one of these would find that nothing came of it, and its line failed.

-- name: make_a_role!
CREATE ROLE tayho_qualify;

-- name: make_a_schema!
CREATE SCHEMA tayho_qualify;

-- name: make_a_table!
CREATE TABLE coordination.tayho_qualify ();

-- name: make_a_public_table!
CREATE TABLE public.tayho_qualify ();

-- name: make_a_temporary_table!
CREATE TEMPORARY TABLE tayho_qualify ();

-- name: alter_a_table!
ALTER TABLE coordination.jobs SET (fillfactor = 50);

-- name: switch_triggers_off!
ALTER TABLE coordination.jobs DISABLE TRIGGER USER;

-- name: pass_triggers_by!
SET session_replication_role = replica;

-- name: replace_a_trigger!
CREATE OR REPLACE FUNCTION tayho.refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';

-- name: change_the_ledger!
INSERT INTO tayho.schema_migrations (version, name, checksum) SELECT 1, '', '' WHERE false;

-- name: change_the_transitions!
UPDATE tayho.transitions SET operation = NULL WHERE false;

-- name: change_operator_actions!
UPDATE coordination.operator_actions SET actor = actor WHERE false;

-- name: delete_operator_actions!
DELETE FROM coordination.operator_actions WHERE false;

-- name: change_broadcasts!
UPDATE transactions.broadcasts SET answer = answer WHERE false;

-- name: delete_members!
DELETE FROM transactions.members WHERE false;

-- name: delete_lineages!
DELETE FROM transactions.lineages WHERE false;

-- name: delete_jobs!
DELETE FROM coordination.jobs WHERE false;

-- name: read_signed_bytes!
SELECT ciphertext FROM transactions.members LIMIT 0;

-- name: read_whole_members!
SELECT * FROM transactions.members LIMIT 0;

-- name: change_lineages!
UPDATE transactions.lineages SET hold = hold WHERE false;

-- name: change_evidence!
UPDATE transactions.evidence SET detail = detail WHERE false;

-- name: delete_workers!
DELETE FROM coordination.workers WHERE false;

-- name: change_limits!
UPDATE coordination.limits SET full_at = full_at WHERE false;

-- name: read_lineages!
SELECT lineage_id FROM transactions.lineages LIMIT 0;

-- name: change_intents!
UPDATE intents.intents SET waits = waits WHERE false;
