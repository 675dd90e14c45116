-- name: anchor^
SELECT pools.anchor_block_number, pools.anchor_block_hash
FROM transactions.pools AS pools
WHERE pools.chain_id = $1 AND pools.environment = $2 AND pools.role = $3 AND pools.anchor_block_number IS NOT NULL;

-- name: raise_anchor!
-- Upwards only, and not while a halt says that the chain may be another.
UPDATE transactions.pools AS pools SET anchor_block_number = $4, anchor_block_hash = $5
WHERE pools.chain_id = $1 AND pools.environment = $2 AND pools.role = $3 AND NOT pools.is_halted
    AND (pools.anchor_block_number IS NULL OR pools.anchor_block_number < $4);

-- name: set_anchor!
UPDATE transactions.pools AS pools SET anchor_block_number = $4, anchor_block_hash = $5
WHERE pools.chain_id = $1 AND pools.environment = $2 AND pools.role = $3;

-- name: lock_lanes
SELECT lanes.signer, lanes.next_nonce FROM transactions.lanes AS lanes
WHERE lanes.chain_id = $1 AND lanes.environment = $2 AND lanes.role = $3 AND lanes.state <> 'retired'
ORDER BY lanes.signer
FOR UPDATE;

-- name: open_lineages_of_pool
-- What a world that is gone leaves behind: signed says whether bytes of it may be with a node. A job that goes on without
-- its lineage (TX-6) is not ended with it.
SELECT
    lineages.lineage_id, CASE WHEN lineages.disowned_at IS NULL THEN lineages.job_id END AS job_id,
    lineages.state <> 'allocated' AS is_signed
FROM transactions.lineages AS lineages
WHERE lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3
    AND lineages.state IN ('allocated', 'signed', 'broadcast');

-- name: supersede_open
-- Those that are still in one of the states asked ($3). Their jobs were ended or let go before, in the same transaction.
WITH open_ones AS (
    SELECT lineages.lineage_id FROM transactions.lineages AS lineages
    WHERE lineages.lineage_id = ANY ($1::uuid[]) AND lineages.state = ANY ($3::text[])
    ORDER BY lineages.lineage_id
    FOR UPDATE
),
ended AS (
    UPDATE transactions.lineages AS lineages
    SET state = 'superseded', state_reason = $2, ended_at = clock_timestamp(),
        hold = NULL, hold_reason = NULL, held_at = NULL
    FROM open_ones
    WHERE lineages.lineage_id = open_ones.lineage_id
    RETURNING lineages.lineage_id, lineages.job_id
),
told AS (
    INSERT INTO transactions.events (lineage_id, job_id, kind, detail)
    SELECT ended.lineage_id, ended.job_id, 'superseded', jsonb_build_object('reason', $2::text) FROM ended
)
SELECT ended.lineage_id FROM ended;

-- name: begin_worlds!
-- Nonces start again where the new chain has them. The lanes are locked, and nothing of them is open.
UPDATE transactions.lanes AS lanes
SET world = lanes.world + 1, first_nonce = a.nonce, next_nonce = a.nonce, latest_nonce = a.nonce,
    pending_nonce = a.nonce, balance_wei = NULL, observed_at = NULL, is_pool_dropped = false
FROM unnest($2::bytea[], $3::bigint[]) AS a (signer, nonce)
WHERE lanes.chain_id = $1 AND lanes.signer = a.signer;
