-- Taking a replica, a signer or a journal key out of work without losing anything (OPS-6, OPS-7, OPS-8).

-- An operator keeps one process from new work, and lets it go on. `draining` says that it takes none, whoever wanted so.
ALTER TABLE coordination.workers
ADD COLUMN drain_asked_at timestamptz,
-- Said by the process itself: it takes nothing, and has nothing in hand.
ADD COLUMN drained_at timestamptz,
-- Said by the process itself: it was told to end, and will. No operator's word undoes that.
ADD COLUMN stopping_at timestamptz;

-- The list grows: whatever the old one let in is let in by the new one, so no row there is looked at again.
-- squawk-ignore ban-drop-constraint
ALTER TABLE coordination.operator_actions DROP CONSTRAINT operator_actions_action_check;
ALTER TABLE coordination.operator_actions ADD CONSTRAINT operator_actions_action_check CHECK (
    action IN (
        'replay', 'cancel', 'pause', 'resume', 'limit', 'drain', 'undrain', 'signer_drain', 'signer_undrain',
        'signer_retire_check', 'signer_pool_rotate', 'signer_pool_add', 'key_retire_check', 'release'
    )
) NOT VALID;

-- A retired lane is history: no nonce, no world and no pool of it moves again, whatever a statement says (I12).
CREATE TRIGGER lanes_retired_immutable
BEFORE UPDATE OF signer, chain_id, environment, role, first_nonce, next_nonce, world ON transactions.lanes
FOR EACH ROW WHEN (OLD.state = 'retired') EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER lanes_kept BEFORE DELETE ON transactions.lanes
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

-- What an examination before a retirement found, and on what it rests. Only grows.
CREATE TABLE transactions.retirement_checks (
    check_id uuid PRIMARY KEY,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    -- One of the two: a signer that is to leave its pool, or a key of the journal.
    signer bytea CHECK (octet_length(signer) = 20),
    key_id text CHECK (length(key_id) BETWEEN 1 AND 128),
    -- The signer's, as it was: a later nonce would make the check another's.
    nonce_fence bigint CHECK (nonce_fence >= 0),
    has_passed boolean NOT NULL,
    -- The agreed head that it was made at; null where none was agreed.
    head_block_number bigint CHECK (head_block_number >= 0),
    head_hash bytea CHECK (octet_length(head_hash) = 32),
    detail jsonb NOT NULL CHECK (octet_length(detail::text) <= 1048576),
    checked_by text NOT NULL CHECK (length(checked_by) BETWEEN 1 AND 128),
    checked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    FOREIGN KEY (chain_id, signer) REFERENCES transactions.lanes,
    CONSTRAINT retirement_checks_subject CHECK ((signer IS NULL) <> (key_id IS NULL)),
    CONSTRAINT retirement_checks_fence CHECK ((signer IS NULL) = (nonce_fence IS NULL)),
    CONSTRAINT retirement_checks_head CHECK (
        (head_block_number IS NULL) = (head_hash IS NULL) AND (head_hash IS NOT NULL OR NOT has_passed)
    )
);
CREATE INDEX retirement_checks_of_signer ON transactions.retirement_checks (chain_id, signer, checked_at)
WHERE signer IS NOT NULL;
CREATE TRIGGER retirement_checks_append_only BEFORE UPDATE OR DELETE ON transactions.retirement_checks
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER retirement_checks_kept_whole BEFORE TRUNCATE ON transactions.retirement_checks
FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();

-- Whose place in a pool a signer took. Each place is handed over once, and on a check that passed. Only grows.
CREATE TABLE transactions.successions (
    chain_id bigint NOT NULL,
    old_signer bytea NOT NULL,
    new_signer bytea NOT NULL,
    check_id uuid NOT NULL REFERENCES transactions.retirement_checks,
    handed_by text NOT NULL CHECK (length(handed_by) BETWEEN 1 AND 128),
    handed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, old_signer),
    CONSTRAINT successions_new UNIQUE (chain_id, new_signer),
    CONSTRAINT successions_two CHECK (old_signer <> new_signer),
    FOREIGN KEY (chain_id, old_signer) REFERENCES transactions.lanes,
    FOREIGN KEY (chain_id, new_signer) REFERENCES transactions.lanes
);
CREATE TRIGGER successions_append_only BEFORE UPDATE OR DELETE ON transactions.successions
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER successions_kept_whole BEFORE TRUNCATE ON transactions.successions
FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();
