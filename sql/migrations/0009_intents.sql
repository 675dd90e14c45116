-- Signed intents, and the batches that carry them (INT-2 … INT-7).

CREATE SCHEMA intents;

-- One line of intents a (chain, environment). Whoever takes from its front locks this row: one prefix at a time.
CREATE TABLE intents.lines (
    chain_id bigint NOT NULL CHECK (chain_id > 0),
    environment text NOT NULL,
    PRIMARY KEY (chain_id, environment)
);

-- What a session key signed. The job of the same id is how far it has come.
CREATE TABLE intents.intents (
    job_id uuid PRIMARY KEY,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    -- The order of the line: first come, first carried.
    place bigint GENERATED ALWAYS AS IDENTITY,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    protocol bytea NOT NULL CHECK (octet_length(protocol) = 20),
    account bytea NOT NULL CHECK (octet_length(account) = 20),
    session_key bytea NOT NULL CHECK (octet_length(session_key) = 20),
    action smallint NOT NULL CHECK (action BETWEEN 0 AND 63),
    market bytea NOT NULL CHECK (octet_length(market) = 32),
    payload bytea NOT NULL CHECK (octet_length(payload) <= 4096),
    salt numeric(78, 0) NOT NULL CHECK (salt >= 0 AND salt < 2::numeric ^ 256),
    deadline bigint NOT NULL CHECK (deadline >= 0),
    signature bytea NOT NULL CHECK (octet_length(signature) = 65),
    accepted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- True while it stands in the line.
    waits boolean NOT NULL DEFAULT true,
    FOREIGN KEY (chain_id, environment) REFERENCES intents.lines,
    -- The digest is the idempotency key: one intent, one job (INT-2).
    CONSTRAINT intents_digest UNIQUE (chain_id, environment, digest)
);
CREATE INDEX intents_waiting ON intents.intents (chain_id, environment, protocol, place) WHERE waits;
CREATE TRIGGER intents_immutable
BEFORE UPDATE OF job_id, chain_id, environment, place, digest, protocol, account, session_key, action, market, payload,
    salt, deadline, signature, accepted_at
ON intents.intents
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER intents_kept BEFORE DELETE ON intents.intents
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

-- Which intent stands where in which batch. The batch is the job that carries it.
CREATE TABLE intents.children (
    batch_job_id uuid NOT NULL,
    child_index integer NOT NULL CHECK (child_index >= 0),
    job_id uuid NOT NULL REFERENCES intents.intents,
    gas_stipend bigint NOT NULL CHECK (gas_stipend > 0),
    state text NOT NULL,
    -- What the executor logged of it.
    succeeded boolean,
    return_data_digest bytea CHECK (octet_length(return_data_digest) = 32),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (batch_job_id, child_index),
    CONSTRAINT children_result CHECK ((state = 'settled') = (succeeded IS NOT NULL AND return_data_digest IS NOT NULL))
);
-- I10: an intent is in one batch that lives or took effect.
CREATE UNIQUE INDEX children_one_batch ON intents.children (job_id) WHERE state <> 'released';
CREATE TRIGGER children_transition_on_insert BEFORE INSERT ON intents.children
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();
CREATE TRIGGER children_transition BEFORE UPDATE ON intents.children
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION tayho.refuse_unlisted_transition();
CREATE TRIGGER children_immutable BEFORE UPDATE OF batch_job_id, child_index, job_id, gas_stipend ON intents.children
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER children_kept BEFORE DELETE ON intents.children
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

INSERT INTO tayho.transitions (table_name, from_state, to_state, operation) VALUES
('intents.children', 'new', 'live', NULL),
('intents.children', 'live', 'settled', NULL),
('intents.children', 'live', 'released', NULL),
('intents.children', 'settled', 'live', 'restore');
