-- name: due^
-- What an idle publisher asks each poll: the first due entry of two indexes. It begins where its last look found nothing
-- any more ($3, $4), because what lies before may be entries of dead rows, a million of them while somebody holds an old
-- snapshot. Null begins at the beginning.
SELECT
    now() AS looked_at,
    (
        SELECT outbox.due_at FROM coordination.outbox AS outbox
        WHERE outbox.chain_id = $1 AND outbox.environment = $2
            AND (outbox.limit_key IS NULL OR outbox.published_at IS NOT NULL)
            AND outbox.due_at >= coalesce($3::timestamptz, '-infinity') AND outbox.due_at <= now()
        ORDER BY outbox.due_at
        LIMIT 1
    ) AS unlimited_from,
    (
        SELECT outbox.due_at FROM coordination.outbox AS outbox
        WHERE outbox.chain_id = $1 AND outbox.environment = $2
            AND outbox.limit_key IS NOT NULL AND outbox.published_at IS NULL AND outbox.rank_at > '-infinity'
            AND outbox.due_at >= coalesce($4::timestamptz, '-infinity') AND outbox.due_at <= now()
        ORDER BY outbox.due_at
        LIMIT 1
    ) AS limited_from;

-- name: claim_due
-- A short lease instead of a lock held over Redis: a publisher that dies leaves the row due again after it. What is
-- paused is looked at again later, or when it is resumed; the pause that was seen cannot end before this commits, or its
-- end would miss what is put off here. A minute of waiting halves a priority number; a row with a limit key ages only
-- from its publication, or the backlog of a flood would overtake everybody else's fresh jobs.
WITH due AS (
    SELECT
        outbox.job_id, outbox.due_at, outbox.published_at IS NULL AS is_first,
        CASE WHEN outbox.limit_key IS NOT NULL THEN outbox.published_at END AS limited_until
    FROM coordination.outbox AS outbox
    WHERE outbox.chain_id = $1 AND outbox.environment = $2
        AND (outbox.limit_key IS NULL OR outbox.published_at IS NOT NULL)
        AND outbox.due_at >= $6 AND outbox.due_at <= now()
    ORDER BY outbox.due_at
    -- A number that the planner does not know lets it read the index in order, and not all that is due.
    LIMIT (SELECT $3::bigint)
    FOR UPDATE SKIP LOCKED
),
judged AS (
    SELECT
        jobs.job_id, jobs.role, jobs.kind, jobs.generation, jobs.priority, jobs.run_at, due.is_first,
        due.due_at AS was_due_at,
        -- In minutes; a limit key's absence leaves the second one out.
        floor(greatest(extract(epoch FROM now() - greatest(jobs.run_at, due.limited_until)), 0) / 60) AS waited_minutes,
        NOT jobs.has_live_lineage AND EXISTS (
            SELECT FROM coordination.pauses AS pauses
            WHERE pauses.chain_id = $1 AND pauses.environment = $2 AND pauses.role = jobs.role
                AND pauses.kind IN ('', jobs.kind)
            FOR KEY SHARE
        ) AS is_paused
    FROM due
    JOIN coordination.jobs AS jobs USING (job_id)
),
leased AS (
    UPDATE coordination.outbox AS outbox
    SET due_at = now() + make_interval(
            secs => CASE
                WHEN outbox.job_id = ANY (ARRAY(SELECT judged.job_id FROM judged WHERE judged.is_paused)) THEN $5::float8
                ELSE $4::float8
            END
        ),
        published_at = CASE
            WHEN outbox.job_id = ANY (ARRAY(SELECT judged.job_id FROM judged WHERE judged.is_paused))
                THEN outbox.published_at
            ELSE coalesce(outbox.published_at, now())
        END
    -- Named by an array and not joined, so that the planner looks each up, whatever it believes of the table's size.
    WHERE outbox.job_id = ANY (ARRAY(SELECT judged.job_id FROM judged))
    RETURNING outbox.job_id
)
SELECT
    judged.job_id, judged.role, judged.kind, judged.generation, judged.is_paused, judged.is_first, judged.was_due_at,
    judged.run_at <= now() AS may_run,
    greatest(judged.priority >> least(judged.waited_minutes, 30)::int, 1) AS priority,
    judged.waited_minutes > 0 AS has_aged
FROM leased
JOIN judged USING (job_id)
ORDER BY judged.run_at, judged.job_id;

