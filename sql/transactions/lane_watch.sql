-- name: lane_facts
-- What is in flight is what `lanes_of_pool` counts. $4: how long ago a send must be to be expected in the pools.
SELECT
    lanes.signer, lanes.state, lanes.state_reason, lanes.next_nonce, lanes.latest_nonce, lanes.pending_nonce,
    lanes.balance_wei, lanes.is_delegated, lanes.world, lanes.is_low, lanes.is_pool_dropped,
    coalesce(flying.in_flight, 0) AS in_flight,
    coalesce(flying.value_wei, 0) AS value_in_flight_wei,
    coalesce(flying.gas, 0)::bigint AS gas_in_flight,
    coalesce(flying.gas_max, 0) AS gas_limit_max,
    flying.broadcast_nonce_max, flying.allocated_nonce_min
FROM transactions.lanes AS lanes
LEFT JOIN LATERAL (
    SELECT
        count(*) AS in_flight,
        sum(lineages.value_wei) AS value_wei,
        sum(signed.gas_limit) AS gas,
        max(signed.gas_limit) AS gas_max,
        max(lineages.nonce) FILTER (
            WHERE lineages.state = 'broadcast' AND signed.signed_at <= now() - make_interval(secs => $4)
        ) AS broadcast_nonce_max,
        min(lineages.nonce) FILTER (WHERE lineages.state = 'allocated') AS allocated_nonce_min
    FROM transactions.lineages AS lineages
    LEFT JOIN LATERAL (
        SELECT max(members.gas_limit) AS gas_limit, max(members.signed_at) AS signed_at
        FROM transactions.members AS members
        WHERE members.lineage_id = lineages.lineage_id
    ) AS signed ON true
    WHERE lineages.chain_id = lanes.chain_id AND lineages.signer = lanes.signer
        AND lineages.state IN ('allocated', 'signed', 'broadcast') AND lineages.included_block_number IS NULL
) AS flying ON true
WHERE lanes.chain_id = $1 AND lanes.environment = $2 AND lanes.role = $3 AND lanes.state <> 'retired'
ORDER BY lanes.signer;

-- name: observe_lanes
-- Only what differs is written. What was not agreed (null) stays as it was last seen.
WITH changed AS (
    SELECT
        lanes.signer,
        coalesce(seen.latest_nonce, lanes.latest_nonce) AS latest_nonce,
        coalesce(seen.pending_nonce, lanes.pending_nonce) AS pending_nonce,
        coalesce(seen.balance_wei, lanes.balance_wei) AS balance_wei
    FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::numeric[])
        AS seen (signer, latest_nonce, pending_nonce, balance_wei)
    JOIN transactions.lanes AS lanes ON lanes.chain_id = $1 AND lanes.signer = seen.signer
    WHERE lanes.observed_at IS NULL OR lanes.observed_at < now() - interval '1 minute'
        OR lanes.latest_nonce IS DISTINCT FROM coalesce(seen.latest_nonce, lanes.latest_nonce)
        OR lanes.pending_nonce IS DISTINCT FROM coalesce(seen.pending_nonce, lanes.pending_nonce)
        OR lanes.balance_wei IS DISTINCT FROM coalesce(seen.balance_wei, lanes.balance_wei)
    ORDER BY lanes.signer
    FOR UPDATE OF lanes
)
UPDATE transactions.lanes AS lanes
SET latest_nonce = changed.latest_nonce, pending_nonce = changed.pending_nonce, balance_wei = changed.balance_wei,
    observed_at = clock_timestamp()
FROM changed
WHERE lanes.chain_id = $1 AND lanes.signer = changed.signer
RETURNING lanes.signer;

