-- What sql/migrations make, written by `tayho db snapshot`. Never edit it, never apply it.

CREATE SCHEMA coordination;

CREATE SCHEMA discovery;

CREATE SCHEMA intents;

CREATE SCHEMA tayho;

CREATE SCHEMA transactions;

CREATE OR REPLACE FUNCTION coordination.end_children()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
END $function$;

CREATE OR REPLACE FUNCTION coordination.refuse_change_but_archive()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
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
END $function$;

CREATE OR REPLACE FUNCTION coordination.refuse_delete_but_archive()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    IF current_setting('tayho.operation', true) IS DISTINCT FROM 'archive' THEN
        RAISE EXCEPTION '% of a row of %.% is refused: only retention deletes it',
            TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
            USING ERRCODE = 'TY003', CONSTRAINT = TG_NAME;
    END IF;
    RETURN OLD;
END $function$;

CREATE OR REPLACE FUNCTION tayho.document_of(request text)
 RETURNS jsonb
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
 SET extra_float_digits TO '1'
AS $function$
DECLARE
    document jsonb;
    unlike text;
    size bigint;
BEGIN
    -- Far above any document of 64 KiB, however it is written; what is longer is not looked at.
    IF (octet_length(request) <= 1048576) IS NOT TRUE THEN
        PERFORM tayho.refuse_document('it is missing, or longer than 1 MiB', 'Store it, and pass a reference.');
    END IF;
    BEGIN
        IF request IS NOT JSON OBJECT THEN
            PERFORM tayho.refuse_document('it is no JSON object', 'Give an object, such as {"invoice": 7}.');
        END IF;
        -- Before the cast, which would write 1e400 out digit by digit. What is left of the text has no strings in it.
        IF regexp_replace(request, '"(?:[^"\\]|\\.)*"', '', 'g') ~ '[0-9][eE]' THEN
            PERFORM tayho.refuse_document('a number has an exponent', 'Write it in digits, or as text.');
        END IF;
        document := request::jsonb;
    EXCEPTION
        WHEN statement_too_complex THEN
            PERFORM tayho.refuse_document('it is nested deeper than 64', 'Flatten it.');
        WHEN untranslatable_character THEN
            PERFORM tayho.refuse_document('a text holds a NUL character', 'PostgreSQL cannot store it: encode it.');
        WHEN invalid_text_representation THEN
            PERFORM tayho.refuse_document('a text holds a lone surrogate', 'Write whole characters.');
        WHEN numeric_value_out_of_range THEN
            PERFORM tayho.refuse_document('a number is out of range', 'Write it as text.');
    END;
    IF request IS NOT JSON OBJECT WITH UNIQUE KEYS THEN
        PERFORM tayho.refuse_document('a key appears twice in one object', 'Keep the one that is meant.');
    END IF;
    IF octet_length(document::text) > 131072 THEN
        PERFORM tayho.refuse_document('it is larger than 64 KiB', 'Store it, and pass a reference.');
    END IF;
    WITH RECURSIVE walked AS (
        SELECT 0 AS depth, document AS value, jsonb_typeof(document) AS form, false AS has_key
        UNION ALL
        SELECT walked.depth + 1, child.value, jsonb_typeof(child.value), child.has_key
        FROM walked
        CROSS JOIN LATERAL (
            SELECT each.value, true AS has_key
            FROM jsonb_each(CASE WHEN walked.form = 'object' THEN walked.value ELSE '{}' END) AS each
            UNION ALL
            SELECT element.value, false
            FROM jsonb_array_elements(CASE WHEN walked.form = 'array' THEN walked.value ELSE '[]' END) AS element
        ) AS child
        WHERE walked.depth <= 64 AND walked.form IN ('object', 'array')
    )
    SELECT
        min(
            CASE
                WHEN walked.depth > 64 THEN 'it is nested deeper than 64'
                WHEN walked.form <> 'number' THEN NULL
                WHEN strpos(walked.value::text, '.') = 0 THEN CASE
                    WHEN abs(walked.value::numeric) >= 2::numeric ^ 256 THEN 'an integer is beyond 256 bits'
                END
                -- Every reader has doubles: a fraction that is none, or that one writes with an exponent, would be bent.
                WHEN walked.value::numeric <> 0 AND abs(walked.value::numeric) < 0.0001
                    OR abs(walked.value::numeric) >= 1e16
                    OR walked.value::float8::text::numeric <> walked.value::numeric
                    THEN 'a fraction is not exactly a double, or one with an exponent'
            END
        ),
        -- jsonb writes a space after each colon and each comma; compact text has none.
        octet_length(document::text) - count(*) FILTER (WHERE walked.has_key) - (count(*) - 1)
        + count(*) FILTER (WHERE walked.form IN ('object', 'array') AND walked.value NOT IN ('{}', '[]'))
    INTO unlike, size
    FROM walked;
    IF unlike IS NOT NULL THEN
        PERFORM tayho.refuse_document(unlike, 'Write such a value as text, or store it and pass a reference.');
    END IF;
    IF size > 65536 THEN
        PERFORM tayho.refuse_document(
            format('%s bytes of compact JSON; at most 65536 are accepted', size), 'Store it, and pass a reference.'
        );
    END IF;
    RETURN document;
END $function$;

CREATE OR REPLACE FUNCTION tayho.enqueue(chain_id bigint, environment text, kind text, role text, idempotency_key text, request text, priority integer DEFAULT 1000, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, limit_key text DEFAULT NULL::text, tags text[] DEFAULT '{}'::text[], wake boolean DEFAULT true)
 RETURNS TABLE(job_id uuid, created boolean, state text)
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
#variable_conflict use_column
DECLARE
    document jsonb;
    asked_digest bytea;
    recorded_digest bytea;
    due_at timestamptz;
BEGIN
    PERFORM tayho.refuse_unless_new_job(
        enqueue.chain_id, enqueue.environment, enqueue.kind, enqueue.role, enqueue.idempotency_key, enqueue.priority,
        enqueue.run_at, enqueue.limit_key, enqueue.tags
    );
    document := tayho.document_of(enqueue.request);
    asked_digest := sha256(convert_to(enqueue.kind || E'\n' || document::text, 'UTF8'));
    -- What is due in the past is due now: an old date buys no place before the others.
    due_at := greatest(enqueue.run_at, clock_timestamp());
    INSERT INTO coordination.jobs AS jobs
        (
            job_id, chain_id, environment, idempotency_key, request_digest, role, kind, request, priority, run_at,
            limit_key, tags, state
        )
    VALUES
        (
            tayho.new_id(), enqueue.chain_id, enqueue.environment, enqueue.idempotency_key, asked_digest, enqueue.role,
            enqueue.kind, document, enqueue.priority, due_at, enqueue.limit_key, enqueue.tags, 'queued'
        )
    ON CONFLICT (chain_id, environment, idempotency_key) DO NOTHING
    RETURNING jobs.job_id, jobs.state INTO enqueue.job_id, enqueue.state;
    enqueue.created := FOUND;
    IF enqueue.created THEN
        INSERT INTO coordination.outbox (job_id, chain_id, environment, due_at, limit_key, rank_at)
        VALUES
            (
                enqueue.job_id, enqueue.chain_id, enqueue.environment, due_at, enqueue.limit_key,
                -- A minute of waiting halves a priority number.
                due_at + make_interval(secs => 60 * log(enqueue.priority::float8) / log(2::float8))
            );
        IF enqueue.wake THEN
            PERFORM pg_notify('tayho_outbox', '');
        END IF;
        RETURN NEXT;
        RETURN;
    END IF;
    -- A statement of its own: the snapshot of the insertion may be older than the winner's commit.
    SELECT jobs.job_id, jobs.state, jobs.request_digest INTO enqueue.job_id, enqueue.state, recorded_digest
    FROM coordination.jobs AS jobs
    WHERE jobs.chain_id = enqueue.chain_id AND jobs.environment = enqueue.environment
        AND jobs.idempotency_key = enqueue.idempotency_key;
    IF recorded_digest IS DISTINCT FROM asked_digest THEN
        RAISE EXCEPTION
            'the idempotency key % belongs to job %, whose request has digest %; this request has digest %',
            quote_literal(enqueue.idempotency_key), enqueue.job_id, encode(recorded_digest, 'hex'),
            encode(asked_digest, 'hex')
            USING ERRCODE = 'TY010', CONSTRAINT = 'jobs_idempotency_key',
                HINT = 'Use another key for another effect.';
    END IF;
    RETURN NEXT;
