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

-- name: key_facts^
-- Everything that was sealed under a key of the journal, on one chain, in whatever environment. A lineage is decided by
-- the receipt of any of its members, or by the block in which another transaction used its nonce up.
WITH sealed AS (
    SELECT members.lineage_id, members.signed_at FROM transactions.members AS members
    WHERE members.key_id = $2 AND members.chain_id = $1
),
under AS (
    SELECT sealed.lineage_id FROM sealed GROUP BY sealed.lineage_id
),
judged AS (
    SELECT
        lineages.state IN ('allocated', 'signed', 'broadcast') AS is_open,
        coalesce(mined.block_number, CASE WHEN lineages.superseded_in IS NOT NULL THEN lineages.included_block_number END)
            AS block_number
    FROM under
    JOIN transactions.lineages AS lineages USING (lineage_id)
    LEFT JOIN LATERAL (
        SELECT receipts.block_number FROM transactions.members AS members
        JOIN transactions.receipts AS receipts USING (tx_hash)
        WHERE members.lineage_id = lineages.lineage_id AND receipts.orphaned_at IS NULL
    ) AS mined ON true
)
SELECT
    (SELECT count(*) FROM sealed) AS members,
    (SELECT extract(epoch FROM clock_timestamp() - max(sealed.signed_at))::float8 FROM sealed) AS sealed_seconds_ago,
    count(*) AS lineages,
    count(*) FILTER (WHERE judged.is_open) AS open_lineages,
    count(*) FILTER (WHERE NOT judged.is_open AND judged.block_number IS NULL) AS undecided_lineages,
    max(judged.block_number) FILTER (WHERE NOT judged.is_open) AS block_number_max,
    (
        SELECT count(*) FROM transactions.halts AS halts WHERE halts.chain_id = $1 AND halts.resolved_at IS NULL
    ) AS halts,
    ARRAY(
        SELECT DISTINCT others.chain_id FROM transactions.members AS others
        WHERE others.key_id = $2 AND others.chain_id <> $1
        ORDER BY others.chain_id
    ) AS other_chains
FROM judged;

-- name: page_of_key
-- What decided the next lineages under a key, in the order of their ids; without a transaction it is a nonce that was
-- used up by another.
SELECT
    lineages.lineage_id, mined.tx_hash,
    coalesce(mined.block_number, lineages.included_block_number) AS block_number,
    coalesce(mined.block_hash, lineages.superseded_in) AS block_hash
FROM transactions.lineages AS lineages
LEFT JOIN LATERAL (
    SELECT receipts.tx_hash, receipts.block_number, receipts.block_hash FROM transactions.members AS members
    JOIN transactions.receipts AS receipts USING (tx_hash)
    WHERE members.lineage_id = lineages.lineage_id AND receipts.orphaned_at IS NULL
) AS mined ON true
WHERE lineages.lineage_id > $3 AND lineages.chain_id = $1
    AND lineages.state NOT IN ('allocated', 'signed', 'broadcast')
    AND (mined.tx_hash IS NOT NULL OR lineages.superseded_in IS NOT NULL)
    AND EXISTS (
        SELECT FROM transactions.members AS members
        WHERE members.lineage_id = lineages.lineage_id AND members.key_id = $2
    )
ORDER BY lineages.lineage_id
LIMIT $4;
