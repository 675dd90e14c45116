-- name: register_pool!
INSERT INTO transactions.pools (chain_id, environment, role) VALUES ($1, $2, $3)
ON CONFLICT (chain_id, environment, role) DO NOTHING;

-- name: register_lane!
INSERT INTO transactions.lanes (chain_id, signer, environment, role, first_nonce, next_nonce, state)
VALUES ($1, $2, $3, $4, $5, $5, 'open')
ON CONFLICT (chain_id, signer) DO NOTHING;

-- name: has_lanes$
-- Whether the pool ever had a lane. Under the pool's lock.
SELECT EXISTS (
    SELECT FROM transactions.lanes AS lanes WHERE lanes.chain_id = $1 AND lanes.environment = $2 AND lanes.role = $3
);

-- name: find_lane^
SELECT environment, role, state, next_nonce FROM transactions.lanes WHERE chain_id = $1 AND signer = $2;

-- name: lock_pool^
-- One allocation at a time in a pool: the cursor and the fences move under this lock. It lets those pass who only hold
-- the pool unhalted, and waits for who halts it.
SELECT cursor_position, is_halted FROM transactions.pools
WHERE chain_id = $1 AND environment = $2 AND role = $3
FOR NO KEY UPDATE;

-- name: lock_lanes_of_pool
-- Their states hold still until the allocation commits.
SELECT lanes.signer FROM transactions.lanes AS lanes
WHERE lanes.chain_id = $1 AND lanes.environment = $2 AND lanes.role = $3 AND lanes.state <> 'retired'
ORDER BY lanes.signer
FOR UPDATE;

-- name: lanes_of_pool
-- A retired lane has left its pool: nothing of it is looked at any more.
SELECT
    lanes.signer, lanes.state, lanes.state_reason, lanes.next_nonce, lanes.latest_nonce, lanes.pending_nonce,
    lanes.balance_wei, lanes.is_delegated,
    (
        SELECT count(*) FROM transactions.lineages AS lineages
        WHERE lineages.chain_id = lanes.chain_id AND lineages.signer = lanes.signer
            AND lineages.state IN ('allocated', 'signed', 'broadcast') AND lineages.included_block_number IS NULL
    ) AS in_flight
FROM transactions.lanes AS lanes
WHERE lanes.chain_id = $1 AND lanes.environment = $2 AND lanes.role = $3 AND lanes.state <> 'retired'
ORDER BY lanes.signer;

-- name: move_cursor!
UPDATE transactions.pools SET cursor_position = $4 WHERE chain_id = $1 AND environment = $2 AND role = $3;