END $function$;

CREATE OR REPLACE FUNCTION tayho.new_id()
 RETURNS uuid
 LANGUAGE sql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
    SELECT encode(
        -- Bits 52 and 53 make version 7 of the random version 4; the variant is the same.
        set_bit(set_bit(
            overlay(
                uuid_send(gen_random_uuid())
                PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                FROM 1 FOR 6
            ), 52, 1), 53, 1),
        'hex'
    )::uuid
$function$;

CREATE OR REPLACE FUNCTION tayho.refuse_argument(fault text, hint text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'TY012', MESSAGE = fault, HINT = hint;
END $function$;

CREATE OR REPLACE FUNCTION tayho.refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION '% of a row of %.% is refused: it is immutable', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
        USING ERRCODE = 'TY003', CONSTRAINT = TG_NAME;
END $function$;

CREATE OR REPLACE FUNCTION tayho.refuse_document(fault text, hint text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'TY011', MESSAGE = 'the request is refused: ' || fault, HINT = hint;
END $function$;

CREATE OR REPLACE FUNCTION tayho.refuse_unless_name(argument text, value text, characters_max integer)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
BEGIN
    IF (length(value) BETWEEN 1 AND characters_max) IS NOT TRUE THEN
        PERFORM tayho.refuse_argument(
            format('%s has %s characters', argument, coalesce(length(value)::text, 'no')),
            format('Give 1 to %s characters.', characters_max)
        );
    END IF;
    IF value ~ '[\u0001-\u001F\u007F-\u009F]' THEN
        PERFORM tayho.refuse_argument(
            format('%s holds a control character', argument), 'Give plain text without line ends and tabs.'
        );
    END IF;
END $function$;

CREATE OR REPLACE FUNCTION tayho.refuse_unless_new_job(chain_id bigint, environment text, kind text, role text, idempotency_key text, priority integer, run_at timestamp with time zone, limit_key text, tags text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'pg_temp'
AS $function$
DECLARE
    tag text;
BEGIN
    -- EIP-2294 ends chain ids there.
    IF (chain_id BETWEEN 1 AND 9223372036854775771) IS NOT TRUE THEN
        PERFORM tayho.refuse_argument('chain_id is no chain id', 'Give the CHAIN_ID that the workers run with.');
    END IF;
    IF (environment ~ '^[a-z][a-z0-9-]{0,62}$') IS NOT TRUE THEN
        PERFORM tayho.refuse_argument(
            'environment is no environment', 'Give the ENVIRONMENT that the workers run with, such as live.'
        );
    END IF;
    PERFORM tayho.refuse_unless_name('kind', kind, 128);
    IF NOT EXISTS (SELECT FROM tayho.roles WHERE roles.role = refuse_unless_new_job.role) THEN
        PERFORM tayho.refuse_argument(
            format('role %L is no role', left(role, 64)), 'Give the role of the kind: one of those in tayho.roles.'
        );
    END IF;
    PERFORM tayho.refuse_unless_name('idempotency_key', idempotency_key, 255);
    IF (priority BETWEEN 1 AND 2097151) IS NOT TRUE THEN
        PERFORM tayho.refuse_argument(
            format('priority %s is out of range', coalesce(priority::text, 'NULL')), 'Give 1 (most urgent) to 2097151.'
        );
    END IF;
    IF run_at >= timestamptz '2100-01-01 00:00:00+00' THEN
        PERFORM tayho.refuse_argument('run_at is after the year 2099', 'Give an earlier time, or NULL for now.');
    END IF;
    IF limit_key IS NOT NULL THEN
        PERFORM tayho.refuse_unless_name('limit_key', limit_key, 255);
    END IF;
    IF tags IS NULL OR cardinality(tags) > 16 OR array_ndims(tags) > 1 THEN
        PERFORM tayho.refuse_argument('tags is no list of at most 16', 'Give at most 16 tags in one array.');
    END IF;
    FOREACH tag IN ARRAY tags LOOP
        PERFORM tayho.refuse_unless_name('a tag', tag, 64);
    END LOOP;
END $function$;

CREATE OR REPLACE FUNCTION tayho.refuse_unlisted_transition()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
    named text;
    was text := 'new';
BEGIN
    IF TG_OP = 'UPDATE' THEN
        was := OLD.state;
    END IF;
    SELECT operation INTO named
    FROM tayho.transitions
    WHERE table_name = TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME AND from_state = was AND to_state = NEW.state;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a row of %.% may not go from % to %', TG_TABLE_SCHEMA, TG_TABLE_NAME, was, NEW.state
            USING ERRCODE = 'TY001', CONSTRAINT = 'transition_listed';
    END IF;
    IF named IS NOT NULL AND named IS DISTINCT FROM current_setting('tayho.operation', true) THEN
        RAISE EXCEPTION 'a row of %.% goes from % to % only by the operation "%"',
            TG_TABLE_SCHEMA, TG_TABLE_NAME, was, NEW.state, named
            USING ERRCODE = 'TY002', CONSTRAINT = 'transition_named';
    END IF;
    RETURN NEW;
END $function$;

CREATE OR REPLACE FUNCTION transactions.refuse_delete_but_by_policy()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
    days int := nullif(current_setting('tayho.evidence_days', true), '')::int;
BEGIN
    IF current_setting('tayho.operation', true) IS DISTINCT FROM 'prune_evidence' OR days IS NULL
        OR OLD.decided_at >= now() - make_interval(days => greatest(days, 7))
    THEN
        RAISE EXCEPTION '% of a row of %.% is refused: only the policy deletes it, when it is old enough',
            TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
            USING ERRCODE = 'TY003', CONSTRAINT = TG_NAME;
    END IF;
    RETURN OLD;
END $function$;

CREATE TABLE coordination.attempts (
    job_id uuid NOT NULL,
    attempt_number integer NOT NULL,
    generation integer NOT NULL,
    token text NOT NULL,
    worker_id uuid NOT NULL,
    state text NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    detail jsonb,
    CONSTRAINT attempts_pkey PRIMARY KEY (job_id, attempt_number),
    CONSTRAINT attempts_attempt_number_check CHECK ((attempt_number >= 1)),
    CONSTRAINT attempts_ended CHECK (((state = 'running'::text) = (ended_at IS NULL))),
    CONSTRAINT attempts_token_check CHECK ((length(token) >= 16))
)
WITH (autovacuum_analyze_scale_factor=0.02, autovacuum_vacuum_insert_scale_factor=0.05, autovacuum_vacuum_scale_factor=0.02, fillfactor=70);

CREATE TABLE coordination.jobs (
    job_id uuid NOT NULL,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    idempotency_key text NOT NULL,
    request_digest bytea NOT NULL,
    role text NOT NULL,
    kind text NOT NULL,
    request jsonb NOT NULL,
    priority integer NOT NULL,
    run_at timestamp with time zone NOT NULL,
    limit_key text,
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    state text NOT NULL,
    generation integer DEFAULT 1 NOT NULL,
    attempt_number integer DEFAULT 0 NOT NULL,
    attempt_token text,
    attempt_worker_id uuid,
    attempts_spent integer DEFAULT 0 NOT NULL,
    has_live_lineage boolean DEFAULT false NOT NULL,
    cancel_requested_at timestamp with time zone,
    batch_job_id uuid,
    batch_children integer,
    set_aside boolean GENERATED ALWAYS AS ((state = ANY (ARRAY['dead'::text, 'quarantined'::text]))) STORED NOT NULL,
    result jsonb,
    last_error jsonb,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    archived_at timestamp with time zone,
    CONSTRAINT jobs_pkey PRIMARY KEY (job_id),
    CONSTRAINT jobs_idempotency_key UNIQUE (chain_id, environment, idempotency_key),
    CONSTRAINT jobs_archived_ended CHECK (((archived_at IS NULL) OR (ended_at IS NOT NULL))),
    CONSTRAINT jobs_attempt_current CHECK ((((state = 'processing'::text) = (attempt_token IS NOT NULL)) AND ((attempt_token IS NULL) = (attempt_worker_id IS NULL)))),
    CONSTRAINT jobs_attempt_number_check CHECK ((attempt_number >= 0)),
    CONSTRAINT jobs_attempts_spent_check CHECK ((attempts_spent >= 0)),
    CONSTRAINT jobs_batch_children_check CHECK ((batch_children > 0)),
    CONSTRAINT jobs_batched CHECK ((((state <> 'batched'::text) OR (batch_job_id IS NOT NULL)) AND ((state <> 'pending_batch'::text) OR (batch_job_id IS NULL)))),
    CONSTRAINT jobs_budget CHECK ((attempts_spent <= attempt_number)),
    CONSTRAINT jobs_cancel_without_lineage CHECK (((cancel_requested_at IS NULL) OR (NOT has_live_lineage))),
    CONSTRAINT jobs_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT jobs_confirming_lineage CHECK (((state <> 'confirming'::text) OR has_live_lineage)),
    CONSTRAINT jobs_ended CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['completed'::text, 'not_actionable'::text, 'quarantined'::text, 'dead'::text])))),
    CONSTRAINT jobs_environment_check CHECK (((length(environment) >= 1) AND (length(environment) <= 64))),
    CONSTRAINT jobs_generation_check CHECK ((generation >= 1)),
    CONSTRAINT jobs_idempotency_key_check CHECK (((length(idempotency_key) >= 1) AND (length(idempotency_key) <= 255))),
    CONSTRAINT jobs_kind_check CHECK (((length(kind) >= 1) AND (length(kind) <= 128))),
    CONSTRAINT jobs_limit_key_check CHECK (((length(limit_key) >= 1) AND (length(limit_key) <= 255))),
    CONSTRAINT jobs_lineage_kept CHECK (((NOT has_live_lineage) OR (state = ANY (ARRAY['processing'::text, 'confirming'::text, 'retry'::text])))),
    CONSTRAINT jobs_priority_check CHECK (((priority >= 1) AND (priority <= 2097151))),
    CONSTRAINT jobs_request_check CHECK (((jsonb_typeof(request) = 'object'::text) AND (octet_length((request)::text) <= 131072))),
    CONSTRAINT jobs_request_digest_check CHECK ((octet_length(request_digest) = 32)),
    CONSTRAINT jobs_role_check CHECK ((role ~ '^[a-z][a-z0-9-]{0,62}$'::text)),
    CONSTRAINT jobs_tags_check CHECK (((cardinality(tags) <= 16) AND (array_position(tags, NULL::text) IS NULL)))
)
WITH (autovacuum_analyze_scale_factor=0.02, autovacuum_vacuum_insert_scale_factor=0.05, autovacuum_vacuum_scale_factor=0.02, fillfactor=50);

