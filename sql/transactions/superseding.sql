-- name: signers_in_flight
-- Whose signed transactions no receipt has been seen of.
SELECT DISTINCT lineages.signer
FROM transactions.lineages AS lineages
WHERE lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3
    AND lineages.state IN ('signed', 'broadcast') AND lineages.included_block_number IS NULL;

-- name: with_used_nonces
-- Open lineages whose nonce the chain has used up for good, with every member that may have done so.
SELECT
    lineages.lineage_id, lineages.signer, lineages.nonce,
    CASE WHEN lineages.disowned_at IS NULL THEN lineages.job_id END AS job_id,
    ARRAY(
        SELECT members.tx_hash FROM transactions.members AS members
        WHERE members.lineage_id = lineages.lineage_id
        ORDER BY members.member_number
    ) AS tx_hashes
FROM unnest($4::bytea[], $5::bigint[]) AS final (signer, next_nonce)
JOIN transactions.lineages AS lineages
    ON lineages.signer = final.signer AND lineages.nonce < final.next_nonce
JOIN transactions.lanes AS lanes
    ON lanes.chain_id = lineages.chain_id AND lanes.signer = lineages.signer AND lanes.world = lineages.world
WHERE lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3
    AND lineages.state IN ('signed', 'broadcast') AND lineages.included_block_number IS NULL
ORDER BY lineages.lineage_id
LIMIT $6;

-- name: hold_for_used_nonce
WITH undecided AS (
    SELECT lineages.lineage_id, asked.reason
    FROM unnest($1::uuid[], $2::text[]) AS asked (lineage_id, reason)
    JOIN transactions.lineages AS lineages USING (lineage_id)
    WHERE lineages.state IN ('signed', 'broadcast') AND lineages.hold IS NULL
    ORDER BY lineages.lineage_id
    FOR UPDATE OF lineages
),
held AS (
    UPDATE transactions.lineages AS lineages
    SET hold = 'nonce_used', hold_reason = undecided.reason, held_at = clock_timestamp()
    FROM undecided
    WHERE lineages.lineage_id = undecided.lineage_id
    RETURNING lineages.lineage_id, lineages.job_id, lineages.hold_reason
)
INSERT INTO transactions.events (lineage_id, job_id, kind, detail)
SELECT held.lineage_id, held.job_id, 'held', jsonb_build_object('hold', 'nonce_used', 'reason', held.hold_reason)
FROM held
RETURNING lineage_id;

-- name: release_used_nonces
-- A receipt has shown up, or the chain has taken back what had used the nonce.
WITH let_go AS (
    SELECT lineages.lineage_id
    FROM transactions.lineages AS lineages
    WHERE lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3
        AND lineages.hold = 'nonce_used' AND lineages.state IN ('signed', 'broadcast')
        AND NOT lineages.lineage_id = ANY ($4::uuid[])
    ORDER BY lineages.lineage_id
    FOR UPDATE
),
released AS (
    UPDATE transactions.lineages AS lineages
    SET hold = NULL, hold_reason = NULL, held_at = NULL, check_at = now()
    FROM let_go
    WHERE lineages.lineage_id = let_go.lineage_id
    RETURNING lineages.lineage_id, lineages.job_id
)
INSERT INTO transactions.events (lineage_id, job_id, kind, detail)
SELECT released.lineage_id, released.job_id, 'released', '{"hold": "nonce_used"}' FROM released
RETURNING lineage_id;

-- name: supersede
-- Something that none of us signed for it used the nonce up, for good: the lane goes on after it (TX-3).
WITH asked AS (
    SELECT a.*
    FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::bytea[], $5::text[])
        AS a (lineage_id, foreign_hash, block_number, block_hash, reason)
),
open_ones AS (
    SELECT lineages.lineage_id FROM transactions.lineages AS lineages
    WHERE lineages.lineage_id = ANY ($1::uuid[]) AND lineages.state IN ('signed', 'broadcast')
    ORDER BY lineages.lineage_id
    FOR UPDATE
),
superseded AS (
    UPDATE transactions.lineages AS lineages
    SET state = 'superseded', state_reason = asked.reason, included_block_number = asked.block_number,
        superseded_in = asked.block_hash, superseded_by = asked.foreign_hash,
        hold = NULL, hold_reason = NULL, held_at = NULL, ended_at = clock_timestamp()
    FROM asked
    JOIN open_ones USING (lineage_id)
    WHERE lineages.lineage_id = asked.lineage_id
    RETURNING lineages.lineage_id, lineages.job_id, lineages.chain_id, lineages.signer, lineages.nonce
),
detailed AS (
    SELECT
        superseded.*, asked.foreign_hash,
        jsonb_build_object(
            'lineage_id', superseded.lineage_id, 'job_id', superseded.job_id, 'nonce', superseded.nonce,
            'foreign_tx_hash', '0x' || encode(asked.foreign_hash, 'hex'), 'block_number', asked.block_number,
            'block_hash', '0x' || encode(asked.block_hash, 'hex'), 'reason', asked.reason
        ) AS detail
    FROM superseded
    JOIN asked USING (lineage_id)
),
told AS (
    INSERT INTO transactions.events (lineage_id, job_id, kind, tx_hash, detail)
    SELECT detailed.lineage_id, detailed.job_id, 'superseded', detailed.foreign_hash, detailed.detail FROM detailed
),
found AS (
    INSERT INTO transactions.findings (chain_id, signer, kind, detail, found_by)
    SELECT detailed.chain_id, detailed.signer, 'superseded', detailed.detail, $6 FROM detailed
)
SELECT superseded.lineage_id FROM superseded;
