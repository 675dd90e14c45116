-- Outbox rows are named by arrays, and running attempts by their whole key and `ended_at`, where a join and `state` would say
-- the same: most entries of the small indexes may be of dead rows, and a planner that believes them gone would walk a whole
-- index to join it.

-- name: lock_jobs
-- A statement of its own, before a taking over and `settle`: their snapshot must be younger than whatever they waited
-- for, or an attempt that began meanwhile would be invisible to them and stay `running` for ever. What a job carries ends
-- with it, so it is locked with it, in the one order of all.
SELECT jobs.job_id FROM coordination.jobs AS jobs
WHERE jobs.job_id = ANY (
    ARRAY(
        SELECT asked.job_id FROM unnest($1::uuid[]) AS asked (job_id)
        UNION ALL
        SELECT children.job_id FROM coordination.jobs AS children WHERE children.batch_job_id = ANY ($1::uuid[])
    )
)
ORDER BY jobs.job_id
FOR UPDATE;

-- name: begin
-- One verdict for each delivery. Only `begun` starts an attempt; a job that another attempt held is taken over, because
-- BullMQ hands a delivery out again only when the other's lock has run out: its completion finds another token.
-- Taking over ($9) needs `lock_jobs` before it, in the same transaction; without, such a job is `contended`.
WITH asked AS (
    SELECT * FROM unnest($1::uuid[], $2::int[], $3::text[]) AS a (job_id, asked_generation, asked_token)
),
locked AS (
    SELECT jobs.*, asked.asked_generation, asked.asked_token
    FROM asked
    JOIN coordination.jobs AS jobs USING (job_id)
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
),
judged AS (
    SELECT
        locked.*,
        CASE
            WHEN locked.chain_id <> $6 OR locked.environment <> $7 THEN 'foreign'
            WHEN locked.state NOT IN ('queued', 'retry', 'processing') THEN 'not_deliverable'
            WHEN locked.generation <> locked.asked_generation THEN 'stale_generation'
            WHEN locked.state = 'processing' AND locked.attempt_token = locked.asked_token THEN 'held'
            WHEN locked.state = 'processing' AND NOT $9 THEN 'contended'
            WHEN locked.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN locked.run_at > clock_timestamp() THEN 'early'
            WHEN NOT (locked.kind = ANY ($8::text[])) THEN 'unknown_kind'
            WHEN locked.attempts_spent >= $5 AND NOT locked.has_live_lineage THEN 'exhausted'
            -- A job whose nonce is taken goes on: its lane waits for it.
            WHEN NOT locked.has_live_lineage AND EXISTS (
                SELECT FROM coordination.pauses AS pauses
                WHERE pauses.chain_id = locked.chain_id AND pauses.environment = locked.environment
                    AND pauses.role = locked.role AND pauses.kind IN ('', locked.kind)
            ) THEN 'paused'
            ELSE 'begun'
        END AS verdict
    FROM locked
),
lost AS (
    UPDATE coordination.attempts AS attempts
    SET state = 'lost', ended_at = clock_timestamp(), detail = '{"reason": "taken over by a later delivery"}'
    FROM judged
    WHERE judged.verdict IN ('begun', 'exhausted', 'cancelled') AND judged.state = 'processing'
        AND attempts.job_id = judged.job_id AND attempts.attempt_number = judged.attempt_number
        AND attempts.ended_at IS NULL
    RETURNING attempts.job_id
),
begun AS (
    UPDATE coordination.jobs AS jobs
    SET state = 'processing', attempt_number = jobs.attempt_number + 1, attempts_spent = jobs.attempts_spent + 1,
        attempt_token = judged.asked_token, attempt_worker_id = $4, updated_at = clock_timestamp()
    FROM judged
    WHERE jobs.job_id = judged.job_id AND judged.verdict = 'begun'
    RETURNING jobs.job_id, jobs.attempt_number, jobs.generation, jobs.attempt_token
),
recorded AS (
    INSERT INTO coordination.attempts (job_id, attempt_number, generation, token, worker_id, state)
    SELECT begun.job_id, begun.attempt_number, begun.generation, begun.attempt_token, $4, 'running'
    FROM begun
    -- Reads `lost` so that the row it ends is out of the one-running index first.
    WHERE (SELECT count(*) FROM lost) >= 0
),
finished AS (
    UPDATE coordination.jobs AS jobs
    SET state = 'dead', ended_at = clock_timestamp(), updated_at = clock_timestamp(),
        attempt_token = NULL, attempt_worker_id = NULL,
        last_error = CASE
            WHEN judged.verdict = 'cancelled'
                THEN '{"type": "Cancelled", "message": "cancelled by an operator; its last worker gave no answer"}'
            ELSE coalesce(
                jobs.last_error,
                '{"type": "AttemptsExhausted", "message": "every attempt ended without a word: the worker died each time"}'
            )
        END
    FROM judged
    WHERE jobs.job_id = judged.job_id AND judged.verdict IN ('exhausted', 'cancelled')
    RETURNING jobs.job_id
),
unpromised AS (
    DELETE FROM coordination.outbox AS outbox
    WHERE outbox.job_id = ANY (
        ARRAY(
            SELECT promised.job_id FROM coordination.outbox AS promised
            WHERE promised.job_id = ANY (ARRAY(SELECT finished.job_id FROM finished))
            ORDER BY promised.job_id
            FOR UPDATE
        )
    )
)
SELECT
    judged.job_id, judged.verdict, judged.asked_token, judged.chain_id, judged.environment, judged.role, judged.kind,
    judged.idempotency_key, judged.request, judged.generation, judged.has_live_lineage, judged.created_at,
    coalesce(begun.attempt_number, judged.attempt_number) AS attempt_number,
    CASE
        WHEN judged.verdict <> 'unknown_kind' THEN greatest(extract(epoch FROM judged.run_at - clock_timestamp()), 0)
        -- Who knows it and lives gets it soon; while nobody does, as long again as it has waited, up to $11.
        WHEN EXISTS (
            SELECT FROM coordination.workers AS workers
            WHERE workers.chain_id = judged.chain_id AND workers.environment = judged.environment
                AND judged.role = ANY (workers.roles) AND judged.kind = ANY (workers.kinds)
                AND NOT workers.draining AND workers.stopped_at IS NULL
                AND workers.heartbeat_at > clock_timestamp() - make_interval(secs => $12)
        ) THEN $10::float8
        ELSE least(greatest(extract(epoch FROM clock_timestamp() - judged.run_at), $10::float8), $11::float8)
    END::float8 AS wait_seconds
