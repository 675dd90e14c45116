-- name: close_underfunded
-- A node says that the signer cannot pay: no new nonce is taken from the lane until its balance was seen to suffice (TX-4).
-- Before any lineage is locked: lanes come first.
WITH asked AS (
    SELECT DISTINCT ON (members.chain_id, members.signer) members.chain_id, members.signer, a.endpoint, a.detail
    FROM unnest($1::bytea[], $2::text[], $3::text[]) AS a (tx_hash, endpoint, detail)
    JOIN transactions.members AS members USING (tx_hash)
    ORDER BY members.chain_id, members.signer, members.nonce
),
open_ones AS (
    SELECT lanes.chain_id, lanes.signer, asked.endpoint, asked.detail
    FROM asked
    JOIN transactions.lanes AS lanes USING (chain_id, signer)
    WHERE lanes.state = 'open'
    ORDER BY lanes.chain_id, lanes.signer
    FOR UPDATE OF lanes
),
closed AS (
    UPDATE transactions.lanes AS lanes
    SET state = 'underfunded', state_reason = open_ones.endpoint || ': ' || open_ones.detail
    FROM open_ones
    WHERE lanes.chain_id = open_ones.chain_id AND lanes.signer = open_ones.signer
    RETURNING lanes.chain_id, lanes.signer, open_ones.endpoint, open_ones.detail
)
INSERT INTO transactions.findings (chain_id, signer, kind, detail, found_by)
SELECT
    closed.chain_id, closed.signer, 'underfunded',
    jsonb_build_object('endpoint', closed.endpoint, 'answer', closed.detail), $4
FROM closed
RETURNING signer;

-- name: lock_lineages_of
-- Which lineage each transaction is of; they hold still until the answers are applied, in the order that `finalise` locks.
SELECT lineages.lineage_id, members.tx_hash
FROM transactions.members AS members
JOIN transactions.lineages AS lineages USING (lineage_id)
WHERE members.tx_hash = ANY ($1::bytea[])
ORDER BY lineages.lineage_id, members.member_number
FOR UPDATE OF lineages;

-- name: hold
-- What a node's words hold is changed only by a node's words: the other holds are for others to end ($4 names those).
-- One that was seen in a block waits for its confirmations and for nothing else.
WITH asked AS (
    SELECT a.* FROM unnest($1::uuid[], $2::text[], $3::text[]) AS a (lineage_id, hold, hold_reason)
),
open_ones AS (
    SELECT lineages.lineage_id, asked.hold, asked.hold_reason
    FROM asked
    JOIN transactions.lineages AS lineages USING (lineage_id)
    WHERE lineages.state IN ('signed', 'broadcast') AND lineages.included_block_number IS NULL
        AND (lineages.hold IS NULL OR (lineages.hold = ANY ($4::text[]) AND lineages.hold <> asked.hold))
    ORDER BY lineages.lineage_id
    FOR UPDATE OF lineages
),
held AS (
    UPDATE transactions.lineages AS lineages
    SET hold = open_ones.hold, hold_reason = open_ones.hold_reason, held_at = clock_timestamp()
    FROM open_ones
    WHERE lineages.lineage_id = open_ones.lineage_id
    RETURNING lineages.lineage_id, lineages.job_id, lineages.hold, lineages.hold_reason
),
told AS (
    INSERT INTO transactions.events (lineage_id, job_id, kind, detail)
    SELECT
        held.lineage_id, held.job_id, 'held',
        jsonb_build_object('hold', held.hold, 'reason', held.hold_reason)
    FROM held
)
SELECT held.lineage_id, held.hold FROM held;

-- name: release
-- Ends holds of these kinds, and of no others.
WITH held AS (
    SELECT lineages.lineage_id, lineages.hold AS was_held_by
    FROM transactions.lineages AS lineages
    WHERE lineages.lineage_id = ANY ($1::uuid[]) AND lineages.state IN ('signed', 'broadcast')
        AND lineages.hold = ANY ($2::text[])
    ORDER BY lineages.lineage_id
    FOR UPDATE
),
released AS (
    UPDATE transactions.lineages AS lineages SET hold = NULL, hold_reason = NULL, held_at = NULL
    FROM held
    WHERE lineages.lineage_id = held.lineage_id
    RETURNING lineages.lineage_id, lineages.job_id, held.was_held_by
),
told AS (
    INSERT INTO transactions.events (lineage_id, job_id, kind, detail)
    SELECT
        released.lineage_id, released.job_id, 'released',
        jsonb_build_object('hold', released.was_held_by, 'reason', $3::text)
    FROM released
)
SELECT released.lineage_id, released.was_held_by FROM released;

-- name: hold_for_missing_result
-- Mined and deep enough, but its logs do not say what they must: nothing ends, and a person is told, once a reason.
WITH asked AS (
    SELECT a.*
    FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::bigint[]) AS a (lineage_id, reason, tx_hash, block_number)
),
open_ones AS (
    SELECT lineages.lineage_id, asked.reason, asked.tx_hash, asked.block_number
    FROM asked
    JOIN transactions.lineages AS lineages USING (lineage_id)
    WHERE lineages.state IN ('signed', 'broadcast')
        AND (lineages.hold IS DISTINCT FROM 'result_missing' OR lineages.hold_reason <> asked.reason)
    ORDER BY lineages.lineage_id
    FOR UPDATE OF lineages
),
held AS (
    UPDATE transactions.lineages AS lineages
    SET hold = 'result_missing', hold_reason = open_ones.reason, held_at = clock_timestamp(),
        -- A block has it: it takes no room in its lane, and should the block vanish, so does the hold.
        included_block_number = open_ones.block_number
    FROM open_ones
    WHERE lineages.lineage_id = open_ones.lineage_id
    RETURNING lineages.lineage_id, lineages.job_id, lineages.chain_id, lineages.signer, lineages.nonce,
        open_ones.reason, open_ones.tx_hash, open_ones.block_number
),
told AS (
    INSERT INTO transactions.events (lineage_id, job_id, kind, tx_hash, detail)
    SELECT
        held.lineage_id, held.job_id, 'held', held.tx_hash,
        jsonb_build_object('hold', 'result_missing', 'reason', held.reason, 'block_number', held.block_number)
    FROM held
),
found AS (
    INSERT INTO transactions.findings (chain_id, signer, kind, detail, found_by)
    SELECT
        held.chain_id, held.signer, 'result_missing',
        jsonb_build_object(
            'lineage_id', held.lineage_id, 'job_id', held.job_id, 'nonce', held.nonce, 'reason', held.reason,
            'tx_hash', '0x' || encode(held.tx_hash, 'hex'), 'block_number', held.block_number
        ),
        $5
    FROM held
)
SELECT held.lineage_id, held.job_id, held.reason FROM held;