CREATE TABLE coordination.limits (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    limit_key text NOT NULL,
    concurrent_max integer,
    rate_max integer,
    rate_seconds integer,
    full_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT limits_pkey PRIMARY KEY (chain_id, environment, limit_key),
    CONSTRAINT limits_concurrent_max_check CHECK (((concurrent_max >= 1) AND (concurrent_max <= 100000))),
    CONSTRAINT limits_limit_key_check CHECK (((length(limit_key) >= 1) AND (length(limit_key) <= 255))),
    CONSTRAINT limits_rate_max_check CHECK (((rate_max >= 1) AND (rate_max <= 1000000))),
    CONSTRAINT limits_rate_seconds_check CHECK (((rate_seconds >= 1) AND (rate_seconds <= 86400))),
    CONSTRAINT limits_rate_whole CHECK (((rate_max IS NULL) = (rate_seconds IS NULL)))
)
WITH (fillfactor=50);

CREATE TABLE coordination.operator_actions (
    action_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    action text NOT NULL,
    actor text NOT NULL,
    job_ids uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    acted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT operator_actions_pkey PRIMARY KEY (action_id),
    CONSTRAINT operator_actions_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 128)))
);

CREATE TABLE coordination.outbox (
    job_id uuid NOT NULL,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    due_at timestamp with time zone NOT NULL,
    published_at timestamp with time zone,
    limit_key text,
    rank_at timestamp with time zone NOT NULL,
    CONSTRAINT outbox_pkey PRIMARY KEY (job_id)
)
WITH (autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=200, fillfactor=50);

CREATE TABLE coordination.pauses (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    role text NOT NULL,
    kind text DEFAULT ''::text NOT NULL,
    reason text NOT NULL,
    actor text NOT NULL,
    paused_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT pauses_pkey PRIMARY KEY (chain_id, environment, role, kind),
    CONSTRAINT pauses_actor_check CHECK (((length(actor) >= 1) AND (length(actor) <= 128))),
    CONSTRAINT pauses_reason_check CHECK (((length(reason) >= 1) AND (length(reason) <= 500)))
);

CREATE TABLE coordination.retention (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    swept_to uuid NOT NULL,
    swept_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT retention_pkey PRIMARY KEY (chain_id, environment)
);

