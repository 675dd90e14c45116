-- Jobs, their outbox, their attempts, and the processes that carry them out (DLV).

CREATE SCHEMA coordination;

-- One row per incarnation of a process; a restarted process is another worker (DLV-6).
CREATE TABLE coordination.workers (
    worker_id uuid PRIMARY KEY,
    instance_id text NOT NULL CHECK (length(instance_id) BETWEEN 1 AND 128),
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    roles text[] NOT NULL,
    host text NOT NULL,
    process_id integer NOT NULL,
    version text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Set by an operator or by the process itself: no new work is taken.
    draining boolean NOT NULL DEFAULT false,
    stopped_at timestamptz
) WITH (fillfactor = 50);

CREATE TABLE coordination.jobs (
    job_id uuid PRIMARY KEY,
    chain_id bigint NOT NULL CHECK (chain_id > 0),
    environment text NOT NULL CHECK (length(environment) BETWEEN 1 AND 64),
    idempotency_key text NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    -- sha256 over kind and request in PostgreSQL's own canonical jsonb text, so that every producer digests alike.
    request_digest bytea NOT NULL CHECK (octet_length(request_digest) = 32),
    role text NOT NULL CHECK (role ~ '^[a-z][a-z0-9-]{0,62}$'),
    kind text NOT NULL CHECK (length(kind) BETWEEN 1 AND 128),
    request jsonb NOT NULL CHECK (jsonb_typeof(request) = 'object' AND octet_length(request::text) <= 131072),
    -- BullMQ's meaning: 1 is the most urgent.
    priority integer NOT NULL CHECK (priority BETWEEN 1 AND 2097151),
    run_at timestamptz NOT NULL,
    -- Whose job it is (a tenant, an account): jobs of one key share its limits. Null is nobody's, and unlimited.
    limit_key text CHECK (length(limit_key) BETWEEN 1 AND 255),
    tags text[] NOT NULL DEFAULT '{}' CHECK (cardinality(tags) <= 16 AND array_position(tags, NULL) IS NULL),
    state text NOT NULL,
    -- The delivery generation: only PostgreSQL advances it (DLV-4).
    generation integer NOT NULL DEFAULT 1 CHECK (generation >= 1),
    -- The fence: token, worker and number of the attempt that may change this row. The number only grows.
    attempt_number integer NOT NULL DEFAULT 0 CHECK (attempt_number >= 0),
    attempt_token text,
    -- Not a foreign key, nor is the one of an attempt: to forget one worker would read every job and every attempt.
    attempt_worker_id uuid,
    -- The budget: what JOB_MAX_ATTEMPTS counts. A replay resets it, a soft stop gives one back.
    attempts_spent integer NOT NULL DEFAULT 0 CHECK (attempts_spent >= 0),
    -- True from the allocation of a nonce until its lineage has ended.
    has_live_lineage boolean NOT NULL DEFAULT false,
    -- Somebody wants the job ended. From here on no nonce is allocated and no attempt begins (DLV-15).
    cancel_requested_at timestamptz,
    -- The job that carries this one out; null where it goes by itself, and while it waits for one (INT-4).
    batch_job_id uuid,
    -- How many jobs this one carries: all of them, or its replay is refused (INT-7). Null of every other job.
    batch_children integer CHECK (batch_children > 0),
    -- What waits for a person. Of its own, because an index on `state` would make every change of state write every index.
    set_aside boolean NOT NULL GENERATED ALWAYS AS (state IN ('dead', 'quarantined')) STORED,
    result jsonb,
    last_error jsonb,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    -- Retention took its request, its result and its attempts. The key stays taken for ever.
    archived_at timestamptz,
    -- I7: one key, one job.
    CONSTRAINT jobs_idempotency_key UNIQUE (chain_id, environment, idempotency_key),
    -- I6: exactly the job that is being processed has a current attempt.
    CONSTRAINT jobs_attempt_current CHECK (
        (state = 'processing') = (attempt_token IS NOT NULL)
        AND (attempt_token IS NULL) = (attempt_worker_id IS NULL)
    ),
    CONSTRAINT jobs_budget CHECK (attempts_spent <= attempt_number),
    -- DLV-8: a job whose nonce is taken is never discarded.
    CONSTRAINT jobs_lineage_kept CHECK (NOT has_live_lineage OR state IN ('processing', 'confirming', 'retry')),
    CONSTRAINT jobs_confirming_lineage CHECK (state <> 'confirming' OR has_live_lineage),
    -- A job whose nonce is taken is not cancelled here: its transaction may be mined.
    CONSTRAINT jobs_cancel_without_lineage CHECK (cancel_requested_at IS NULL OR NOT has_live_lineage),
    CONSTRAINT jobs_ended CHECK (
        (ended_at IS NOT NULL) = (state IN ('completed', 'not_actionable', 'quarantined', 'dead'))
    ),
    CONSTRAINT jobs_archived_ended CHECK (archived_at IS NULL OR ended_at IS NOT NULL),
    -- I10: a child is under one parent, or waits for one.
    CONSTRAINT jobs_batched CHECK (
        (state <> 'batched' OR batch_job_id IS NOT NULL) AND (state <> 'pending_batch' OR batch_job_id IS NULL)
    )
) WITH (
    -- Room for one change of every job of a page at once; then the page has room again, and no change writes an index.
    fillfactor = 50,
    -- A fifth of ten million rows would be a long wait for a vacuum, and for the planner.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05
);
CREATE INDEX jobs_of_batch ON coordination.jobs (batch_job_id) WHERE batch_job_id IS NOT NULL;
CREATE INDEX jobs_set_aside ON coordination.jobs (chain_id, environment, job_id) WHERE set_aside;

