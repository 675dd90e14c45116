-- Lanes, lineages, their signed members, what nodes said and what the chain showed (TX).

CREATE SCHEMA transactions;

-- The lanes of one (chain, environment, role), with the round-robin cursor that every replica shares.
CREATE TABLE transactions.pools (
    chain_id bigint NOT NULL CHECK (chain_id > 0),
    environment text NOT NULL,
    role text NOT NULL,
    cursor_position bigint NOT NULL DEFAULT 0,
    -- Whether a halt of the pool is open: changed only together with its row in `halts`, under FOR UPDATE.
    is_halted boolean NOT NULL DEFAULT false,
    -- A block too deep to be reorganised: whoever does not have it serves another chain (TX-14). Null until the first look.
    anchor_block_number bigint CHECK (anchor_block_number >= 0),
    anchor_block_hash bytea CHECK (octet_length(anchor_block_hash) = 32),
    PRIMARY KEY (chain_id, environment, role),
    CONSTRAINT pools_anchor CHECK ((anchor_block_number IS NULL) = (anchor_block_hash IS NULL))
) WITH (fillfactor = 50);

-- One signer's nonce stream on one chain. next_nonce is the nonce fence.
CREATE TABLE transactions.lanes (
    chain_id bigint NOT NULL,
    signer bytea NOT NULL CHECK (octet_length(signer) = 20),
    environment text NOT NULL,
    role text NOT NULL,
    first_nonce bigint NOT NULL CHECK (first_nonce >= 0),
    next_nonce bigint NOT NULL,
    state text NOT NULL DEFAULT 'open',
    state_reason text,
    -- A chain that began anew under the same id is another world: its nonces start again (TX-14).
    world integer NOT NULL DEFAULT 1 CHECK (world >= 1),
    -- What a majority of the nodes last showed of the signer's account; null until the first look.
    latest_nonce bigint CHECK (latest_nonce >= 0),
    pending_nonce bigint CHECK (pending_nonce >= 0),
    balance_wei numeric(78, 0) CHECK (balance_wei >= 0),
    -- The account carries EIP-7702 code: nodes take one transaction in flight from it, and no gaps (TX-15).
    is_delegated boolean NOT NULL DEFAULT false,
    -- The balance comes near what would close the lane; said before it does.
    is_low boolean NOT NULL DEFAULT false,
    -- The voters' pools have lost what they had taken; false again when they show it.
    is_pool_dropped boolean NOT NULL DEFAULT false,
    observed_at timestamptz,
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, signer),
    FOREIGN KEY (chain_id, environment, role) REFERENCES transactions.pools,
    CONSTRAINT lanes_fence CHECK (next_nonce >= first_nonce)
) WITH (fillfactor = 50);
CREATE INDEX lanes_pool ON transactions.lanes (chain_id, environment, role);

CREATE TRIGGER lanes_transition_on_insert BEFORE INSERT ON transactions.lanes
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();
CREATE TRIGGER lanes_transition BEFORE UPDATE ON transactions.lanes
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION tayho.refuse_unlisted_transition();