CREATE TABLE coordination.schedules (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    name text NOT NULL,
    declaration jsonb NOT NULL,
    decided_until timestamp with time zone NOT NULL,
    last_slot_at timestamp with time zone,
    confirmed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    first_seen_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT schedules_pkey PRIMARY KEY (chain_id, environment, name),
    CONSTRAINT schedules_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT schedules_declaration_check CHECK ((jsonb_typeof(declaration) = 'object'::text)),
    CONSTRAINT schedules_environment_check CHECK (((length(environment) >= 1) AND (length(environment) <= 64))),
    CONSTRAINT schedules_last_slot_decided CHECK ((last_slot_at <= decided_until)),
    CONSTRAINT schedules_name_check CHECK ((name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'::text))
)
WITH (fillfactor=50);

CREATE TABLE coordination.workers (
    worker_id uuid NOT NULL,
    instance_id text NOT NULL,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    roles text[] NOT NULL,
    host text NOT NULL,
    process_id integer NOT NULL,
    version text NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    heartbeat_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    draining boolean DEFAULT false NOT NULL,
    stopped_at timestamp with time zone,
    kinds text[] DEFAULT '{}'::text[] NOT NULL,
    drain_asked_at timestamp with time zone,
    drained_at timestamp with time zone,
    stopping_at timestamp with time zone,
    CONSTRAINT workers_pkey PRIMARY KEY (worker_id),
    CONSTRAINT workers_instance_id_check CHECK (((length(instance_id) >= 1) AND (length(instance_id) <= 128)))
)
WITH (fillfactor=50);

CREATE TABLE discovery.findings (
    finding_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    name text NOT NULL,
    detail text NOT NULL,
    found_by text NOT NULL,
    found_at timestamp with time zone NOT NULL,
    hour_at timestamp with time zone NOT NULL,
    CONSTRAINT findings_pkey PRIMARY KEY (finding_id),
    CONSTRAINT findings_once_an_hour UNIQUE (chain_id, environment, hour_at, kind, subject, name),
    CONSTRAINT findings_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT findings_detail_check CHECK ((length(detail) <= 2000)),
    CONSTRAINT findings_name_check CHECK (((length(name) >= 1) AND (length(name) <= 60))),
    CONSTRAINT findings_subject_check CHECK (((length(subject) >= 1) AND (length(subject) <= 120)))
);

CREATE TABLE discovery.occasions (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    work_key text NOT NULL,
    occasion integer NOT NULL,
    begun_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT occasions_pkey PRIMARY KEY (chain_id, environment, work_key),
    CONSTRAINT occasions_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT occasions_occasion_check CHECK ((occasion >= 1))
)
WITH (fillfactor=50);

CREATE TABLE intents.children (
    batch_job_id uuid NOT NULL,
    child_index integer NOT NULL,
    job_id uuid NOT NULL,
    gas_stipend bigint NOT NULL,
    state text NOT NULL,
    succeeded boolean,
    return_data_digest bytea,
    changed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT children_pkey PRIMARY KEY (batch_job_id, child_index),
    CONSTRAINT children_child_index_check CHECK ((child_index >= 0)),
    CONSTRAINT children_gas_stipend_check CHECK ((gas_stipend > 0)),
    CONSTRAINT children_result CHECK (((state = 'settled'::text) = ((succeeded IS NOT NULL) AND (return_data_digest IS NOT NULL)))),
    CONSTRAINT children_return_data_digest_check CHECK ((octet_length(return_data_digest) = 32))
);

CREATE TABLE intents.intents (
    job_id uuid NOT NULL,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    place bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    digest bytea NOT NULL,
    protocol bytea NOT NULL,
    account bytea NOT NULL,
    session_key bytea NOT NULL,
    action smallint NOT NULL,
    market bytea NOT NULL,
    payload bytea NOT NULL,
    salt numeric(78,0) NOT NULL,
    deadline bigint NOT NULL,
    signature bytea NOT NULL,
    accepted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    waits boolean DEFAULT true NOT NULL,
    CONSTRAINT intents_pkey PRIMARY KEY (job_id),
    CONSTRAINT intents_digest UNIQUE (chain_id, environment, digest),
    CONSTRAINT intents_account_check CHECK ((octet_length(account) = 20)),
    CONSTRAINT intents_action_check CHECK (((action >= 0) AND (action <= 63))),
    CONSTRAINT intents_deadline_check CHECK ((deadline >= 0)),
    CONSTRAINT intents_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT intents_market_check CHECK ((octet_length(market) = 32)),
    CONSTRAINT intents_payload_check CHECK ((octet_length(payload) <= 4096)),
    CONSTRAINT intents_protocol_check CHECK ((octet_length(protocol) = 20)),
    CONSTRAINT intents_salt_check CHECK (((salt >= (0)::numeric) AND (salt < ((2)::numeric ^ (256)::numeric)))),
    CONSTRAINT intents_session_key_check CHECK ((octet_length(session_key) = 20)),
    CONSTRAINT intents_signature_check CHECK ((octet_length(signature) = 65))
);

CREATE TABLE intents.lines (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    CONSTRAINT lines_pkey PRIMARY KEY (chain_id, environment),
    CONSTRAINT lines_chain_id_check CHECK ((chain_id > 0))
);

CREATE TABLE tayho.roles (
    role text NOT NULL,
    CONSTRAINT roles_pkey PRIMARY KEY (role)
);

CREATE TABLE tayho.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum bytea NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    applied_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
);

CREATE TABLE tayho.transitions (
    table_name text NOT NULL,
    from_state text NOT NULL,
    to_state text NOT NULL,
    operation text,
    CONSTRAINT transitions_pkey PRIMARY KEY (table_name, from_state, to_state)
);

CREATE TABLE transactions.boundaries (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    role text NOT NULL,
    block_number bigint NOT NULL,
    block_hash bytea NOT NULL,
    moved_by text NOT NULL,
    moved_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT boundaries_pkey PRIMARY KEY (chain_id, environment, role),
    CONSTRAINT boundaries_block_hash_check CHECK ((octet_length(block_hash) = 32)),
    CONSTRAINT boundaries_block_number_check CHECK ((block_number >= 0))
)
WITH (fillfactor=50);

CREATE TABLE transactions.broadcasts (
    broadcast_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    tx_hash bytea NOT NULL,
    endpoint text NOT NULL,
    answer text NOT NULL,
    reason text,
    detail text,
    sent_by text,
    answered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT broadcasts_pkey PRIMARY KEY (broadcast_id),
    CONSTRAINT broadcasts_answer_check CHECK ((answer = ANY (ARRAY['accepted'::text, 'already_known'::text, 'refused'::text, 'unknown'::text])))
);

CREATE TABLE transactions.events (
    event_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    lineage_id uuid NOT NULL,
    job_id uuid,
    kind text NOT NULL,
    tx_hash bytea,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    occurred_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (event_id),
    CONSTRAINT events_kind_check CHECK ((kind = ANY (ARRAY['mined'::text, 'reverted'::text, 'cancelled'::text, 'superseded'::text, 'un_mined'::text, 'replaced'::text, 'held'::text, 'released'::text, 'bump_requested'::text, 'cancel_requested'::text])))
);

CREATE TABLE transactions.evidence (
    evidence_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    role text NOT NULL,
    kind text NOT NULL,
    lineage_ids uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    head_block_number bigint,
    head_hash bytea,
    detail jsonb NOT NULL,
    decided_by text NOT NULL,
    decided_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT evidence_pkey PRIMARY KEY (evidence_id),
    CONSTRAINT evidence_bounded CHECK (((cardinality(lineage_ids) <= 1000) AND (octet_length((detail)::text) <= 4194304))),
    CONSTRAINT evidence_final CHECK ((((kind = 'final'::text) = (cardinality(lineage_ids) > 0)) AND ((kind = 'final'::text) = (head_block_number IS NOT NULL)) AND ((kind = 'final'::text) = (head_hash IS NOT NULL)))),
    CONSTRAINT evidence_head_block_number_check CHECK ((head_block_number >= 0)),
    CONSTRAINT evidence_head_hash_check CHECK ((octet_length(head_hash) = 32)),
    CONSTRAINT evidence_kind_check CHECK ((kind = ANY (ARRAY['final'::text, 'contested'::text, 'refuted'::text])))
);

CREATE TABLE transactions.findings (
    finding_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    kind text NOT NULL,
    detail jsonb NOT NULL,
    found_by text NOT NULL,
    found_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT findings_pkey PRIMARY KEY (finding_id),
    CONSTRAINT findings_kind_check CHECK ((kind = ANY (ARRAY['foreign_nonce'::text, 'dropped_mempool'::text, 'low_balance'::text, 'underfunded'::text, 'funded'::text, 'blocked'::text, 'unblocked'::text, 'delegated'::text, 'undelegated'::text, 'superseded'::text, 'revival_conflict'::text, 'world_adopted'::text, 'world_restarted'::text, 'result_missing'::text]))),
    CONSTRAINT findings_signer_check CHECK ((octet_length(signer) = 20))
);

CREATE TABLE transactions.foreign_nonces (
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    world integer NOT NULL,
    nonce bigint NOT NULL,
    tx_hash bytea,
    found_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT foreign_nonces_pkey PRIMARY KEY (chain_id, signer, world, nonce),
    CONSTRAINT foreign_nonces_nonce_check CHECK ((nonce >= 0)),
    CONSTRAINT foreign_nonces_signer_check CHECK ((octet_length(signer) = 20)),
    CONSTRAINT foreign_nonces_tx_hash_check CHECK ((octet_length(tx_hash) = 32)),
    CONSTRAINT foreign_nonces_world_check CHECK ((world >= 1))
);

CREATE TABLE transactions.halts (
    halt_id uuid NOT NULL,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    role text NOT NULL,
    kind text NOT NULL,
    evidence jsonb NOT NULL,
    raised_by text NOT NULL,
    raised_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    resolution text,
    resolved_by text,
    resolved_at timestamp with time zone,
    CONSTRAINT halts_pkey PRIMARY KEY (halt_id),
    CONSTRAINT halts_kind_check CHECK ((kind = ANY (ARRAY['finality_violated'::text, 'chain_reset'::text, 'chain_ahead'::text, 'chain_unknown'::text]))),
    CONSTRAINT halts_resolution_check CHECK ((resolution = ANY (ARRAY['adopted'::text, 'restarted'::text, 'gone'::text]))),
    CONSTRAINT halts_resolved CHECK ((((resolution IS NULL) = (resolved_at IS NULL)) AND ((resolution IS NULL) = (resolved_by IS NULL))))
);

CREATE TABLE transactions.lanes (
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    environment text NOT NULL,
    role text NOT NULL,
    first_nonce bigint NOT NULL,
    next_nonce bigint NOT NULL,
    state text DEFAULT 'open'::text NOT NULL,
    state_reason text,
    world integer DEFAULT 1 NOT NULL,
    latest_nonce bigint,
    pending_nonce bigint,
    balance_wei numeric(78,0),
    is_delegated boolean DEFAULT false NOT NULL,
    is_low boolean DEFAULT false NOT NULL,
    is_pool_dropped boolean DEFAULT false NOT NULL,
    observed_at timestamp with time zone,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT lanes_pkey PRIMARY KEY (chain_id, signer),
    CONSTRAINT lanes_balance_wei_check CHECK ((balance_wei >= (0)::numeric)),
    CONSTRAINT lanes_fence CHECK ((next_nonce >= first_nonce)),
    CONSTRAINT lanes_first_nonce_check CHECK ((first_nonce >= 0)),
    CONSTRAINT lanes_latest_nonce_check CHECK ((latest_nonce >= 0)),
    CONSTRAINT lanes_pending_nonce_check CHECK ((pending_nonce >= 0)),
    CONSTRAINT lanes_signer_check CHECK ((octet_length(signer) = 20)),
    CONSTRAINT lanes_world_check CHECK ((world >= 1))
)
WITH (fillfactor=50);

CREATE TABLE transactions.lineages (
    lineage_id uuid NOT NULL,
    purpose text NOT NULL,
    job_id uuid,
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    world integer DEFAULT 1 NOT NULL,
    nonce bigint NOT NULL,
    call_hash bytea NOT NULL,
    environment text NOT NULL,
    role text NOT NULL,
    to_address bytea NOT NULL,
    value_wei numeric(78,0) NOT NULL,
    call_data bytea NOT NULL,
    gas_limit_min bigint DEFAULT 0 NOT NULL,
    needs_result boolean DEFAULT false NOT NULL,
    state text NOT NULL,
    state_reason text,
    hold text,
    hold_reason text,
    held_at timestamp with time zone,
    bump_requested_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    included_block_number bigint,
    superseded_in bytea,
    superseded_by bytea,
    disowned_at timestamp with time zone,
    check_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    allocated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    CONSTRAINT lineages_pkey PRIMARY KEY (lineage_id),
    CONSTRAINT lineages_identity UNIQUE (lineage_id, chain_id, signer, nonce, call_hash),
    CONSTRAINT lineages_call_data_check CHECK ((octet_length(call_data) <= 131072)),
    CONSTRAINT lineages_call_hash_check CHECK ((octet_length(call_hash) = 32)),
    CONSTRAINT lineages_disowned CHECK (((disowned_at IS NULL) OR (purpose = 'call'::text))),
    CONSTRAINT lineages_ended CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['mined'::text, 'reverted'::text, 'cancelled'::text, 'superseded'::text, 'abandoned'::text])))),
    CONSTRAINT lineages_gas_limit_min_check CHECK ((gas_limit_min >= 0)),
    CONSTRAINT lineages_held CHECK ((((hold IS NULL) = (held_at IS NULL)) AND ((hold IS NULL) = (hold_reason IS NULL)))),
    CONSTRAINT lineages_hold CHECK ((hold = ANY (ARRAY['fee_capped'::text, 'replacements_spent'::text, 'underfunded'::text, 'limits'::text, 'refused'::text, 'nonce_used'::text, 'result_missing'::text]))),
    CONSTRAINT lineages_nonce_check CHECK ((nonce >= 0)),
    CONSTRAINT lineages_purpose CHECK (((purpose = 'call'::text) = (job_id IS NOT NULL))),
    CONSTRAINT lineages_purpose_check CHECK ((purpose = ANY (ARRAY['call'::text, 'filler'::text]))),
    CONSTRAINT lineages_superseded_by_check CHECK ((octet_length(superseded_by) = 32)),
    CONSTRAINT lineages_superseded_in CHECK (((superseded_in IS NULL) OR (included_block_number IS NOT NULL))),
    CONSTRAINT lineages_superseded_in_check CHECK ((octet_length(superseded_in) = 32)),
    CONSTRAINT lineages_to_address_check CHECK ((octet_length(to_address) = 20)),
    CONSTRAINT lineages_value CHECK (((value_wei >= (0)::numeric) AND (value_wei < ((2)::numeric ^ (256)::numeric)))),
    CONSTRAINT lineages_world_check CHECK ((world >= 1))
)
WITH (fillfactor=60);