FROM judged
LEFT JOIN begun USING (job_id);

-- name: end_if_current
-- Ends attempts that are still their job's current one; the others are not returned, and nothing of theirs changed (I6).
-- But for one that this very end has ended before, whose answer was lost: it is answered again.
WITH asked AS (
    SELECT * FROM unnest($1::uuid[], $2::int[], $3::text[], $4::uuid[], $5::text[], $6::jsonb[], $7::float8[])
        AS a (job_id, attempt_number, token, worker_id, verdict, detail, delay_seconds)
),
current_ones AS (
    SELECT
        jobs.job_id, jobs.attempt_number, jobs.attempts_spent, jobs.has_live_lineage, jobs.cancel_requested_at IS NOT NULL AS is_unwanted,
        asked.verdict, asked.detail, asked.delay_seconds
    FROM asked
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE jobs.state = 'processing' AND jobs.attempt_number = asked.attempt_number
        AND jobs.attempt_token = asked.token AND jobs.attempt_worker_id = asked.worker_id
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
),
decided AS (
    SELECT
        current_ones.*,
        CASE
            WHEN verdict IN ('completed', 'not_actionable', 'quarantined') AND NOT has_live_lineage THEN verdict
            WHEN is_unwanted OR (verdict = 'failed' AND NOT has_live_lineage AND attempts_spent >= $8) THEN 'dead'
            ELSE 'retry'
        END AS next_state
    FROM current_ones
),
changed AS (
    UPDATE coordination.jobs AS jobs
    SET state = decided.next_state,
        attempt_token = NULL,
        attempt_worker_id = NULL,
        attempts_spent = jobs.attempts_spent - (decided.verdict = 'returned' AND NOT decided.is_unwanted)::int,
        run_at = CASE
            -- BullMQ holds the delivery back too, but on the clock of whoever told it.
            WHEN decided.verdict IN ('returned', 'failed') AND decided.next_state = 'retry'
                THEN clock_timestamp() + make_interval(secs => decided.delay_seconds)
            ELSE jobs.run_at
        END,
        result = CASE WHEN decided.next_state IN ('completed', 'not_actionable') THEN decided.detail END,
        last_error = CASE
            WHEN decided.is_unwanted AND decided.next_state = 'dead'
                THEN '{"type": "Cancelled", "message": "cancelled by an operator while it ran"}'
            WHEN decided.verdict IN ('failed', 'quarantined') THEN decided.detail
            ELSE jobs.last_error
        END,
        ended_at = CASE WHEN decided.next_state <> 'retry' THEN clock_timestamp() END,
        updated_at = clock_timestamp()
    FROM decided
    WHERE jobs.job_id = decided.job_id
    RETURNING jobs.job_id, jobs.state, jobs.limit_key
),
ended AS (
    UPDATE coordination.attempts AS attempts
    SET state = CASE WHEN decided.is_unwanted AND decided.next_state = 'dead' THEN 'cancelled' ELSE decided.verdict END,
        ended_at = clock_timestamp(), detail = decided.detail
    FROM decided
    WHERE attempts.job_id = decided.job_id AND attempts.attempt_number = decided.attempt_number
        AND attempts.ended_at IS NULL
),
unpromised AS (
    DELETE FROM coordination.outbox AS outbox
    WHERE outbox.job_id = ANY (
        ARRAY(
            SELECT promised.job_id FROM coordination.outbox AS promised
            WHERE promised.job_id = ANY (ARRAY(SELECT changed.job_id FROM changed WHERE changed.state <> 'retry'))
            ORDER BY promised.job_id
            FOR UPDATE
        )
    )
)
SELECT changed.job_id, changed.state, changed.limit_key IS NOT NULL AS frees_a_limit FROM changed
UNION ALL
SELECT
    jobs.job_id,
    CASE WHEN attempts.state IN ('failed', 'returned') AND jobs.ended_at IS NULL THEN 'retry' ELSE jobs.state END,
    false