-- The one (chain, signer, nonce, call hash) that a job owns. A filler has no job: it keeps a lane without a gap.
CREATE TABLE transactions.lineages (
    lineage_id uuid PRIMARY KEY,
    purpose text NOT NULL CHECK (purpose IN ('call', 'filler')),
    job_id uuid,
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    world integer NOT NULL DEFAULT 1 CHECK (world >= 1),
    nonce bigint NOT NULL CHECK (nonce >= 0),
    call_hash bytea NOT NULL CHECK (octet_length(call_hash) = 32),
    environment text NOT NULL,
    role text NOT NULL,
    to_address bytea NOT NULL CHECK (octet_length(to_address) = 20),
    value_wei numeric(78, 0) NOT NULL,
    call_data bytea NOT NULL CHECK (octet_length(call_data) <= 131072),
    -- What its kind asks for at least, whatever a node estimates; 0 where the estimate is enough.
    gas_limit_min bigint NOT NULL DEFAULT 0 CHECK (gas_limit_min >= 0),
    -- Its kind reads the receipt's logs: without what they must say, nothing ends (hold `result_missing`).
    needs_result boolean NOT NULL DEFAULT false,
    state text NOT NULL,
    state_reason text,
    -- Why an open lineage does not move by itself; null while it does. Shown, counted and alerted on (I8).
    hold text CONSTRAINT lineages_hold CHECK (
        hold IN (
            'fee_capped', 'replacements_spent', 'underfunded', 'limits', 'refused', 'nonce_used', 'result_missing'
        )
    ),
    hold_reason text,
    held_at timestamptz,
    -- An operator's wish. Whichever member is mined decides all the same (TX-10).
    bump_requested_at timestamptz,
    cancel_requested_at timestamptz,
    -- Where a receipt was last seen before it was final; null while none is. Not yet evidence of anything.
    -- Of a superseded lineage: where the nonce was seen used up, in which block, and by what if that could be found out.
    included_block_number bigint,
    superseded_in bytea CHECK (octet_length(superseded_in) = 32),
    superseded_by bytea CHECK (octet_length(superseded_by) = 32),
    -- The job had gone on without it when a reorganisation gave it its nonce back: it uses the nonce up, and ends no job.
    disowned_at timestamptz,
    -- A reconciler looks again after this; the replicas share the open lineages by it.
    check_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    allocated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    FOREIGN KEY (chain_id, signer) REFERENCES transactions.lanes,
    CONSTRAINT lineages_value CHECK (value_wei >= 0 AND value_wei < 2::numeric ^ 256),
    CONSTRAINT lineages_purpose CHECK ((purpose = 'call') = (job_id IS NOT NULL)),
    CONSTRAINT lineages_disowned CHECK (disowned_at IS NULL OR purpose = 'call'),
    CONSTRAINT lineages_superseded_in CHECK (superseded_in IS NULL OR included_block_number IS NOT NULL),
    CONSTRAINT lineages_ended CHECK (
        (ended_at IS NOT NULL) = (state IN ('mined', 'reverted', 'cancelled', 'superseded', 'abandoned'))
    ),
    CONSTRAINT lineages_held CHECK (
        (hold IS NULL) = (held_at IS NULL) AND (hold IS NULL) = (hold_reason IS NULL)
    ),
    -- What the members refer to, so that each carries its lineage's own nonce and call (I2).
    CONSTRAINT lineages_identity UNIQUE (lineage_id, chain_id, signer, nonce, call_hash)
) WITH (fillfactor = 60);
-- I1: a nonce belongs to one lineage that is not abandoned.
CREATE UNIQUE INDEX lineages_nonce ON transactions.lineages (chain_id, signer, world, nonce) WHERE state <> 'abandoned';
CREATE INDEX lineages_on_hold ON transactions.lineages (chain_id, environment, role) WHERE hold IS NOT NULL;
-- I2, I3: a job has one lineage that lives or took effect.
CREATE UNIQUE INDEX lineages_job ON transactions.lineages (job_id)
WHERE state IN ('allocated', 'signed', 'broadcast', 'mined') AND disowned_at IS NULL;
CREATE INDEX lineages_of_job ON transactions.lineages (job_id);
CREATE INDEX lineages_open ON transactions.lineages (chain_id, environment, role, check_at)
WHERE state IN ('allocated', 'signed', 'broadcast');
CREATE INDEX lineages_in_flight ON transactions.lineages (chain_id, signer)
WHERE state IN ('allocated', 'signed', 'broadcast') AND included_block_number IS NULL;

-- Those that a reorganisation may still give their nonce back.
CREATE INDEX lineages_superseded ON transactions.lineages (chain_id, environment, role, included_block_number)
WHERE state = 'superseded' AND superseded_in IS NOT NULL;

CREATE TRIGGER lineages_transition_on_insert BEFORE INSERT ON transactions.lineages
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();
CREATE TRIGGER lineages_transition BEFORE UPDATE ON transactions.lineages
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION tayho.refuse_unlisted_transition();
CREATE TRIGGER lineages_terminal_immutable BEFORE UPDATE ON transactions.lineages
FOR EACH ROW WHEN (
    OLD.state IN ('mined', 'reverted', 'cancelled', 'superseded', 'abandoned') AND NEW.state = OLD.state
) EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER lineages_identity_immutable
BEFORE UPDATE OF lineage_id, purpose, job_id, chain_id, signer, world, nonce, call_hash, to_address, value_wei,
    call_data, gas_limit_min, needs_result