CREATE TABLE transactions.members (
    tx_hash bytea NOT NULL,
    lineage_id uuid NOT NULL,
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    nonce bigint NOT NULL,
    call_hash bytea NOT NULL,
    member_number integer NOT NULL,
    transaction_type smallint DEFAULT 2 NOT NULL,
    is_cancellation boolean DEFAULT false NOT NULL,
    gas_limit bigint NOT NULL,
    max_fee_per_gas_wei numeric(78,0) NOT NULL,
    max_priority_fee_per_gas_wei numeric(78,0) NOT NULL,
    key_id text NOT NULL,
    cipher_nonce bytea NOT NULL,
    ciphertext bytea NOT NULL,
    state text NOT NULL,
    signed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT members_pkey PRIMARY KEY (tx_hash),
    CONSTRAINT members_number UNIQUE (lineage_id, member_number),
    CONSTRAINT members_seal UNIQUE (key_id, cipher_nonce),
    CONSTRAINT members_cipher_nonce_check CHECK ((octet_length(cipher_nonce) = 12)),
    CONSTRAINT members_ciphertext_check CHECK ((octet_length(ciphertext) > 16)),
    CONSTRAINT members_fees CHECK (((max_priority_fee_per_gas_wei >= (0)::numeric) AND (max_priority_fee_per_gas_wei <= max_fee_per_gas_wei))),
    CONSTRAINT members_gas_limit_check CHECK ((gas_limit > 0)),
    CONSTRAINT members_member_number_check CHECK ((member_number >= 1)),
    CONSTRAINT members_transaction_type_check CHECK ((transaction_type = ANY (ARRAY[0, 2]))),
    CONSTRAINT members_tx_hash_check CHECK ((octet_length(tx_hash) = 32))
)
WITH (fillfactor=80);

