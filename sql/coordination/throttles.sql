-- name: pause_unless_paused
INSERT INTO coordination.pauses (chain_id, environment, role, kind, reason, actor)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (chain_id, environment, role, kind) DO NOTHING
RETURNING role;

-- name: end_pause
DELETE FROM coordination.pauses
WHERE chain_id = $1 AND environment = $2 AND role = $3 AND kind = $4
RETURNING role;

-- name: make_page_due^
-- One page of the outbox, of which what belongs to the role or kind is looked at again now: a pause had put it off.
WITH page AS (
    SELECT outbox.job_id FROM coordination.outbox AS outbox
    WHERE outbox.chain_id = $1 AND outbox.environment = $2 AND outbox.job_id > $5
    ORDER BY outbox.job_id
    LIMIT $6
),
held AS (
    SELECT outbox.job_id FROM page
    JOIN coordination.jobs AS jobs ON jobs.job_id = page.job_id
    JOIN coordination.outbox AS outbox ON outbox.job_id = page.job_id
    WHERE jobs.role = $3 AND ($4::text = '' OR jobs.kind = $4)
        AND jobs.run_at <= clock_timestamp() AND outbox.due_at > clock_timestamp()
    ORDER BY outbox.job_id
    FOR UPDATE OF outbox
),
freed AS (
    UPDATE coordination.outbox AS outbox SET due_at = now()
    FROM held
    WHERE outbox.job_id = held.job_id
    RETURNING outbox.job_id
)
SELECT
    (SELECT page.job_id FROM page ORDER BY page.job_id DESC LIMIT 1) AS last_job_id,
    (SELECT count(*) FROM page) AS looked_at,
    (SELECT count(*) FROM freed) AS freed;

-- name: list_pauses
SELECT pauses.role, pauses.kind, pauses.reason, pauses.actor, pauses.paused_at
FROM coordination.pauses AS pauses
WHERE pauses.chain_id = $1 AND pauses.environment = $2
ORDER BY pauses.role, pauses.kind;

-- name: backlog_by_role
SELECT
    jobs.role, count(*) AS jobs,
    count(*) FILTER (WHERE outbox.published_at IS NULL) AS unpublished,
    count(*) FILTER (WHERE jobs.state = 'processing') AS processing,
    coalesce(extract(epoch FROM now() - min(jobs.run_at) FILTER (WHERE jobs.state IN ('queued', 'retry')
        AND jobs.run_at <= now())), 0)::float8 AS oldest_waiting_seconds
FROM coordination.outbox AS outbox
JOIN coordination.jobs AS jobs ON jobs.job_id = outbox.job_id
WHERE outbox.chain_id = $1 AND outbox.environment = $2
GROUP BY jobs.role
ORDER BY jobs.role;

-- name: put_limit!
-- What a bucket lacks is never more than the whole of it, whatever was taken under the numbers before.
INSERT INTO coordination.limits AS limits
    (chain_id, environment, limit_key, concurrent_max, rate_max, rate_seconds)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (chain_id, environment, limit_key) DO UPDATE
SET concurrent_max = excluded.concurrent_max, rate_max = excluded.rate_max, rate_seconds = excluded.rate_seconds,
    full_at = CASE
        WHEN excluded.rate_max IS NULL THEN '-infinity'::timestamptz
        ELSE least(limits.full_at, clock_timestamp() + make_interval(secs => excluded.rate_seconds))
    END,
    updated_at = clock_timestamp();

-- name: drop_limit
DELETE FROM coordination.limits
WHERE chain_id = $1 AND environment = $2 AND limit_key = $3
RETURNING concurrent_max IS NOT NULL OR rate_max IS NOT NULL AS had_numbers;

-- name: list_limits
-- Keys that have numbers, and keys that have jobs; those with the most waiting jobs first.
WITH used AS (
    SELECT
        outbox.limit_key,
        count(*) FILTER (WHERE outbox.published_at IS NOT NULL) AS in_flight,
        count(*) FILTER (WHERE outbox.published_at IS NULL AND outbox.due_at <= now()) AS waiting
    FROM coordination.outbox AS outbox
    WHERE outbox.chain_id = $1 AND outbox.environment = $2 AND outbox.limit_key IS NOT NULL
    GROUP BY outbox.limit_key
),
numbered AS (
    SELECT
        limits.limit_key, limits.concurrent_max, limits.rate_max, limits.rate_seconds,
        limits.rate_max - ceil(
            extract(epoch FROM greatest(limits.full_at, now()) - now())::float8
            * limits.rate_max / limits.rate_seconds
        ) AS starts_left
    FROM coordination.limits AS limits
    WHERE limits.chain_id = $1 AND limits.environment = $2
        AND (limits.concurrent_max IS NOT NULL OR limits.rate_max IS NOT NULL)
)
SELECT
    coalesce(numbered.limit_key, used.limit_key) AS limit_key,
    numbered.concurrent_max, numbered.rate_max, numbered.rate_seconds,
    CASE WHEN numbered.rate_max IS NOT NULL THEN greatest(numbered.starts_left, 0)::bigint END AS starts_left,
    coalesce(used.in_flight, 0) AS in_flight, coalesce(used.waiting, 0) AS waiting
FROM numbered
FULL JOIN used ON used.limit_key = numbered.limit_key
ORDER BY coalesce(used.waiting, 0) DESC, coalesce(numbered.limit_key, used.limit_key)
LIMIT $3;
