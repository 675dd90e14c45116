-- The door for producers in any language: tayho.enqueue, equal to the Python one (DLV-1, DLV-2, DLV-10). Its refusals:
-- TY010 the key stands for another request, TY011 the document, TY012 another argument.

-- Which kinds a worker can run: who finds a kind that it does not know asks here whether to wait for another (DLV-10).
ALTER TABLE coordination.workers ADD COLUMN kinds text[] NOT NULL DEFAULT '{}';

-- The roles of tayho.kernel.roles; a test holds the two equal. A job of a misspelt role would wait for ever.
CREATE TABLE tayho.roles (role text PRIMARY KEY);
INSERT INTO tayho.roles (role) VALUES
('relayer'), ('automation'), ('funding-oracle'), ('depth-attester'), ('resolution-attester'), ('guardian'), ('revenue'),
('payouts'), ('engine'), ('watcher'), ('notifier'), ('auditor');

-- A version-7 UUID (RFC 9562), as tayho.kernel.ids makes it: 48 bits of milliseconds, then randomness.
CREATE FUNCTION tayho.new_id() RETURNS uuid
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
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
$$;

CREATE FUNCTION tayho.refuse_argument(fault text, hint text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'TY012', MESSAGE = fault, HINT = hint;
END $$;

CREATE FUNCTION tayho.refuse_document(fault text, hint text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'TY011', MESSAGE = 'the request is refused: ' || fault, HINT = hint;
END $$;

-- A name: 1 to characters_max characters, none of them a control character.
CREATE FUNCTION tayho.refuse_unless_name(argument text, value text, characters_max integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
END $$;

-- The text as a document that every reader reads alike, or TY011. tayho.kernel.json_document says the same in Python.
CREATE FUNCTION tayho.document_of(request text) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
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
END $$;

CREATE FUNCTION tayho.refuse_unless_new_job(
    chain_id bigint, environment text, kind text, role text, idempotency_key text, priority integer,
    run_at timestamptz, limit_key text, tags text[]
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
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
END $$;

-- The job and the promise of its delivery, in the caller's transaction. A lost race for a key waits for the winner and
-- answers with its job. Not SECURITY DEFINER: a producer needs INSERT and SELECT on the two tables itself.
CREATE FUNCTION tayho.enqueue(
    chain_id bigint,
    environment text,
    kind text,
    role text,
    idempotency_key text,
    request text,
    priority integer DEFAULT 1000,
    run_at timestamptz DEFAULT NULL,
    limit_key text DEFAULT NULL,
    tags text[] DEFAULT '{}',
    wake boolean DEFAULT true
) RETURNS TABLE (job_id uuid, created boolean, state text)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
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
END $$;