CREATE TABLE transactions.pools (
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    role text NOT NULL,
    cursor_position bigint DEFAULT 0 NOT NULL,
    is_halted boolean DEFAULT false NOT NULL,
    anchor_block_number bigint,
    anchor_block_hash bytea,
    CONSTRAINT pools_pkey PRIMARY KEY (chain_id, environment, role),
    CONSTRAINT pools_anchor CHECK (((anchor_block_number IS NULL) = (anchor_block_hash IS NULL))),
    CONSTRAINT pools_anchor_block_hash_check CHECK ((octet_length(anchor_block_hash) = 32)),
    CONSTRAINT pools_anchor_block_number_check CHECK ((anchor_block_number >= 0)),
    CONSTRAINT pools_chain_id_check CHECK ((chain_id > 0))
)
WITH (fillfactor=50);

CREATE TABLE transactions.receipts (
    tx_hash bytea NOT NULL,
    block_hash bytea NOT NULL,
    block_number bigint NOT NULL,
    transaction_index integer NOT NULL,
    succeeded boolean NOT NULL,
    gas_used bigint NOT NULL,
    effective_gas_price_wei numeric(78,0) NOT NULL,
    head_block_number bigint NOT NULL,
    observed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    orphaned_at timestamp with time zone,
    CONSTRAINT receipts_pkey PRIMARY KEY (tx_hash, block_hash),
    CONSTRAINT receipts_block_hash_check CHECK ((octet_length(block_hash) = 32)),
    CONSTRAINT receipts_block_number_check CHECK ((block_number >= 0))
);

CREATE TABLE transactions.reorganisations (
    reorganisation_id bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
    chain_id bigint NOT NULL,
    block_number bigint NOT NULL,
    old_hash bytea NOT NULL,
    new_hash bytea NOT NULL,
    head_block_number bigint NOT NULL,
    found_by text NOT NULL,
    found_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT reorganisations_pkey PRIMARY KEY (reorganisation_id),
    CONSTRAINT reorganisations_block_number_check CHECK ((block_number >= 0)),
    CONSTRAINT reorganisations_competing CHECK ((old_hash <> new_hash)),
    CONSTRAINT reorganisations_new_hash_check CHECK ((octet_length(new_hash) = 32)),
    CONSTRAINT reorganisations_old_hash_check CHECK ((octet_length(old_hash) = 32))
);

CREATE TABLE transactions.retirement_checks (
    check_id uuid NOT NULL,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    signer bytea,
    key_id text,
    nonce_fence bigint,
    has_passed boolean NOT NULL,
    head_block_number bigint,
    head_hash bytea,
    detail jsonb NOT NULL,
    checked_by text NOT NULL,
    checked_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT retirement_checks_pkey PRIMARY KEY (check_id),
    CONSTRAINT retirement_checks_checked_by_check CHECK (((length(checked_by) >= 1) AND (length(checked_by) <= 128))),
    CONSTRAINT retirement_checks_detail_check CHECK ((octet_length((detail)::text) <= 1048576)),
    CONSTRAINT retirement_checks_fence CHECK (((signer IS NULL) = (nonce_fence IS NULL))),
    CONSTRAINT retirement_checks_head CHECK ((((head_block_number IS NULL) = (head_hash IS NULL)) AND ((head_hash IS NOT NULL) OR (NOT has_passed)))),
    CONSTRAINT retirement_checks_head_block_number_check CHECK ((head_block_number >= 0)),
    CONSTRAINT retirement_checks_head_hash_check CHECK ((octet_length(head_hash) = 32)),
    CONSTRAINT retirement_checks_key_id_check CHECK (((length(key_id) >= 1) AND (length(key_id) <= 128))),
    CONSTRAINT retirement_checks_nonce_fence_check CHECK ((nonce_fence >= 0)),
    CONSTRAINT retirement_checks_signer_check CHECK ((octet_length(signer) = 20)),
    CONSTRAINT retirement_checks_subject CHECK (((signer IS NULL) <> (key_id IS NULL)))
);

CREATE TABLE transactions.successions (
    chain_id bigint NOT NULL,
    old_signer bytea NOT NULL,
    new_signer bytea NOT NULL,
    check_id uuid NOT NULL,
    handed_by text NOT NULL,
    handed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT successions_pkey PRIMARY KEY (chain_id, old_signer),
    CONSTRAINT successions_new UNIQUE (chain_id, new_signer),
    CONSTRAINT successions_handed_by_check CHECK (((length(handed_by) >= 1) AND (length(handed_by) <= 128))),
    CONSTRAINT successions_two CHECK ((old_signer <> new_signer))
);

ALTER TABLE coordination.attempts ADD CONSTRAINT attempts_job_id_fkey FOREIGN KEY (job_id) REFERENCES coordination.jobs(job_id);

ALTER TABLE coordination.operator_actions ADD CONSTRAINT operator_actions_action_check CHECK ((action = ANY (ARRAY['replay'::text, 'cancel'::text, 'pause'::text, 'resume'::text, 'limit'::text, 'drain'::text, 'undrain'::text, 'signer_drain'::text, 'signer_undrain'::text, 'signer_retire_check'::text, 'signer_pool_rotate'::text, 'signer_pool_add'::text, 'key_retire_check'::text, 'release'::text]))) NOT VALID;

ALTER TABLE coordination.outbox ADD CONSTRAINT outbox_job_id_fkey FOREIGN KEY (job_id) REFERENCES coordination.jobs(job_id);

ALTER TABLE intents.children ADD CONSTRAINT children_job_id_fkey FOREIGN KEY (job_id) REFERENCES intents.intents(job_id);

ALTER TABLE intents.intents ADD CONSTRAINT intents_chain_id_environment_fkey FOREIGN KEY (chain_id, environment) REFERENCES intents.lines(chain_id, environment);

ALTER TABLE transactions.boundaries ADD CONSTRAINT boundaries_chain_id_environment_role_fkey FOREIGN KEY (chain_id, environment, role) REFERENCES transactions.pools(chain_id, environment, role);

ALTER TABLE transactions.broadcasts ADD CONSTRAINT broadcasts_tx_hash_fkey FOREIGN KEY (tx_hash) REFERENCES transactions.members(tx_hash);

ALTER TABLE transactions.events ADD CONSTRAINT events_lineage_id_fkey FOREIGN KEY (lineage_id) REFERENCES transactions.lineages(lineage_id);

ALTER TABLE transactions.findings ADD CONSTRAINT findings_chain_id_signer_fkey FOREIGN KEY (chain_id, signer) REFERENCES transactions.lanes(chain_id, signer);

ALTER TABLE transactions.foreign_nonces ADD CONSTRAINT foreign_nonces_chain_id_signer_fkey FOREIGN KEY (chain_id, signer) REFERENCES transactions.lanes(chain_id, signer);

ALTER TABLE transactions.halts ADD CONSTRAINT halts_chain_id_environment_role_fkey FOREIGN KEY (chain_id, environment, role) REFERENCES transactions.pools(chain_id, environment, role);

ALTER TABLE transactions.lanes ADD CONSTRAINT lanes_chain_id_environment_role_fkey FOREIGN KEY (chain_id, environment, role) REFERENCES transactions.pools(chain_id, environment, role);

ALTER TABLE transactions.lineages ADD CONSTRAINT lineages_chain_id_signer_fkey FOREIGN KEY (chain_id, signer) REFERENCES transactions.lanes(chain_id, signer);

ALTER TABLE transactions.members ADD CONSTRAINT members_lineage_id_chain_id_signer_nonce_call_hash_fkey FOREIGN KEY (lineage_id, chain_id, signer, nonce, call_hash) REFERENCES transactions.lineages(lineage_id, chain_id, signer, nonce, call_hash);