FROM asked
JOIN coordination.attempts AS attempts
    ON attempts.job_id = asked.job_id AND attempts.attempt_number = asked.attempt_number
    AND attempts.token = asked.token AND attempts.worker_id = asked.worker_id
    AND (attempts.state = asked.verdict OR (attempts.state = 'cancelled' AND asked.verdict IN ('failed', 'returned')))
JOIN coordination.jobs AS jobs ON jobs.job_id = asked.job_id
WHERE NOT EXISTS (SELECT FROM changed WHERE changed.job_id = asked.job_id);

-- name: hold_for_lineage_if_current
-- The allocation's fence: from here on the job owns a nonce and is never discarded (DLV-8).
WITH asked AS (
    SELECT * FROM unnest($1::uuid[], $2::int[], $3::text[], $4::uuid[])
        AS a (job_id, attempt_number, token, worker_id)
),
current_ones AS (
    SELECT jobs.job_id
    FROM asked
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE jobs.state = 'processing' AND jobs.attempt_number = asked.attempt_number
        AND jobs.attempt_token = asked.token AND jobs.attempt_worker_id = asked.worker_id
        AND NOT jobs.has_live_lineage AND jobs.cancel_requested_at IS NULL
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
)
UPDATE coordination.jobs AS jobs SET has_live_lineage = true, updated_at = clock_timestamp()
FROM current_ones
WHERE jobs.job_id = current_ones.job_id
RETURNING jobs.job_id;

-- name: lock_if_current
-- Holds the rows of current attempts against every other change until the transaction ends.
SELECT jobs.job_id
FROM unnest($1::uuid[], $2::int[], $3::text[], $4::uuid[]) AS asked (job_id, attempt_number, token, worker_id)
JOIN coordination.jobs AS jobs USING (job_id)
WHERE jobs.state = 'processing' AND jobs.attempt_number = asked.attempt_number
    AND jobs.attempt_token = asked.token AND jobs.attempt_worker_id = asked.worker_id
ORDER BY jobs.job_id
FOR UPDATE OF jobs;

-- name: confirm_if_current
-- The transaction is out: no worker is held any more, the reconciler ends the job (DLV-7).
WITH asked AS (
    SELECT * FROM unnest($1::uuid[], $2::int[], $3::text[], $4::uuid[])
        AS a (job_id, attempt_number, token, worker_id)
),
current_ones AS (
    SELECT jobs.job_id
    FROM asked
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE jobs.state = 'processing' AND jobs.attempt_number = asked.attempt_number
        AND jobs.attempt_token = asked.token AND jobs.attempt_worker_id = asked.worker_id
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
),
changed AS (
    UPDATE coordination.jobs AS jobs
    SET state = 'confirming', attempt_token = NULL, attempt_worker_id = NULL, updated_at = clock_timestamp()
    FROM current_ones
    WHERE jobs.job_id = current_ones.job_id
    RETURNING jobs.job_id, jobs.attempt_number
),
ended AS (
    UPDATE coordination.attempts AS attempts SET state = 'confirming', ended_at = clock_timestamp()
    FROM changed
    WHERE attempts.job_id = changed.job_id AND attempts.attempt_number = changed.attempt_number
        AND attempts.ended_at IS NULL
),
unpromised AS (
    DELETE FROM coordination.outbox AS outbox
    WHERE outbox.job_id = ANY (
        ARRAY(
            SELECT promised.job_id FROM coordination.outbox AS promised
            WHERE promised.job_id = ANY (ARRAY(SELECT changed.job_id FROM changed))
            ORDER BY promised.job_id
            FOR UPDATE
        )
    )
)
SELECT changed.job_id FROM changed;