CREATE TRIGGER jobs_transition_on_insert BEFORE INSERT ON coordination.jobs
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();
CREATE TRIGGER jobs_transition BEFORE UPDATE ON coordination.jobs
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION tayho.refuse_unlisted_transition();
-- Retention may take a finished job's documents, and nothing else of it.
CREATE FUNCTION coordination.refuse_change_but_archive() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('tayho.operation', true) IS DISTINCT FROM 'archive' OR OLD.archived_at IS NOT NULL
        OR NEW.archived_at IS NULL OR NEW.request <> '{}'
        -- The generated column is not there yet when this runs.
        OR to_jsonb(NEW) - '{archived_at,request,result,last_error,updated_at,set_aside}'::text[]
            <> to_jsonb(OLD) - '{archived_at,request,result,last_error,updated_at,set_aside}'::text[]
    THEN
        RAISE EXCEPTION '% of a row of %.% is refused: it is immutable', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
            USING ERRCODE = 'TY003', CONSTRAINT = TG_NAME;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_terminal_immutable BEFORE UPDATE ON coordination.jobs
FOR EACH ROW WHEN (
    OLD.state IN ('completed', 'not_actionable', 'quarantined', 'dead') AND NEW.state = OLD.state
) EXECUTE FUNCTION coordination.refuse_change_but_archive();
-- Fired only where a statement names one of the columns, so the ordinary change of state pays nothing for them.
CREATE TRIGGER jobs_identity_immutable
BEFORE UPDATE OF job_id, chain_id, environment, idempotency_key, request_digest, role, kind, request, created_at,
    limit_key, tags