ALTER TABLE transactions.receipts ADD CONSTRAINT receipts_tx_hash_fkey FOREIGN KEY (tx_hash) REFERENCES transactions.members(tx_hash);

ALTER TABLE transactions.retirement_checks ADD CONSTRAINT retirement_checks_chain_id_signer_fkey FOREIGN KEY (chain_id, signer) REFERENCES transactions.lanes(chain_id, signer);

ALTER TABLE transactions.successions ADD CONSTRAINT successions_chain_id_new_signer_fkey FOREIGN KEY (chain_id, new_signer) REFERENCES transactions.lanes(chain_id, signer);

ALTER TABLE transactions.successions ADD CONSTRAINT successions_chain_id_old_signer_fkey FOREIGN KEY (chain_id, old_signer) REFERENCES transactions.lanes(chain_id, signer);

ALTER TABLE transactions.successions ADD CONSTRAINT successions_check_id_fkey FOREIGN KEY (check_id) REFERENCES transactions.retirement_checks(check_id);

CREATE UNIQUE INDEX attempts_one_running ON coordination.attempts USING btree (job_id) WHERE (state = 'running'::text);

CREATE INDEX jobs_of_batch ON coordination.jobs USING btree (batch_job_id) WHERE (batch_job_id IS NOT NULL);

CREATE INDEX jobs_set_aside ON coordination.jobs USING btree (chain_id, environment, job_id) WHERE set_aside;

CREATE INDEX operator_actions_jobs ON coordination.operator_actions USING gin (job_ids);

CREATE INDEX outbox_due ON coordination.outbox USING btree (chain_id, environment, due_at) WHERE ((limit_key IS NULL) OR (published_at IS NOT NULL));

CREATE INDEX outbox_in_flight ON coordination.outbox USING btree (chain_id, environment, limit_key, due_at) WHERE ((limit_key IS NOT NULL) AND (published_at IS NOT NULL));

CREATE INDEX outbox_limited_due ON coordination.outbox USING btree (chain_id, environment, due_at) WHERE ((limit_key IS NOT NULL) AND (published_at IS NULL) AND (rank_at > '-infinity'::timestamp with time zone));

CREATE INDEX outbox_limited_rank ON coordination.outbox USING btree (chain_id, environment, limit_key, rank_at, due_at) WHERE ((limit_key IS NOT NULL) AND (published_at IS NULL));

CREATE UNIQUE INDEX children_one_batch ON intents.children USING btree (job_id) WHERE (state <> 'released'::text);

CREATE INDEX intents_waiting ON intents.intents USING btree (chain_id, environment, protocol, place) WHERE waits;

CREATE INDEX broadcasts_of_member ON transactions.broadcasts USING btree (tx_hash, broadcast_id);

CREATE INDEX events_of_lineage ON transactions.events USING btree (lineage_id);

CREATE INDEX evidence_age ON transactions.evidence USING btree (chain_id, environment, role, decided_at);

CREATE INDEX evidence_of_lineage ON transactions.evidence USING gin (lineage_ids);

CREATE INDEX findings_of_lane ON transactions.findings USING btree (chain_id, signer, found_at);

CREATE UNIQUE INDEX halts_open ON transactions.halts USING btree (chain_id, environment, role, kind) WHERE (resolved_at IS NULL);

CREATE INDEX lanes_pool ON transactions.lanes USING btree (chain_id, environment, role);

CREATE INDEX lineages_in_flight ON transactions.lineages USING btree (chain_id, signer) WHERE ((state = ANY (ARRAY['allocated'::text, 'signed'::text, 'broadcast'::text])) AND (included_block_number IS NULL));

CREATE UNIQUE INDEX lineages_job ON transactions.lineages USING btree (job_id) WHERE ((state = ANY (ARRAY['allocated'::text, 'signed'::text, 'broadcast'::text, 'mined'::text])) AND (disowned_at IS NULL));

CREATE UNIQUE INDEX lineages_nonce ON transactions.lineages USING btree (chain_id, signer, world, nonce) WHERE (state <> 'abandoned'::text);

CREATE INDEX lineages_of_job ON transactions.lineages USING btree (job_id);

CREATE INDEX lineages_on_hold ON transactions.lineages USING btree (chain_id, environment, role) WHERE (hold IS NOT NULL);

CREATE INDEX lineages_open ON transactions.lineages USING btree (chain_id, environment, role, check_at) WHERE (state = ANY (ARRAY['allocated'::text, 'signed'::text, 'broadcast'::text]));

CREATE INDEX lineages_superseded ON transactions.lineages USING btree (chain_id, environment, role, included_block_number) WHERE ((state = 'superseded'::text) AND (superseded_in IS NOT NULL));

CREATE UNIQUE INDEX members_one_mined ON transactions.members USING btree (lineage_id) WHERE (state = ANY (ARRAY['mined'::text, 'reverted'::text]));

CREATE INDEX receipts_canonical ON transactions.receipts USING btree (block_number, block_hash) WHERE (orphaned_at IS NULL);

CREATE UNIQUE INDEX receipts_one_canonical ON transactions.receipts USING btree (tx_hash) WHERE (orphaned_at IS NULL);

CREATE INDEX reorganisations_of_chain ON transactions.reorganisations USING btree (chain_id, found_at);

CREATE INDEX retirement_checks_of_signer ON transactions.retirement_checks USING btree (chain_id, signer, checked_at) WHERE (signer IS NOT NULL);

CREATE TRIGGER attempts_ended_immutable BEFORE UPDATE ON coordination.attempts FOR EACH ROW WHEN ((old.state <> 'running'::text)) EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER attempts_kept BEFORE DELETE ON coordination.attempts FOR EACH ROW EXECUTE FUNCTION coordination.refuse_delete_but_archive();

CREATE TRIGGER attempts_kept_whole BEFORE TRUNCATE ON coordination.attempts FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER attempts_transition BEFORE UPDATE ON coordination.attempts FOR EACH ROW WHEN ((old.state IS DISTINCT FROM new.state)) EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER attempts_transition_on_insert BEFORE INSERT ON coordination.attempts FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER jobs_children_end AFTER UPDATE ON coordination.jobs FOR EACH ROW WHEN (((new.batch_children IS NOT NULL) AND (new.state = ANY (ARRAY['dead'::text, 'not_actionable'::text, 'quarantined'::text])) AND (old.state IS DISTINCT FROM new.state))) EXECUTE FUNCTION coordination.end_children();

CREATE TRIGGER jobs_fence_grows BEFORE UPDATE OF attempt_number, generation ON coordination.jobs FOR EACH ROW WHEN (((new.attempt_number < old.attempt_number) OR (new.generation < old.generation))) EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER jobs_identity_immutable BEFORE UPDATE OF job_id, chain_id, environment, idempotency_key, request_digest, role, kind, request, created_at, limit_key, tags ON coordination.jobs FOR EACH ROW WHEN ((((((((((((old.job_id IS DISTINCT FROM new.job_id) OR (old.chain_id IS DISTINCT FROM new.chain_id)) OR (old.environment IS DISTINCT FROM new.environment)) OR (old.idempotency_key IS DISTINCT FROM new.idempotency_key)) OR (old.request_digest IS DISTINCT FROM new.request_digest)) OR (old.role IS DISTINCT FROM new.role)) OR (old.kind IS DISTINCT FROM new.kind)) OR (old.created_at IS DISTINCT FROM new.created_at)) OR (old.limit_key IS DISTINCT FROM new.limit_key)) OR (old.tags IS DISTINCT FROM new.tags)) OR ((old.request IS DISTINCT FROM new.request) AND (new.archived_at IS NULL)))) EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER jobs_kept BEFORE DELETE ON coordination.jobs FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER jobs_kept_whole BEFORE TRUNCATE ON coordination.jobs FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER jobs_terminal_immutable BEFORE UPDATE ON coordination.jobs FOR EACH ROW WHEN (((old.state = ANY (ARRAY['completed'::text, 'not_actionable'::text, 'quarantined'::text, 'dead'::text])) AND (new.state = old.state))) EXECUTE FUNCTION coordination.refuse_change_but_archive();