-- name: change_lanes_if_unchanged
-- A lane that stands as the decision found it takes its new standing; of several replicas that decide the same, one wins.
WITH decided AS (
    SELECT lanes.signer, a.state, a.state_reason, a.is_low, a.is_pool_dropped, a.is_delegated
    FROM unnest($2::bytea[], $3::text[], $4::boolean[], $5::boolean[], $6::boolean[], $7::text[], $8::text[],
                $9::boolean[], $10::boolean[], $11::boolean[])
        AS a (signer, was_state, was_low, was_pool_dropped, was_delegated, state, state_reason, is_low,
              is_pool_dropped, is_delegated)
    JOIN transactions.lanes AS lanes ON lanes.chain_id = $1 AND lanes.signer = a.signer
    WHERE lanes.state = a.was_state AND lanes.is_low = a.was_low AND lanes.is_pool_dropped = a.was_pool_dropped
        AND lanes.is_delegated = a.was_delegated
    ORDER BY lanes.signer
    FOR UPDATE OF lanes
)
UPDATE transactions.lanes AS lanes
SET state = decided.state, state_reason = decided.state_reason, is_low = decided.is_low,
    is_pool_dropped = decided.is_pool_dropped, is_delegated = decided.is_delegated
FROM decided
WHERE lanes.chain_id = $1 AND lanes.signer = decided.signer
RETURNING lanes.signer;

-- name: record_findings!
INSERT INTO transactions.findings (chain_id, signer, kind, detail, found_by)
SELECT $1, a.signer, a.kind, a.detail, $5
FROM unnest($2::bytea[], $3::text[], $4::jsonb[]) AS a (signer, kind, detail);

-- name: advance_fences
-- The fence goes past what others used; each such nonce is accounted for by name (I5). Under the pool's lock.
WITH ahead AS (
    SELECT lanes.signer, lanes.world, lanes.next_nonce AS fence, a.until
    FROM unnest($2::bytea[], $3::bigint[]) AS a (signer, until)
    JOIN transactions.lanes AS lanes ON lanes.chain_id = $1 AND lanes.signer = a.signer
    WHERE lanes.next_nonce < a.until
    ORDER BY lanes.signer
    FOR UPDATE OF lanes
),
noted AS (
    INSERT INTO transactions.foreign_nonces (chain_id, signer, world, nonce)
    SELECT $1, ahead.signer, ahead.world, used.nonce
    FROM ahead
    CROSS JOIN LATERAL generate_series(ahead.fence, ahead.until - 1) AS used (nonce)
)
UPDATE transactions.lanes AS lanes SET next_nonce = ahead.until
FROM ahead
WHERE lanes.chain_id = $1 AND lanes.signer = ahead.signer
RETURNING lanes.signer, ahead.fence, ahead.until;

-- name: allocated_below
-- Reserved, unsigned, and used by somebody else for good.
SELECT lineages.lineage_id, lineages.job_id
FROM unnest($2::bytea[], $3::bigint[]) AS a (signer, final_nonce)
JOIN transactions.lineages AS lineages
    ON lineages.chain_id = $1 AND lineages.signer = a.signer AND lineages.nonce < a.final_nonce
WHERE lineages.state = 'allocated';

-- name: block_lane
UPDATE transactions.lanes AS lanes SET state = 'blocked', state_reason = $3
WHERE lanes.chain_id = $1 AND lanes.signer = $2 AND lanes.state IN ('open', 'underfunded')
RETURNING lanes.signer;

-- name: reopen_blocked
UPDATE transactions.lanes AS lanes SET state = 'open', state_reason = NULL
WHERE lanes.chain_id = $1 AND lanes.signer = $2 AND lanes.state = 'blocked'
RETURNING lanes.signer;

-- name: blocked_lanes
SELECT lanes.signer FROM transactions.lanes AS lanes
WHERE lanes.chain_id = $1 AND lanes.environment = $2 AND lanes.role = $3 AND lanes.state = 'blocked'
ORDER BY lanes.signer;

-- name: latest_of_lane$
SELECT lanes.latest_nonce FROM transactions.lanes AS lanes WHERE lanes.chain_id = $1 AND lanes.signer = $2;
