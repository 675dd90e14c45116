-- What holds a job back, what an operator did, and how far retention has come (DLV-9, DLV-15).

-- The limits of one key. A row without numbers is a key that only takes its fair share.
CREATE TABLE coordination.limits (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    limit_key text NOT NULL CHECK (length(limit_key) BETWEEN 1 AND 255),
    -- Jobs of the key that may be published at once; null is the publisher's fair window.
    concurrent_max integer CHECK (concurrent_max BETWEEN 1 AND 100000),
    -- A bucket of rate_max starts that refills evenly over rate_seconds.
    rate_max integer CHECK (rate_max BETWEEN 1 AND 1000000),
    rate_seconds integer CHECK (rate_seconds BETWEEN 1 AND 86400),
    -- When the bucket is full again: the bucket's whole state (a virtual clock, ITU-T I.371's GCRA).
    full_at timestamptz NOT NULL DEFAULT '-infinity',
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, environment, limit_key),
    CONSTRAINT limits_rate_whole CHECK ((rate_max IS NULL) = (rate_seconds IS NULL))
) WITH (fillfactor = 50);

-- What takes no new work: a role, or one kind of it (empty is the whole role).
CREATE TABLE coordination.pauses (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    role text NOT NULL,
    kind text NOT NULL DEFAULT '',
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    actor text NOT NULL CHECK (length(actor) BETWEEN 1 AND 128),
    paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, environment, role, kind)
);

-- What people did to jobs, limits and pauses: written in the transaction that did it.
CREATE TABLE coordination.operator_actions (
    action_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    action text NOT NULL CHECK (action IN ('replay', 'cancel', 'pause', 'resume', 'limit', 'release')),
    actor text NOT NULL CHECK (length(actor) BETWEEN 1 AND 128),
    -- The jobs it touched, at most a page of a bulk operation; empty where it touched none by name.
    job_ids uuid[] NOT NULL DEFAULT '{}',
    detail jsonb NOT NULL DEFAULT '{}',
    acted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX operator_actions_jobs ON coordination.operator_actions USING gin (job_ids);
CREATE TRIGGER operator_actions_append_only BEFORE UPDATE OR DELETE ON coordination.operator_actions
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER operator_actions_kept_whole BEFORE TRUNCATE ON coordination.operator_actions
FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();

-- How far retention has come. Ids sort by the time they were made, so one walk along the primary key visits all.
CREATE TABLE coordination.retention (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    swept_to uuid NOT NULL,
    swept_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, environment)
);
