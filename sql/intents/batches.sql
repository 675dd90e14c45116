-- name: claim_children!
INSERT INTO intents.children (batch_job_id, child_index, job_id, gas_stipend, state)
SELECT $1, a.child_index - 1, a.job_id, a.gas_stipend, 'live'
FROM unnest($2::uuid[], $3::bigint[]) WITH ORDINALITY AS a (job_id, gas_stipend, child_index);

-- name: children_of_batch
SELECT
    children.child_index, children.gas_stipend, children.state, intents.job_id, intents.digest, intents.protocol,
    intents.account, intents.session_key, intents.action, intents.market, intents.payload, intents.salt,
    intents.deadline, intents.signature, intents.accepted_at
FROM intents.children AS children
JOIN intents.intents AS intents USING (job_id)
WHERE children.batch_job_id = $1
ORDER BY children.child_index;

-- name: settle_children
-- By the executor's own logs, each place once.
UPDATE intents.children AS children
SET state = 'settled', succeeded = a.succeeded, return_data_digest = a.return_data_digest,
    changed_at = clock_timestamp()
FROM unnest($2::int[], $3::boolean[], $4::bytea[]) AS a (child_index, succeeded, return_data_digest)
WHERE children.batch_job_id = $1 AND children.child_index = a.child_index AND children.state = 'live'
RETURNING children.job_id, children.child_index;

-- name: release_children
UPDATE intents.children AS children SET state = 'released', changed_at = clock_timestamp()
WHERE children.batch_job_id = $1 AND children.state = 'live'
RETURNING children.job_id;

-- name: permit_restore!
-- A settled place is open again only inside this named operation.
SELECT set_config('tayho.operation', 'restore', true);

-- name: restore_children
-- The chain took back the block whose logs had settled them.
UPDATE intents.children AS children
SET state = 'live', succeeded = NULL, return_data_digest = NULL, changed_at = clock_timestamp()
WHERE children.batch_job_id = $1 AND children.state = 'settled'
RETURNING children.job_id;
