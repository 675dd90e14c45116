-- name: facts^
-- Everything that PostgreSQL knows about why a job is where it is, at one moment of its clock.
SELECT
    jobs.job_id, jobs.role, jobs.kind, jobs.state, jobs.generation, jobs.attempt_number, jobs.attempts_spent,
    jobs.has_live_lineage, jobs.cancel_requested_at, jobs.run_at, jobs.created_at, jobs.ended_at, jobs.archived_at,
    jobs.last_error, jobs.limit_key, moment.now,
    outbox.due_at AS outbox_due_at, outbox.published_at,
    attempts.started_at AS attempt_started_at, workers.instance_id AS worker_instance_id,
    extract(epoch FROM moment.now - workers.heartbeat_at)::float8 AS heartbeat_age_seconds,
    coalesce(workers.stopped_at IS NOT NULL, false) AS worker_has_stopped,
    role_pause.reason AS role_pause_reason, role_pause.actor AS role_pause_actor,
    kind_pause.reason AS kind_pause_reason, kind_pause.actor AS kind_pause_actor,
    coalesce(limits.concurrent_max, $4::int) AS concurrent_max, limits.rate_max, limits.rate_seconds,
    (
        SELECT count(*) FROM coordination.outbox AS others
        WHERE others.chain_id = $1 AND others.environment = $2 AND others.limit_key = jobs.limit_key
            AND others.published_at IS NOT NULL
    ) AS in_flight,
    -- When the bucket has a whole start again; it has one now where this is not in the future.
    greatest(limits.full_at, moment.now)
        - make_interval(secs => (limits.rate_max - 1) * limits.rate_seconds::float8 / limits.rate_max)
        AS start_free_at,
    live.workers_live, live.workers_draining
FROM coordination.jobs AS jobs
CROSS JOIN (SELECT clock_timestamp() AS now) AS moment
LEFT JOIN coordination.outbox AS outbox ON outbox.job_id = jobs.job_id
LEFT JOIN coordination.attempts AS attempts
    ON attempts.job_id = jobs.job_id AND attempts.attempt_number = jobs.attempt_number AND attempts.state = 'running'
LEFT JOIN coordination.workers AS workers ON workers.worker_id = jobs.attempt_worker_id
LEFT JOIN coordination.pauses AS role_pause
    ON role_pause.chain_id = $1 AND role_pause.environment = $2 AND role_pause.role = jobs.role AND role_pause.kind = ''
LEFT JOIN coordination.pauses AS kind_pause
    ON kind_pause.chain_id = $1 AND kind_pause.environment = $2 AND kind_pause.role = jobs.role
    AND kind_pause.kind = jobs.kind
LEFT JOIN coordination.limits AS limits
    ON limits.chain_id = $1 AND limits.environment = $2 AND limits.limit_key = jobs.limit_key
CROSS JOIN LATERAL (
    SELECT count(*) AS workers_live, count(*) FILTER (WHERE others.draining) AS workers_draining
    FROM coordination.workers AS others
    WHERE others.chain_id = $1 AND others.environment = $2 AND others.stopped_at IS NULL
        AND jobs.role = ANY (others.roles)
        AND others.heartbeat_at > moment.now - make_interval(secs => $5::float8)
) AS live
WHERE jobs.chain_id = $1 AND jobs.environment = $2 AND jobs.job_id = $3;
