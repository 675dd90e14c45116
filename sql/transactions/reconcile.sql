-- name: claim_open
-- The replicas share the open lineages: each is looked at by one of them a tick.
WITH due AS (
    SELECT lineages.lineage_id FROM transactions.lineages AS lineages
    WHERE lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3
        AND lineages.state IN ('signed', 'broadcast') AND lineages.check_at <= now()
    ORDER BY lineages.check_at
    LIMIT $4
    FOR UPDATE SKIP LOCKED
),
claimed AS (
    UPDATE transactions.lineages AS lineages SET check_at = now() + make_interval(secs => $5)
    FROM due
    WHERE lineages.lineage_id = due.lineage_id
    RETURNING lineages.*
)
SELECT
    claimed.lineage_id, claimed.purpose, claimed.signer, claimed.nonce, claimed.state, claimed.included_block_number,
    CASE WHEN claimed.disowned_at IS NULL THEN claimed.job_id END AS job_id,
    claimed.disowned_at IS NOT NULL AND claimed.cancel_requested_at IS NOT NULL AS is_unwanted, claimed.needs_result,
    members.tx_hash, members.member_number, members.state AS member_state,
    members.is_cancellation, members.transaction_type, members.gas_limit, members.max_fee_per_gas_wei,
    members.max_priority_fee_per_gas_wei
FROM claimed
JOIN transactions.members AS members USING (lineage_id)
ORDER BY claimed.signer, claimed.nonce, members.member_number;

-- name: claim_fillers
-- Unsigned fillers; the job's own allocations are finished by their job's next attempt.
WITH due AS (
    SELECT lineages.lineage_id FROM transactions.lineages AS lineages
    WHERE lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3
        AND lineages.state = 'allocated' AND lineages.purpose = 'filler' AND lineages.check_at <= now()
    ORDER BY lineages.check_at
    LIMIT $4
    FOR UPDATE SKIP LOCKED
)
UPDATE transactions.lineages AS lineages SET check_at = now() + make_interval(secs => $5)
FROM due
WHERE lineages.lineage_id = due.lineage_id
RETURNING
    lineages.lineage_id, lineages.purpose, lineages.job_id, lineages.chain_id, lineages.signer, lineages.nonce,
    lineages.call_hash, lineages.to_address, lineages.value_wei, lineages.call_data, lineages.gas_limit_min,
    lineages.state, NULL::bytea AS active_tx_hash;

-- name: note_inclusion!
WITH changed AS (
    SELECT lineages.lineage_id, seen.block_number
    FROM unnest($1::uuid[], $2::bigint[]) AS seen (lineage_id, block_number)
    JOIN transactions.lineages AS lineages USING (lineage_id)
    WHERE lineages.state IN ('signed', 'broadcast')
        AND lineages.included_block_number IS DISTINCT FROM seen.block_number
    ORDER BY lineages.lineage_id
    FOR UPDATE OF lineages
)
UPDATE transactions.lineages AS lineages SET included_block_number = changed.block_number
FROM changed
WHERE lineages.lineage_id = changed.lineage_id;

-- name: finalise
WITH asked AS (
    SELECT a.*
    FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::bigint[], $5::int[], $6::boolean[], $7::bigint[],
                $8::numeric[], $10::boolean[])
        AS a (lineage_id, tx_hash, block_hash, block_number, transaction_index, succeeded, gas_used,
              effective_gas_price_wei, is_cancellation)
),
open_ones AS (
    SELECT lineages.lineage_id FROM transactions.lineages AS lineages
    WHERE lineages.lineage_id = ANY ($1::uuid[]) AND lineages.state IN ('signed', 'broadcast')
    ORDER BY lineages.lineage_id
    FOR UPDATE
),
ended AS (
    UPDATE transactions.lineages AS lineages
    SET state = CASE
            WHEN asked.is_cancellation THEN 'cancelled'
            WHEN asked.succeeded THEN 'mined'
            ELSE 'reverted'
        END,
        included_block_number = asked.block_number,
        hold = NULL, hold_reason = NULL, held_at = NULL,
        ended_at = clock_timestamp()
    FROM asked
    JOIN open_ones USING (lineage_id)
    WHERE lineages.lineage_id = asked.lineage_id
    RETURNING
        lineages.lineage_id, lineages.job_id, lineages.state, lineages.ended_at - lineages.allocated_at AS took,
        lineages.disowned_at IS NOT NULL AS is_disowned
),
decided AS (
    UPDATE transactions.members AS members
    SET state = CASE WHEN asked.succeeded THEN 'mined' ELSE 'reverted' END
    FROM asked
    JOIN ended USING (lineage_id)
    WHERE members.tx_hash = asked.tx_hash AND members.lineage_id = asked.lineage_id
),
observed AS (
    INSERT INTO transactions.receipts
        (tx_hash, block_hash, block_number, transaction_index, succeeded, gas_used, effective_gas_price_wei,
         head_block_number)
    SELECT
        asked.tx_hash, asked.block_hash, asked.block_number, asked.transaction_index, asked.succeeded, asked.gas_used,
        asked.effective_gas_price_wei, $9
    FROM asked
    JOIN ended USING (lineage_id)
    -- Mined in a block that was orphaned and has come back: the same observation counts again.
    ON CONFLICT (tx_hash, block_hash) DO UPDATE SET orphaned_at = NULL
),
told AS (
    INSERT INTO transactions.events (lineage_id, job_id, kind, tx_hash, detail)
    SELECT
        ended.lineage_id, ended.job_id, ended.state, asked.tx_hash,
        jsonb_build_object('block_number', asked.block_number, 'block_hash', '0x' || encode(asked.block_hash, 'hex'))
    FROM asked
    JOIN ended USING (lineage_id)
)
SELECT ended.lineage_id, ended.state, ended.is_disowned, extract(epoch FROM ended.took)::float8 AS seconds FROM ended;

-- name: open_count$
SELECT count(*) FROM transactions.lineages
WHERE chain_id = $1 AND environment = $2 AND role = $3 AND state IN ('allocated', 'signed', 'broadcast');