CREATE TRIGGER jobs_transition BEFORE UPDATE ON coordination.jobs FOR EACH ROW WHEN ((old.state IS DISTINCT FROM new.state)) EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER jobs_transition_on_insert BEFORE INSERT ON coordination.jobs FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER operator_actions_append_only BEFORE DELETE OR UPDATE ON coordination.operator_actions FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER operator_actions_kept_whole BEFORE TRUNCATE ON coordination.operator_actions FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER schedules_identity_immutable BEFORE UPDATE OF chain_id, environment, name, first_seen_at ON coordination.schedules FOR EACH ROW WHEN (((((old.chain_id IS DISTINCT FROM new.chain_id) OR (old.environment IS DISTINCT FROM new.environment)) OR (old.name IS DISTINCT FROM new.name)) OR (old.first_seen_at IS DISTINCT FROM new.first_seen_at))) EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER schedules_slots_grow BEFORE UPDATE OF decided_until, last_slot_at ON coordination.schedules FOR EACH ROW WHEN (((new.decided_until < old.decided_until) OR ((old.last_slot_at IS NOT NULL) AND ((new.last_slot_at IS NULL) OR (new.last_slot_at < old.last_slot_at))))) EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER findings_append_only BEFORE DELETE OR UPDATE ON discovery.findings FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER occasions_count BEFORE UPDATE OF occasion ON discovery.occasions FOR EACH ROW WHEN ((new.occasion <> (old.occasion + 1))) EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER occasions_identity_immutable BEFORE UPDATE OF chain_id, environment, work_key ON discovery.occasions FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER occasions_kept BEFORE DELETE ON discovery.occasions FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER children_immutable BEFORE UPDATE OF batch_job_id, child_index, job_id, gas_stipend ON intents.children FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER children_kept BEFORE DELETE ON intents.children FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER children_transition BEFORE UPDATE ON intents.children FOR EACH ROW WHEN ((old.state IS DISTINCT FROM new.state)) EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER children_transition_on_insert BEFORE INSERT ON intents.children FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER intents_immutable BEFORE UPDATE OF job_id, chain_id, environment, place, digest, protocol, account, session_key, action, market, payload, salt, deadline, signature, accepted_at ON intents.intents FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER intents_kept BEFORE DELETE ON intents.intents FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER broadcasts_append_only BEFORE DELETE OR UPDATE ON transactions.broadcasts FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER events_append_only BEFORE DELETE OR UPDATE ON transactions.events FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER evidence_immutable BEFORE UPDATE ON transactions.evidence FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER evidence_kept BEFORE DELETE ON transactions.evidence FOR EACH ROW EXECUTE FUNCTION transactions.refuse_delete_but_by_policy();

CREATE TRIGGER evidence_kept_whole BEFORE TRUNCATE ON transactions.evidence FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER findings_append_only BEFORE DELETE OR UPDATE ON transactions.findings FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER foreign_nonces_append_only BEFORE DELETE OR UPDATE ON transactions.foreign_nonces FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER halts_immutable BEFORE UPDATE OF halt_id, chain_id, environment, role, kind, evidence, raised_by, raised_at ON transactions.halts FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER halts_kept BEFORE DELETE ON transactions.halts FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER halts_resolved_once BEFORE UPDATE ON transactions.halts FOR EACH ROW WHEN ((old.resolved_at IS NOT NULL)) EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER lanes_kept BEFORE DELETE ON transactions.lanes FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER lanes_retired_immutable BEFORE UPDATE OF signer, chain_id, environment, role, first_nonce, next_nonce, world ON transactions.lanes FOR EACH ROW WHEN ((old.state = 'retired'::text)) EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER lanes_transition BEFORE UPDATE ON transactions.lanes FOR EACH ROW WHEN ((old.state IS DISTINCT FROM new.state)) EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER lanes_transition_on_insert BEFORE INSERT ON transactions.lanes FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER lineages_identity_immutable BEFORE UPDATE OF lineage_id, purpose, job_id, chain_id, signer, world, nonce, call_hash, to_address, value_wei, call_data, gas_limit_min, needs_result ON transactions.lineages FOR EACH ROW WHEN ((((((((((((((old.lineage_id IS DISTINCT FROM new.lineage_id) OR (old.purpose IS DISTINCT FROM new.purpose)) OR (old.job_id IS DISTINCT FROM new.job_id)) OR (old.chain_id IS DISTINCT FROM new.chain_id)) OR (old.signer IS DISTINCT FROM new.signer)) OR (old.world IS DISTINCT FROM new.world)) OR (old.nonce IS DISTINCT FROM new.nonce)) OR (old.call_hash IS DISTINCT FROM new.call_hash)) OR (old.to_address IS DISTINCT FROM new.to_address)) OR (old.value_wei IS DISTINCT FROM new.value_wei)) OR (old.call_data IS DISTINCT FROM new.call_data)) OR (old.gas_limit_min IS DISTINCT FROM new.gas_limit_min)) OR (old.needs_result IS DISTINCT FROM new.needs_result))) EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER lineages_kept BEFORE DELETE ON transactions.lineages FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER lineages_terminal_immutable BEFORE UPDATE ON transactions.lineages FOR EACH ROW WHEN (((old.state = ANY (ARRAY['mined'::text, 'reverted'::text, 'cancelled'::text, 'superseded'::text, 'abandoned'::text])) AND (new.state = old.state))) EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER lineages_transition BEFORE UPDATE ON transactions.lineages FOR EACH ROW WHEN ((old.state IS DISTINCT FROM new.state)) EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER lineages_transition_on_insert BEFORE INSERT ON transactions.lineages FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER members_identity_immutable BEFORE UPDATE OF tx_hash, lineage_id, chain_id, signer, nonce, call_hash, member_number, transaction_type, is_cancellation, gas_limit, max_fee_per_gas_wei, max_priority_fee_per_gas_wei, key_id, cipher_nonce, ciphertext, signed_at ON transactions.members FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER members_kept BEFORE DELETE ON transactions.members FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER members_transition BEFORE UPDATE ON transactions.members FOR EACH ROW WHEN ((old.state IS DISTINCT FROM new.state)) EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER members_transition_on_insert BEFORE INSERT ON transactions.members FOR EACH ROW EXECUTE FUNCTION tayho.refuse_unlisted_transition();

CREATE TRIGGER receipts_immutable BEFORE UPDATE OF tx_hash, block_hash, block_number, transaction_index, succeeded, gas_used, effective_gas_price_wei, head_block_number, observed_at ON transactions.receipts FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER receipts_kept BEFORE DELETE ON transactions.receipts FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER reorganisations_append_only BEFORE DELETE OR UPDATE ON transactions.reorganisations FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER retirement_checks_append_only BEFORE DELETE OR UPDATE ON transactions.retirement_checks FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER retirement_checks_kept_whole BEFORE TRUNCATE ON transactions.retirement_checks FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER successions_append_only BEFORE DELETE OR UPDATE ON transactions.successions FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

CREATE TRIGGER successions_kept_whole BEFORE TRUNCATE ON transactions.successions FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();
