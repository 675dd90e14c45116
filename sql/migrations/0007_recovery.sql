-- What is written down while a lane heals: reorganisations, events, findings and halts (TX-6, TX-9, TX-14).

-- Written before anything moves because of it (TX-6).
CREATE TABLE transactions.reorganisations (
    reorganisation_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id bigint NOT NULL,
    block_number bigint NOT NULL CHECK (block_number >= 0),
    old_hash bytea NOT NULL CHECK (octet_length(old_hash) = 32),
    new_hash bytea NOT NULL CHECK (octet_length(new_hash) = 32),
    head_block_number bigint NOT NULL,
    found_by text NOT NULL,
    found_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT reorganisations_competing CHECK (old_hash <> new_hash)
);
CREATE INDEX reorganisations_of_chain ON transactions.reorganisations (chain_id, found_at);
CREATE TRIGGER reorganisations_append_only BEFORE UPDATE OR DELETE ON transactions.reorganisations
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

-- The highest block of each pool that may not change any more: below it no receipt is looked at again (TX-6).
CREATE TABLE transactions.boundaries (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    role text NOT NULL,
    block_number bigint NOT NULL CHECK (block_number >= 0),
    block_hash bytea NOT NULL CHECK (octet_length(block_hash) = 32),
    moved_by text NOT NULL,
    moved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, environment, role),
    FOREIGN KEY (chain_id, environment, role) REFERENCES transactions.pools
) WITH (fillfactor = 50);

-- What callers are told of their lineages, in order. Only grows.
CREATE TABLE transactions.events (
    event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lineage_id uuid NOT NULL REFERENCES transactions.lineages,
    job_id uuid,
    kind text NOT NULL CHECK (
        kind IN (
            'mined', 'reverted', 'cancelled', 'superseded', 'un_mined', 'replaced', 'held', 'released',
            -- What an operator wished; who and why are in the detail (TX-10).
            'bump_requested', 'cancel_requested'
        )
    ),
    tx_hash bytea,
    detail jsonb NOT NULL DEFAULT '{}',
    occurred_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX events_of_lineage ON transactions.events (lineage_id);
CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON transactions.events
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

-- What an operator should know of a lane: nonces used by others, lost pools, low balances. Only grows.
CREATE TABLE transactions.findings (
    finding_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id bigint NOT NULL,
    signer bytea NOT NULL CHECK (octet_length(signer) = 20),
    kind text NOT NULL CHECK (
        kind IN (
            'foreign_nonce', 'dropped_mempool', 'low_balance', 'underfunded', 'funded', 'blocked', 'unblocked', 'delegated',
            'undelegated', 'superseded', 'revival_conflict', 'world_adopted', 'world_restarted', 'result_missing'
        )
    ),
    detail jsonb NOT NULL,
    found_by text NOT NULL,
    found_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    FOREIGN KEY (chain_id, signer) REFERENCES transactions.lanes
);
CREATE INDEX findings_of_lane ON transactions.findings (chain_id, signer, found_at);
CREATE TRIGGER findings_append_only BEFORE UPDATE OR DELETE ON transactions.findings
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

-- Nonces of our lanes that somebody else used: no lineage has them, and the fence has gone past (I5, TX-9).
CREATE TABLE transactions.foreign_nonces (
    chain_id bigint NOT NULL,
    signer bytea NOT NULL CHECK (octet_length(signer) = 20),
    world integer NOT NULL CHECK (world >= 1),
    nonce bigint NOT NULL CHECK (nonce >= 0),
    tx_hash bytea CHECK (octet_length(tx_hash) = 32),
    found_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, signer, world, nonce),
    FOREIGN KEY (chain_id, signer) REFERENCES transactions.lanes
);
CREATE TRIGGER foreign_nonces_append_only BEFORE UPDATE OR DELETE ON transactions.foreign_nonces
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

-- Why nothing is signed, sent or finalised for a pool until an operator says otherwise (TX-6, TX-14).
CREATE TABLE transactions.halts (
    halt_id uuid PRIMARY KEY,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    role text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('finality_violated', 'chain_reset', 'chain_ahead', 'chain_unknown')),
    evidence jsonb NOT NULL,
    raised_by text NOT NULL,
    raised_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    resolution text CHECK (resolution IN ('adopted', 'restarted', 'gone')),
    resolved_by text,
    resolved_at timestamptz,
    FOREIGN KEY (chain_id, environment, role) REFERENCES transactions.pools,
    CONSTRAINT halts_resolved CHECK (
        (resolution IS NULL) = (resolved_at IS NULL) AND (resolution IS NULL) = (resolved_by IS NULL)
    )
);
CREATE UNIQUE INDEX halts_open ON transactions.halts (chain_id, environment, role, kind) WHERE resolved_at IS NULL;
CREATE TRIGGER halts_kept BEFORE DELETE ON transactions.halts
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER halts_immutable
BEFORE UPDATE OF halt_id, chain_id, environment, role, kind, evidence, raised_by, raised_at ON transactions.halts
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER halts_resolved_once BEFORE UPDATE ON transactions.halts
FOR EACH ROW WHEN (OLD.resolved_at IS NOT NULL) EXECUTE FUNCTION tayho.refuse_change();