-- name: waiting_keys
-- Keys with rows that a limit may hold back: those of the oldest rows, and the next ones of a walk along all keys, so
-- that no key hides behind another's flood. No row that waits is due before $5: the entries of dead ones are told by it.
WITH RECURSIVE walked AS (
    (
        SELECT outbox.limit_key, 1 AS number FROM coordination.outbox AS outbox
        WHERE outbox.chain_id = $1 AND outbox.environment = $2 AND outbox.limit_key > $3 AND outbox.published_at IS NULL
            AND outbox.due_at >= $5
        ORDER BY outbox.limit_key
        LIMIT 1
    )
    UNION ALL
    SELECT following.limit_key, walked.number + 1
    FROM walked
    CROSS JOIN LATERAL (
        SELECT outbox.limit_key FROM coordination.outbox AS outbox
        WHERE outbox.chain_id = $1 AND outbox.environment = $2 AND outbox.limit_key > walked.limit_key
            AND outbox.published_at IS NULL AND outbox.due_at >= $5
        ORDER BY outbox.limit_key
        LIMIT 1
    ) AS following
    WHERE walked.number < $4
),
oldest AS (
    SELECT outbox.limit_key FROM coordination.outbox AS outbox
    WHERE outbox.chain_id = $1 AND outbox.environment = $2 AND outbox.limit_key IS NOT NULL
        AND outbox.published_at IS NULL AND outbox.rank_at > '-infinity'
        AND outbox.due_at >= $5 AND outbox.due_at <= now()
    ORDER BY outbox.due_at
    LIMIT (SELECT $4::bigint)
)
SELECT limit_key, bool_or(is_walked) AS is_walked
FROM (SELECT limit_key, true AS is_walked FROM walked UNION ALL SELECT limit_key, false FROM oldest) AS found
GROUP BY limit_key
ORDER BY limit_key;

-- name: register_limits!
INSERT INTO coordination.limits (chain_id, environment, limit_key)
SELECT $1, $2, asked.limit_key FROM unnest($3::text[]) AS asked (limit_key)
ORDER BY asked.limit_key
ON CONFLICT DO NOTHING;

-- name: lock_limits
-- One publisher at a time decides over a key. A statement of its own: the counting after it must see what the last
-- holder of the lock committed.
SELECT limits.limit_key FROM coordination.limits AS limits
WHERE limits.chain_id = $1 AND limits.environment = $2 AND limits.limit_key = ANY ($3::text[])
ORDER BY limits.limit_key
FOR UPDATE SKIP LOCKED;

-- name: claim_limited
-- As `claim_due`, for as many rows of each key as its limits have room for now, at most $7 of each. Needs `lock_limits`
-- before it. What waited for its own limit has not aged: it takes its place among the other keys' jobs as a fresh one.
-- No row that waits is due before $8, and none that was published before $9: the entries of dead ones are told by it.
WITH room AS (
    SELECT
        limits.limit_key, limits.rate_seconds::float8 / limits.rate_max AS start_seconds, limits.full_at,
        least(
            coalesce(limits.concurrent_max, $6::bigint) - (
                SELECT count(*) FROM coordination.outbox AS outbox
                WHERE outbox.chain_id = $1 AND outbox.environment = $2 AND outbox.limit_key = limits.limit_key
                    AND outbox.published_at IS NOT NULL AND outbox.due_at >= $9
            ),
            -- A bucket that is full at full_at lacks one start for each start_seconds until then.
            coalesce(
                limits.rate_max - ceil(
                    extract(epoch FROM greatest(limits.full_at, now()) - now())::float8
                    * limits.rate_max / limits.rate_seconds
                ),
                $7::bigint
            )
        )::bigint AS starts_max
    FROM coordination.limits AS limits
    WHERE limits.chain_id = $1 AND limits.environment = $2 AND limits.limit_key = ANY ($3::text[])
),
due AS (
    SELECT chosen.job_id, room.limit_key
    FROM room
    CROSS JOIN LATERAL (
        SELECT outbox.job_id FROM coordination.outbox AS outbox
        WHERE outbox.chain_id = $1 AND outbox.environment = $2 AND outbox.limit_key = room.limit_key
            AND outbox.published_at IS NULL AND outbox.due_at >= $8 AND outbox.due_at <= now()
            -- No row is due before its rank less the whole of what a priority can cost: 21 halvings.
            AND outbox.rank_at <= now() + interval '21 minutes'
        ORDER BY outbox.rank_at
        LIMIT least(greatest(room.starts_max, 0), $7::bigint)
        FOR UPDATE SKIP LOCKED
    ) AS chosen
),
judged AS (
    SELECT
        due.limit_key, jobs.job_id, jobs.role, jobs.kind, jobs.generation, jobs.priority, jobs.run_at,
        NOT jobs.has_live_lineage AND EXISTS (
            SELECT FROM coordination.pauses AS pauses
            WHERE pauses.chain_id = $1 AND pauses.environment = $2 AND pauses.role = jobs.role
                AND pauses.kind IN ('', jobs.kind)
            FOR KEY SHARE
        ) AS is_paused
    FROM due
    JOIN coordination.jobs AS jobs USING (job_id)
),
leased AS (
    UPDATE coordination.outbox AS outbox
    SET due_at = now() + make_interval(
            secs => CASE
                WHEN outbox.job_id = ANY (ARRAY(SELECT judged.job_id FROM judged WHERE judged.is_paused)) THEN $5::float8
                ELSE $4::float8
            END
        ),
        published_at = CASE
            WHEN outbox.job_id = ANY (ARRAY(SELECT judged.job_id FROM judged WHERE judged.is_paused)) THEN NULL
            ELSE now()
        END
    WHERE outbox.job_id = ANY (ARRAY(SELECT judged.job_id FROM judged))
    RETURNING outbox.job_id
),
spent AS (
    UPDATE coordination.limits AS limits
    SET full_at = greatest(limits.full_at, now()) + make_interval(secs => room.start_seconds * started.starts)
    FROM room
    JOIN (
        SELECT judged.limit_key, count(*) AS starts FROM judged WHERE NOT judged.is_paused GROUP BY judged.limit_key
    ) AS started USING (limit_key)
    WHERE limits.chain_id = $1 AND limits.environment = $2 AND limits.limit_key = room.limit_key
        AND room.start_seconds IS NOT NULL
)
SELECT
    judged.job_id, judged.role, judged.kind, judged.generation, judged.is_paused, true AS is_first, true AS may_run,
    judged.priority, false AS has_aged