ON coordination.jobs
FOR EACH ROW WHEN (
    (OLD.job_id, OLD.chain_id, OLD.environment, OLD.idempotency_key, OLD.request_digest, OLD.role, OLD.kind,
     OLD.created_at, OLD.limit_key, OLD.tags)
    IS DISTINCT FROM
    (NEW.job_id, NEW.chain_id, NEW.environment, NEW.idempotency_key, NEW.request_digest, NEW.role, NEW.kind,
     NEW.created_at, NEW.limit_key, NEW.tags)
    OR (OLD.request IS DISTINCT FROM NEW.request AND NEW.archived_at IS NULL)
) EXECUTE FUNCTION tayho.refuse_change();
-- The key is taken for ever, so the row is there for ever.
CREATE TRIGGER jobs_kept BEFORE DELETE ON coordination.jobs
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER jobs_kept_whole BEFORE TRUNCATE ON coordination.jobs
FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER jobs_fence_grows BEFORE UPDATE OF attempt_number, generation ON coordination.jobs
FOR EACH ROW WHEN (NEW.attempt_number < OLD.attempt_number OR NEW.generation < OLD.generation)
EXECUTE FUNCTION tayho.refuse_change();

-- A batch that ends without an effect ends what it carried, whoever ends it and how: no child waits for ever (I8, INT-7).
CREATE FUNCTION coordination.end_children() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE coordination.jobs AS jobs
    SET state = 'dead', ended_at = clock_timestamp(), updated_at = clock_timestamp(),
        last_error = jsonb_build_object(
            'type', 'BatchEnded',
            'message', format('batch %s ended %s, and with it what it carried', NEW.job_id, NEW.state),
            'batch_job_id', NEW.job_id, 'batch_ended', coalesce(NEW.result, NEW.last_error)
        )
    WHERE jobs.job_id = ANY (
        ARRAY(
            SELECT children.job_id FROM coordination.jobs AS children
            WHERE children.batch_job_id = NEW.job_id AND children.state = 'batched'
            ORDER BY children.job_id
            FOR UPDATE
        )
    );
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_children_end AFTER UPDATE ON coordination.jobs
FOR EACH ROW WHEN (
    NEW.batch_children IS NOT NULL AND NEW.state IN ('dead', 'not_actionable', 'quarantined')
    AND OLD.state IS DISTINCT FROM NEW.state
) EXECUTE FUNCTION coordination.end_children();

-- The promise, made in the job's own transaction, that the job will be delivered. Gone with the end of the job.
CREATE TABLE coordination.outbox (
    job_id uuid PRIMARY KEY REFERENCES coordination.jobs,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    -- When a publisher looks at it next: to publish, or to check what became of the delivery.
    due_at timestamptz NOT NULL,
    published_at timestamptz,
    limit_key text,
    -- In which order the rows that a limit holds back go on: a minute of waiting halves a priority number (DLV-15).
    rank_at timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);
-- Rows that may be published or looked at as soon as they are due.
CREATE INDEX outbox_due ON coordination.outbox (chain_id, environment, due_at)
WHERE limit_key IS NULL OR published_at IS NOT NULL;
-- Rows that wait for room under the limits of their key.
-- Only who says the last condition, which is always true, may be given this index: a look at one key must never be
-- planned as a look at all of them.
CREATE INDEX outbox_limited_due ON coordination.outbox (chain_id, environment, due_at)
WHERE limit_key IS NOT NULL AND published_at IS NULL AND rank_at > '-infinity';
CREATE INDEX outbox_limited_rank ON coordination.outbox (chain_id, environment, limit_key, rank_at, due_at)
WHERE limit_key IS NOT NULL AND published_at IS NULL;
-- What takes up the room: counted, never kept as a number that could drift.
CREATE INDEX outbox_in_flight ON coordination.outbox (chain_id, environment, limit_key, due_at)
WHERE limit_key IS NOT NULL AND published_at IS NOT NULL;

