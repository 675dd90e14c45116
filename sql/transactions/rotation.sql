-- name: lane_now^
SELECT
    lanes.signer, lanes.environment, lanes.role, lanes.state, lanes.state_reason, lanes.world, lanes.first_nonce,
    lanes.next_nonce, successions.old_signer AS predecessor
FROM transactions.lanes AS lanes
LEFT JOIN transactions.successions AS successions
    ON successions.chain_id = lanes.chain_id AND successions.new_signer = lanes.signer
WHERE lanes.chain_id = $1 AND lanes.signer = $2;

-- name: drain_lane
-- Under the pool's lock: whoever allocates after this commit sees it, on every replica.
UPDATE transactions.lanes AS lanes SET state = 'draining', state_reason = $3
WHERE lanes.chain_id = $1 AND lanes.signer = $2 AND lanes.state IN ('open', 'blocked', 'underfunded')
RETURNING lanes.signer;

-- name: undrain_lane
-- Open again; what had closed it before closes it again at the next look.
UPDATE transactions.lanes AS lanes SET state = 'open', state_reason = NULL
WHERE lanes.chain_id = $1 AND lanes.signer = $2 AND lanes.state = 'draining'
RETURNING lanes.signer;

-- name: left_of_lane
-- What is not final, lowest nonce first: a page of it, each row with the number of all.
SELECT
    lineages.lineage_id, lineages.job_id, lineages.purpose, lineages.nonce, lineages.state, lineages.hold,
    lineages.included_block_number, count(*) OVER () AS lineages,
    extract(epoch FROM clock_timestamp() - lineages.allocated_at)::float8 AS open_seconds
FROM transactions.lineages AS lineages
WHERE lineages.chain_id = $1 AND lineages.signer = $2 AND lineages.state IN ('allocated', 'signed', 'broadcast')
ORDER BY lineages.nonce
LIMIT $3;

-- name: open_of_lane$
SELECT count(*) FROM transactions.lineages AS lineages
WHERE lineages.chain_id = $1 AND lineages.signer = $2 AND lineages.state IN ('allocated', 'signed', 'broadcast');

-- name: revivable_of_lane^
-- What a reorganisation could still give its nonce back: ended above block $3, in this world of the lane.
SELECT count(*) AS lineages, max(lineages.included_block_number) AS block_number_max
FROM transactions.lineages AS lineages
JOIN transactions.lanes AS lanes
    ON lanes.chain_id = lineages.chain_id AND lanes.signer = lineages.signer AND lanes.world = lineages.world
WHERE lineages.chain_id = $1 AND lineages.signer = $2
    AND lineages.state IN ('mined', 'reverted', 'cancelled', 'superseded') AND lineages.included_block_number > $3;

-- name: record_check^
INSERT INTO transactions.retirement_checks
    (check_id, chain_id, environment, signer, key_id, nonce_fence, has_passed, head_block_number, head_hash, detail,
     checked_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
RETURNING check_id, checked_at;

-- name: newest_check^
SELECT
    checks.check_id, checks.has_passed, checks.nonce_fence, checks.checked_at,
    extract(epoch FROM clock_timestamp() - checks.checked_at)::float8 AS age_seconds
FROM transactions.retirement_checks AS checks
WHERE checks.chain_id = $1 AND checks.signer = $2
ORDER BY checks.checked_at DESC
LIMIT 1;

-- name: retire_lane
UPDATE transactions.lanes AS lanes SET state = 'retired', state_reason = $3
WHERE lanes.chain_id = $1 AND lanes.signer = $2 AND lanes.state = 'draining'
RETURNING lanes.signer;

-- name: admit_lane
-- A lane that never was: what stands there already is left alone, and returns nothing.
INSERT INTO transactions.lanes (chain_id, signer, environment, role, first_nonce, next_nonce, state)
VALUES ($1, $2, $3, $4, $5, $5, 'open')
ON CONFLICT (chain_id, signer) DO NOTHING
RETURNING signer;

-- name: hand_over!
INSERT INTO transactions.successions (chain_id, old_signer, new_signer, check_id, handed_by)
VALUES ($1, $2, $3, $4, $5);