ON transactions.lineages
FOR EACH ROW WHEN (
    (OLD.lineage_id, OLD.purpose, OLD.job_id, OLD.chain_id, OLD.signer, OLD.world, OLD.nonce, OLD.call_hash,
     OLD.to_address, OLD.value_wei, OLD.call_data, OLD.gas_limit_min, OLD.needs_result)
    IS DISTINCT FROM
    (NEW.lineage_id, NEW.purpose, NEW.job_id, NEW.chain_id, NEW.signer, NEW.world, NEW.nonce, NEW.call_hash,
     NEW.to_address, NEW.value_wei, NEW.call_data, NEW.gas_limit_min, NEW.needs_result)
) EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER lineages_kept BEFORE DELETE ON transactions.lineages
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

-- Every transaction ever signed for a lineage, sealed. I4: it stands here before any node has it.
CREATE TABLE transactions.members (
    tx_hash bytea PRIMARY KEY CHECK (octet_length(tx_hash) = 32),
    lineage_id uuid NOT NULL,
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    nonce bigint NOT NULL,
    call_hash bytea NOT NULL,
    member_number integer NOT NULL CHECK (member_number >= 1),
    -- 0 where the chain has no base fee: then both fee columns are its gas price.
    transaction_type smallint NOT NULL DEFAULT 2 CHECK (transaction_type IN (0, 2)),
    -- The bytes are a transfer of nothing to oneself at the lineage's nonce; `call_hash` still names the lineage (I2).
    is_cancellation boolean NOT NULL DEFAULT false,
    gas_limit bigint NOT NULL CHECK (gas_limit > 0),
    max_fee_per_gas_wei numeric(78, 0) NOT NULL,
    max_priority_fee_per_gas_wei numeric(78, 0) NOT NULL,
    key_id text NOT NULL,
    cipher_nonce bytea NOT NULL CHECK (octet_length(cipher_nonce) = 12),
    ciphertext bytea NOT NULL CHECK (octet_length(ciphertext) > 16),
    state text NOT NULL,
    signed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    FOREIGN KEY (lineage_id, chain_id, signer, nonce, call_hash)
    REFERENCES transactions.lineages (lineage_id, chain_id, signer, nonce, call_hash),
    CONSTRAINT members_number UNIQUE (lineage_id, member_number),
    CONSTRAINT members_seal UNIQUE (key_id, cipher_nonce),
    CONSTRAINT members_fees CHECK (
        max_priority_fee_per_gas_wei >= 0 AND max_priority_fee_per_gas_wei <= max_fee_per_gas_wei
    )
) WITH (fillfactor = 80);
-- I3: one member of a lineage is mined.
CREATE UNIQUE INDEX members_one_mined ON transactions.members (lineage_id) WHERE state IN ('mined', 'reverted');

CREATE TRIGGER members_transition_on_insert BEFORE INSERT ON transactions.members
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();
CREATE TRIGGER members_transition BEFORE UPDATE ON transactions.members
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION tayho.refuse_unlisted_transition();
-- Of a signed transaction only its state ever changes.
CREATE TRIGGER members_identity_immutable
BEFORE UPDATE OF tx_hash, lineage_id, chain_id, signer, nonce, call_hash, member_number, transaction_type,
    is_cancellation, gas_limit, max_fee_per_gas_wei, max_priority_fee_per_gas_wei, key_id, cipher_nonce, ciphertext,
    signed_at
ON transactions.members
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER members_kept BEFORE DELETE ON transactions.members
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