-- name: release_lineage_if_current
-- The lineage was abandoned unsigned: the job ends without an effect, in the same transaction (TX-3).
WITH asked AS (
    SELECT * FROM unnest($1::uuid[], $2::int[], $3::text[], $4::uuid[], $5::jsonb[])
        AS a (job_id, attempt_number, token, worker_id, detail)
),
current_ones AS (
    SELECT jobs.job_id, jobs.attempt_number, asked.detail
    FROM asked
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE jobs.state = 'processing' AND jobs.attempt_number = asked.attempt_number
        AND jobs.attempt_token = asked.token AND jobs.attempt_worker_id = asked.worker_id
        AND jobs.has_live_lineage
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
),
changed AS (
    UPDATE coordination.jobs AS jobs
    SET state = 'not_actionable', has_live_lineage = false, attempt_token = NULL, attempt_worker_id = NULL,
        result = current_ones.detail, ended_at = clock_timestamp(), updated_at = clock_timestamp()
    FROM current_ones
    WHERE jobs.job_id = current_ones.job_id
    RETURNING jobs.job_id
),
ended AS (
    UPDATE coordination.attempts AS attempts
    SET state = 'not_actionable', ended_at = clock_timestamp(), detail = current_ones.detail
    FROM current_ones
    WHERE attempts.job_id = current_ones.job_id AND attempts.attempt_number = current_ones.attempt_number
        AND attempts.ended_at IS NULL
),
unpromised AS (
    DELETE FROM coordination.outbox AS outbox
    WHERE outbox.job_id = ANY (
        ARRAY(
            SELECT promised.job_id FROM coordination.outbox AS promised
            WHERE promised.job_id = ANY (ARRAY(SELECT changed.job_id FROM changed))
            ORDER BY promised.job_id
            FOR UPDATE
        )
    )
)
SELECT changed.job_id FROM changed;

-- name: settle
-- The lineage ended on chain: so does the job, whoever holds it; an attempt in flight is fenced off by losing its token.
WITH asked AS (
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::jsonb[]) AS a (job_id, next_state, detail)
),
open_ones AS (
    SELECT jobs.job_id, jobs.state AS was_state, asked.next_state, asked.detail
    FROM asked
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE jobs.has_live_lineage AND jobs.state IN ('processing', 'retry', 'confirming')
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
),
changed AS (
    UPDATE coordination.jobs AS jobs
    SET state = open_ones.next_state, has_live_lineage = false, attempt_token = NULL, attempt_worker_id = NULL,
        result = CASE WHEN open_ones.next_state = 'completed' THEN open_ones.detail END,
        last_error = CASE WHEN open_ones.next_state = 'dead' THEN open_ones.detail ELSE jobs.last_error END,
        ended_at = clock_timestamp(), updated_at = clock_timestamp()
    FROM open_ones
    WHERE jobs.job_id = open_ones.job_id
    RETURNING jobs.job_id, jobs.attempt_number
),
fenced AS (
    UPDATE coordination.attempts AS attempts
    SET state = 'lost', ended_at = clock_timestamp(), detail = '{"reason": "the transaction was final first"}'
    FROM changed
    WHERE attempts.job_id = changed.job_id AND attempts.attempt_number = changed.attempt_number
        AND attempts.ended_at IS NULL
),
unpromised AS (
    DELETE FROM coordination.outbox AS outbox
    WHERE outbox.job_id = ANY (
        ARRAY(
            SELECT promised.job_id FROM coordination.outbox AS promised
            WHERE promised.job_id = ANY (ARRAY(SELECT changed.job_id FROM changed))
            ORDER BY promised.job_id
            FOR UPDATE
        )
    )
)
SELECT changed.job_id FROM changed;
