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
-- The front of the line, without a lock: to be simulated before anything is claimed.
SELECT
    intents.job_id, intents.digest, intents.protocol, intents.account, intents.session_key, intents.action,
    intents.market, intents.payload, intents.salt, intents.deadline, intents.signature, intents.accepted_at
FROM intents.intents AS intents
WHERE intents.chain_id = $1 AND intents.environment = $2 AND intents.waits
ORDER BY intents.place
LIMIT $3;

-- name: lock_line$
-- One claim at a time: what is claimed is the front of the line, and no other replica claims the same.
SELECT true FROM intents.lines AS lines
WHERE lines.chain_id = $1 AND lines.environment = $2
FOR UPDATE;

-- name: front_of_line
SELECT intents.job_id FROM intents.intents AS intents
WHERE intents.chain_id = $1 AND intents.environment = $2 AND intents.waits
ORDER BY intents.place
LIMIT $3;

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