-- What each node answered to each send. Only grows.
CREATE TABLE transactions.broadcasts (
    broadcast_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tx_hash bytea NOT NULL REFERENCES transactions.members,
    endpoint text NOT NULL,
    answer text NOT NULL CHECK (answer IN ('accepted', 'already_known', 'refused', 'unknown')),
    -- The class of the answer in the table of what nodes say (TX-4), and the process that asked.
    reason text,
    detail text,
    sent_by text,
    answered_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX broadcasts_of_member ON transactions.broadcasts (tx_hash, broadcast_id);
CREATE TRIGGER broadcasts_append_only BEFORE UPDATE OR DELETE ON transactions.broadcasts
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

-- The receipts that decided a lineage: one observation per (transaction, block).
CREATE TABLE transactions.receipts (
    tx_hash bytea NOT NULL REFERENCES transactions.members,
    block_hash bytea NOT NULL CHECK (octet_length(block_hash) = 32),
    block_number bigint NOT NULL CHECK (block_number >= 0),
    transaction_index integer NOT NULL,
    succeeded boolean NOT NULL,
    gas_used bigint NOT NULL,
    effective_gas_price_wei numeric(78, 0) NOT NULL,
    -- The head that it was final against, and how deep that made it.
    head_block_number bigint NOT NULL,
    observed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Set when a reorganisation took the block away; the row stays.
    orphaned_at timestamptz,
    PRIMARY KEY (tx_hash, block_hash)
);
CREATE TRIGGER receipts_kept BEFORE DELETE ON transactions.receipts
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER receipts_immutable
BEFORE UPDATE OF tx_hash, block_hash, block_number, transaction_index, succeeded, gas_used, effective_gas_price_wei,
    head_block_number, observed_at
ON transactions.receipts
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
-- I3: a transaction is in one canonical block.
CREATE UNIQUE INDEX receipts_one_canonical ON transactions.receipts (tx_hash) WHERE orphaned_at IS NULL;
-- Those that a reorganisation may still take away.
CREATE INDEX receipts_canonical ON transactions.receipts (block_number, block_hash) WHERE orphaned_at IS NULL;

INSERT INTO tayho.transitions (table_name, from_state, to_state, operation) VALUES
('transactions.lanes', 'new', 'open', NULL),
('transactions.lanes', 'open', 'draining', NULL),
('transactions.lanes', 'open', 'blocked', NULL),
('transactions.lanes', 'open', 'underfunded', NULL),
('transactions.lanes', 'draining', 'open', NULL),
('transactions.lanes', 'draining', 'retired', NULL),
('transactions.lanes', 'blocked', 'open', NULL),
('transactions.lanes', 'blocked', 'draining', NULL),
('transactions.lanes', 'blocked', 'underfunded', NULL),
('transactions.lanes', 'underfunded', 'open', NULL),
('transactions.lanes', 'underfunded', 'draining', NULL),
('transactions.lanes', 'underfunded', 'blocked', NULL),
('transactions.lineages', 'new', 'allocated', NULL),
('transactions.lineages', 'allocated', 'signed', NULL),
('transactions.lineages', 'allocated', 'abandoned', NULL),
('transactions.lineages', 'allocated', 'superseded', NULL),
('transactions.lineages', 'signed', 'broadcast', NULL),
('transactions.lineages', 'signed', 'mined', NULL),
('transactions.lineages', 'signed', 'reverted', NULL),
('transactions.lineages', 'signed', 'superseded', NULL),
('transactions.lineages', 'signed', 'cancelled', NULL),
('transactions.lineages', 'broadcast', 'mined', NULL),
('transactions.lineages', 'broadcast', 'reverted', NULL),
('transactions.lineages', 'broadcast', 'superseded', NULL),
('transactions.lineages', 'broadcast', 'cancelled', NULL),
('transactions.lineages', 'broadcast', 'signed', 'replace'),
('transactions.lineages', 'mined', 'signed', 'revive'),
('transactions.lineages', 'reverted', 'signed', 'revive'),
('transactions.lineages', 'cancelled', 'signed', 'revive'),
('transactions.lineages', 'superseded', 'signed', 'revive'),
('transactions.lineages', 'superseded', 'allocated', 'revive'),
('transactions.members', 'new', 'signed', NULL),
('transactions.members', 'signed', 'broadcast', NULL),
('transactions.members', 'signed', 'replaced', NULL),
('transactions.members', 'signed', 'mined', NULL),
('transactions.members', 'signed', 'reverted', NULL),
('transactions.members', 'signed', 'ambiguous', NULL),
('transactions.members', 'ambiguous', 'broadcast', NULL),
('transactions.members', 'ambiguous', 'replaced', NULL),
('transactions.members', 'ambiguous', 'mined', NULL),
('transactions.members', 'ambiguous', 'reverted', NULL),
('transactions.members', 'broadcast', 'replaced', NULL),
('transactions.members', 'broadcast', 'mined', NULL),
('transactions.members', 'broadcast', 'reverted', NULL),
('transactions.members', 'replaced', 'mined', NULL),
('transactions.members', 'replaced', 'reverted', NULL),
('transactions.members', 'replaced', 'signed', 'revive'),
('transactions.members', 'broadcast', 'signed', 'revive'),
('transactions.members', 'ambiguous', 'signed', 'revive'),
('transactions.members', 'mined', 'signed', 'revive'),
('transactions.members', 'mined', 'replaced', 'revive'),
('transactions.members', 'reverted', 'signed', 'revive'),
('transactions.members', 'reverted', 'replaced', 'revive');
