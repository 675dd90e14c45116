-- name: keep_cursor!
INSERT INTO coordination.retention (chain_id, environment, swept_to)
VALUES ($1, $2, '00000000-0000-0000-0000-000000000000')
ON CONFLICT DO NOTHING;

-- name: as_retention!
SET LOCAL tayho.operation = 'archive';

-- name: archive_page^
-- One page of the walk along all ids: from where the last one ended up to those made $3 days ago. Jobs that had not ended
-- by then are passed by, and found when the walk starts over, after $6 seconds (`swept_at` is when it began); before it
-- does, it looks at ids from the future, which a producer with a wrong clock made. Whether a job is old is told by its
-- own end, in PostgreSQL's clock. What waits for a person is kept $4 days. No row: another replica is at it.
WITH held AS (
    SELECT
        retention.swept_to, retention.swept_at,
        -- The id that a right clock would have made then, the smallest of its millisecond.
        (
            lpad(to_hex((extract(epoch FROM now() - make_interval(days => $3)) * 1000)::bigint), 12, '0')
            || '70008000000000000000'
        )::uuid AS edge,
        (
            lpad(to_hex((extract(epoch FROM now() + interval '1 day') * 1000)::bigint), 12, '0')
            || '70008000000000000000'
        )::uuid AS future
    FROM coordination.retention AS retention
    WHERE retention.chain_id = $1 AND retention.environment = $2
    FOR UPDATE SKIP LOCKED
),
page AS MATERIALIZED (
    SELECT found.job_id
    FROM held
    CROSS JOIN LATERAL (
        SELECT jobs.job_id FROM coordination.jobs AS jobs
        WHERE jobs.job_id > held.swept_to
            AND jobs.job_id < CASE
                WHEN held.swept_to < held.edge THEN held.edge
                ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid
            END
        ORDER BY jobs.job_id
        LIMIT $5
    ) AS found
),
old_ones AS (
    SELECT jobs.job_id FROM coordination.jobs AS jobs
    WHERE jobs.job_id = ANY (ARRAY(SELECT page.job_id FROM page))
        AND jobs.chain_id = $1 AND jobs.environment = $2 AND jobs.archived_at IS NULL
        AND jobs.ended_at < now() - make_interval(days => CASE WHEN jobs.set_aside THEN $4 ELSE $3 END)
    ORDER BY jobs.job_id
    FOR UPDATE SKIP LOCKED
),
archived AS (
    UPDATE coordination.jobs AS jobs
    SET request = '{}', result = NULL, last_error = NULL, archived_at = clock_timestamp(),
        updated_at = clock_timestamp()
    WHERE jobs.job_id = ANY (ARRAY(SELECT old_ones.job_id FROM old_ones))
    RETURNING jobs.job_id
),
forgotten AS (
    DELETE FROM coordination.attempts AS attempts
    WHERE attempts.job_id = ANY (ARRAY(SELECT archived.job_id FROM archived))
),
walked AS (
    SELECT
        held.*, counted.rows = $5 AS is_more, held.swept_to >= held.edge AND counted.rows < $5 AS is_through,
        (SELECT page.job_id FROM page ORDER BY page.job_id DESC LIMIT 1) AS last_id
    FROM held
    CROSS JOIN (SELECT count(*) AS rows FROM page) AS counted
),
going_on AS (
    SELECT
        walked.is_more, walked.is_through,
        CASE
            WHEN walked.is_through THEN '00000000-0000-0000-0000-000000000000'::uuid
            WHEN NOT walked.is_more AND walked.swept_at < now() - make_interval(secs => $6) THEN walked.future
            ELSE coalesce(walked.last_id, walked.swept_to)
        END AS next_from
    FROM walked
),
moved AS (
    UPDATE coordination.retention AS retention
    SET swept_to = going_on.next_from,
        swept_at = CASE WHEN going_on.is_through THEN clock_timestamp() ELSE retention.swept_at END
    FROM going_on
    WHERE retention.chain_id = $1 AND retention.environment = $2 AND retention.swept_to <> going_on.next_from
    RETURNING retention.swept_to
)
SELECT
    going_on.is_more OR EXISTS (SELECT FROM moved WHERE moved.swept_to >= (SELECT held.future FROM held)) AS is_more,
    going_on.is_through,
    (SELECT count(*) FROM archived) AS archived
FROM going_on;

-- name: trim_page^
-- Of open jobs that go on for ever, the newest $5 attempts are kept. A page of the outbox, which has all that run again.
WITH page AS (
    SELECT outbox.job_id FROM coordination.outbox AS outbox
    WHERE outbox.job_id > $3 AND outbox.chain_id = $1 AND outbox.environment = $2
    ORDER BY outbox.job_id
    LIMIT $4
),
trimmed AS (
    DELETE FROM coordination.attempts AS attempts
    USING coordination.jobs AS jobs
    WHERE jobs.job_id = ANY (ARRAY(SELECT page.job_id FROM page)) AND jobs.attempt_number > $5
        AND attempts.job_id = jobs.job_id AND attempts.attempt_number <= jobs.attempt_number - $5
        AND attempts.state <> 'running'
    RETURNING attempts.job_id
)
SELECT
    (SELECT count(*) FROM trimmed) AS trimmed,
    CASE
        WHEN (SELECT count(*) FROM page) = $4 THEN (SELECT page.job_id FROM page ORDER BY page.job_id DESC LIMIT 1)
    END AS next_from;

-- name: reap_workers!
-- Reads every attempt once, whatever the number of workers; nothing of the database refers to a worker otherwise.
DELETE FROM coordination.workers AS workers
WHERE workers.chain_id = $1 AND workers.environment = $2
    AND coalesce(workers.stopped_at, workers.heartbeat_at) < now() - make_interval(days => $3)
    AND NOT EXISTS (SELECT FROM coordination.attempts AS attempts WHERE attempts.worker_id = workers.worker_id);
