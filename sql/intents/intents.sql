-- name: register_line!
INSERT INTO intents.lines (chain_id, environment) VALUES ($1, $2)
ON CONFLICT (chain_id, environment) DO NOTHING;

-- name: record!
-- In the order in which they came: the order of the line.
INSERT INTO intents.intents
    (chain_id, environment, job_id, digest, protocol, account, session_key, action, market, payload, salt, deadline,
     signature)
SELECT
    $1, $2, taken.job_id, taken.digest, taken.protocol, taken.account, taken.session_key, taken.action, taken.market,
    taken.payload, taken.salt, taken.deadline, taken.signature
FROM unnest(
    $3::uuid[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::smallint[], $9::bytea[], $10::bytea[],
    $11::numeric[], $12::bigint[], $13::bytea[]
) WITH ORDINALITY AS taken (
    job_id, digest, protocol, account, session_key, action, market, payload, salt, deadline, signature, came
)
ORDER BY taken.came;

-- name: waiting
-- The front of the line of one protocol, without a lock: to be simulated before anything is claimed.
SELECT
    intents.job_id, intents.digest, intents.protocol, intents.account, intents.session_key, intents.action,
    intents.market, intents.payload, intents.salt, intents.deadline, intents.signature, intents.accepted_at
FROM intents.intents AS intents
WHERE intents.chain_id = $1 AND intents.environment = $2 AND intents.protocol = $3 AND intents.waits
ORDER BY intents.place
LIMIT $4;

-- name: lock_line$
-- One claim at a time: what is claimed is the front of the line, and no other replica claims the same. Not against new
-- intents, which refer to the line: a claim must not wait for them, nor they for it.
SELECT true FROM intents.lines AS lines
WHERE lines.chain_id = $1 AND lines.environment = $2
FOR NO KEY UPDATE;

-- name: front_of_line
SELECT intents.job_id FROM intents.intents AS intents
WHERE intents.chain_id = $1 AND intents.environment = $2 AND intents.protocol = $3 AND intents.waits
ORDER BY intents.place
LIMIT $4;

-- name: look_at_line^
SELECT
    count(*) AS waiting,
    coalesce(extract(epoch FROM clock_timestamp() - min(intents.accepted_at)), 0)::float8 AS oldest_seconds
FROM intents.intents AS intents
WHERE intents.chain_id = $1 AND intents.environment = $2 AND intents.waits;

-- name: places
-- For a person: the line from its front, or what one batch carried, or one intent by its job or its digest.
SELECT
    intents.job_id, intents.digest, intents.account, intents.action, intents.deadline, intents.accepted_at,
    intents.waits, children.batch_job_id, children.child_index, children.gas_stipend, children.succeeded
FROM intents.intents AS intents
LEFT JOIN intents.children AS children ON children.job_id = intents.job_id AND children.state <> 'released'
WHERE intents.chain_id = $1 AND intents.environment = $2
    AND CASE
        WHEN $3::uuid IS NOT NULL THEN intents.job_id = $3 OR children.batch_job_id = $3
        WHEN $4::bytea IS NOT NULL THEN intents.digest = $4
        ELSE intents.waits
    END
ORDER BY children.batch_job_id, children.child_index, intents.place
LIMIT $5;

-- name: leave_line!
UPDATE intents.intents SET waits = false WHERE job_id = ANY ($1::uuid[]) AND waits;

-- name: rejoin_line!
-- At their old place: who waited longest is carried first.
UPDATE intents.intents SET waits = true WHERE job_id = ANY ($1::uuid[]) AND NOT waits;

-- name: find_by_jobs
SELECT intents.job_id, intents.digest, intents.account, intents.action, intents.deadline, intents.accepted_at,
    children.batch_job_id, children.child_index, children.succeeded
FROM intents.intents AS intents
LEFT JOIN intents.children AS children ON children.job_id = intents.job_id AND children.state <> 'released'
WHERE intents.chain_id = $1 AND intents.environment = $2 AND intents.job_id = ANY ($3::uuid[]);

-- name: which_are_known
SELECT intents.digest FROM intents.intents AS intents
WHERE intents.chain_id = $1 AND intents.environment = $2 AND intents.digest = ANY ($3::bytea[]);