FROM leased
JOIN judged USING (job_id)
ORDER BY judged.run_at, judged.job_id;

-- name: mark_published!
-- Rows are locked in the order of their jobs, like wherever else many are: two orders would deadlock. They are named by
-- arrays, so that the planner looks each up, instead of reading a whole table that has grown since it was measured.
WITH marked AS (
    SELECT outbox.job_id FROM coordination.outbox AS outbox
    WHERE outbox.job_id = ANY (
        ARRAY(
            SELECT jobs.job_id
            FROM unnest($1::uuid[], $2::int[]) AS published (job_id, generation)
            JOIN coordination.jobs AS jobs
                ON jobs.job_id = published.job_id AND jobs.generation = published.generation
        )
    )
    ORDER BY outbox.job_id
    FOR UPDATE
)
UPDATE coordination.outbox AS outbox SET due_at = now() + make_interval(secs => $3)
WHERE outbox.job_id = ANY (ARRAY(SELECT marked.job_id FROM marked));

-- name: advance_generation_if_unfinished
-- The delivery ended in BullMQ and the job did not: only here does a generation move (DLV-4).
WITH unfinished AS (
    SELECT jobs.job_id
    FROM unnest($1::uuid[], $2::int[]) AS ended (job_id, generation)
    JOIN coordination.jobs AS jobs ON jobs.job_id = ended.job_id AND jobs.generation = ended.generation
    WHERE jobs.state IN ('queued', 'retry', 'processing')
    ORDER BY jobs.job_id
    FOR UPDATE OF jobs
)
UPDATE coordination.jobs AS jobs SET generation = jobs.generation + 1, updated_at = clock_timestamp()
FROM unfinished
WHERE jobs.job_id = unfinished.job_id
RETURNING jobs.job_id, jobs.generation;

-- name: wake!
SELECT pg_notify('tayho_outbox', '');

-- name: backlog^
SELECT
    count(*) AS rows,
    count(*) FILTER (WHERE published_at IS NULL) AS unpublished,
    coalesce(extract(epoch FROM now() - min(due_at) FILTER (WHERE due_at <= now())), 0)::float8 AS oldest_due_seconds
FROM coordination.outbox
WHERE chain_id = $1 AND environment = $2;

-- name: ages_by_role
-- For a scrape: of a long queue only the oldest rows are looked at, and running attempts have an index of their own.
WITH oldest AS (
    SELECT outbox.job_id
    FROM coordination.outbox AS outbox
    WHERE outbox.chain_id = $1 AND outbox.environment = $2
    ORDER BY outbox.job_id
    LIMIT $3
), waiting AS (
    SELECT jobs.role, extract(epoch FROM now() - min(jobs.run_at))::float8 AS seconds
    FROM oldest
    JOIN coordination.jobs AS jobs ON jobs.job_id = oldest.job_id
    WHERE jobs.state IN ('queued', 'retry') AND jobs.run_at <= now()
    GROUP BY jobs.role
), running AS (
    SELECT jobs.role, extract(epoch FROM clock_timestamp() - min(attempts.started_at))::float8 AS seconds
    FROM coordination.attempts AS attempts
    JOIN coordination.jobs AS jobs ON jobs.job_id = attempts.job_id
    WHERE attempts.state = 'running' AND jobs.chain_id = $1 AND jobs.environment = $2
    GROUP BY jobs.role
)
SELECT
    coalesce(waiting.role, running.role) AS role,
    coalesce(waiting.seconds, 0) AS waiting_seconds, coalesce(running.seconds, 0) AS running_seconds
FROM waiting
FULL JOIN running ON running.role = waiting.role
ORDER BY 1;