CREATE TABLE coordination.attempts (
    job_id uuid NOT NULL REFERENCES coordination.jobs,
    attempt_number integer NOT NULL CHECK (attempt_number >= 1),
    generation integer NOT NULL,
    token text NOT NULL CHECK (length(token) >= 16),
    worker_id uuid NOT NULL,
    state text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    -- What ended it: type, message and traceback digest of an error, or the reason of an outcome.
    detail jsonb,
    PRIMARY KEY (job_id, attempt_number),
    CONSTRAINT attempts_ended CHECK ((state = 'running') = (ended_at IS NULL))
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05
);
-- One attempt runs at a time, whoever races.
CREATE UNIQUE INDEX attempts_one_running ON coordination.attempts (job_id) WHERE state = 'running';

CREATE TRIGGER attempts_transition_on_insert BEFORE INSERT ON coordination.attempts
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();
CREATE TRIGGER attempts_transition BEFORE UPDATE ON coordination.attempts
FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION tayho.refuse_unlisted_transition();
CREATE TRIGGER attempts_ended_immutable BEFORE UPDATE ON coordination.attempts
FOR EACH ROW WHEN (OLD.state <> 'running') EXECUTE FUNCTION tayho.refuse_change();
-- An attempt goes only with the documents of its job.
CREATE FUNCTION coordination.refuse_delete_but_archive() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('tayho.operation', true) IS DISTINCT FROM 'archive' THEN
        RAISE EXCEPTION '% of a row of %.% is refused: only retention deletes it',
            TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
            USING ERRCODE = 'TY003', CONSTRAINT = TG_NAME;
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER attempts_kept BEFORE DELETE ON coordination.attempts
FOR EACH ROW EXECUTE FUNCTION coordination.refuse_delete_but_archive();
CREATE TRIGGER attempts_kept_whole BEFORE TRUNCATE ON coordination.attempts
FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();

INSERT INTO tayho.transitions (table_name, from_state, to_state, operation) VALUES
('coordination.jobs', 'new', 'queued', NULL),
('coordination.jobs', 'new', 'pending_batch', NULL),
('coordination.jobs', 'pending_batch', 'batched', NULL),
('coordination.jobs', 'pending_batch', 'quarantined', NULL),
('coordination.jobs', 'queued', 'processing', NULL),
('coordination.jobs', 'queued', 'dead', NULL),
('coordination.jobs', 'processing', 'confirming', NULL),
('coordination.jobs', 'processing', 'completed', NULL),
('coordination.jobs', 'processing', 'not_actionable', NULL),
('coordination.jobs', 'processing', 'retry', NULL),
('coordination.jobs', 'processing', 'quarantined', NULL),
('coordination.jobs', 'processing', 'dead', NULL),
('coordination.jobs', 'retry', 'processing', NULL),
('coordination.jobs', 'retry', 'completed', NULL),
('coordination.jobs', 'retry', 'dead', NULL),
('coordination.jobs', 'confirming', 'completed', NULL),
('coordination.jobs', 'confirming', 'retry', NULL),
('coordination.jobs', 'confirming', 'dead', NULL),
('coordination.jobs', 'batched', 'completed', NULL),
('coordination.jobs', 'batched', 'dead', NULL),
('coordination.jobs', 'dead', 'pending_batch', 'release'),
('coordination.jobs', 'completed', 'batched', 'restore'),
('coordination.jobs', 'dead', 'batched', 'restore'),
('coordination.jobs', 'dead', 'queued', 'replay'),
('coordination.jobs', 'completed', 'retry', 'revive'),
('coordination.jobs', 'dead', 'retry', 'revive'),
('coordination.jobs', 'queued', 'retry', 'revive'),
('coordination.attempts', 'new', 'running', NULL),
('coordination.attempts', 'running', 'completed', NULL),
('coordination.attempts', 'running', 'not_actionable', NULL),
('coordination.attempts', 'running', 'quarantined', NULL),
('coordination.attempts', 'running', 'confirming', NULL),
('coordination.attempts', 'running', 'failed', NULL),
('coordination.attempts', 'running', 'returned', NULL),
('coordination.attempts', 'running', 'cancelled', NULL),
('coordination.attempts', 'running', 'lost', NULL);
