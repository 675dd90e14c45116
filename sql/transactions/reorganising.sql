-- name: boundary^
-- What an operator has resolved since makes it void: he has judged the chain anew (TX-6, TX-14).
SELECT
    boundaries.block_number, boundaries.block_hash,
    EXISTS (
        SELECT FROM transactions.halts AS halts
        WHERE halts.chain_id = $1 AND halts.environment = $2 AND halts.role = $3
            AND halts.resolution <> 'gone' AND halts.resolved_at > boundaries.moved_at
    ) AS is_void
FROM transactions.boundaries AS boundaries
WHERE boundaries.chain_id = $1 AND boundaries.environment = $2 AND boundaries.role = $3;

-- name: move_boundary!
-- Up, whoever else moves it; down only from where it is void.
INSERT INTO transactions.boundaries AS boundaries (chain_id, environment, role, block_number, block_hash, moved_by)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (chain_id, environment, role) DO UPDATE
SET block_number = excluded.block_number, block_hash = excluded.block_hash, moved_by = excluded.moved_by,
    moved_at = clock_timestamp()
WHERE boundaries.block_number < excluded.block_number OR EXISTS (
    SELECT FROM transactions.halts AS halts
    WHERE halts.chain_id = $1 AND halts.environment = $2 AND halts.role = $3
        AND halts.resolution <> 'gone' AND halts.resolved_at > boundaries.moved_at
);

-- name: deciding_blocks
-- Each block above $4 and up to $5 that ended a lineage of the pool, once: from one to the next along the index, however
-- many receipts each has. What a chain had that began anew since is no part of this one (TX-14).
WITH RECURSIVE blocks AS (
    (
        SELECT receipts.block_number, receipts.block_hash
        FROM transactions.receipts AS receipts
        WHERE receipts.orphaned_at IS NULL AND receipts.block_number > $4 AND receipts.block_number <= $5
        ORDER BY receipts.block_number, receipts.block_hash
        LIMIT 1
    )
    UNION ALL
    SELECT following.block_number, following.block_hash
    FROM blocks
    CROSS JOIN LATERAL (
        SELECT receipts.block_number, receipts.block_hash
        FROM transactions.receipts AS receipts
        WHERE receipts.orphaned_at IS NULL AND receipts.block_number <= $5
            AND (receipts.block_number, receipts.block_hash) > (blocks.block_number, blocks.block_hash)
        ORDER BY receipts.block_number, receipts.block_hash
        LIMIT 1
    ) AS following
),
ours AS (
    SELECT blocks.block_number, blocks.block_hash
    FROM blocks
    WHERE EXISTS (
        SELECT FROM transactions.receipts AS receipts
        JOIN transactions.members AS members USING (tx_hash)
        JOIN transactions.lineages AS lineages USING (lineage_id)
        JOIN transactions.lanes AS lanes
            ON lanes.chain_id = lineages.chain_id AND lanes.signer = lineages.signer AND lanes.world = lineages.world
        WHERE receipts.block_number = blocks.block_number AND receipts.block_hash = blocks.block_hash
            AND receipts.orphaned_at IS NULL
            AND lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3
            AND lineages.world = (
                SELECT lanes.world FROM transactions.lanes AS lanes
                WHERE lanes.chain_id = lineages.chain_id AND lanes.signer = lineages.signer
            )
    )
    UNION
    SELECT lineages.included_block_number, lineages.superseded_in
    FROM transactions.lineages AS lineages
    JOIN transactions.lanes AS lanes
        ON lanes.chain_id = lineages.chain_id AND lanes.signer = lineages.signer AND lanes.world = lineages.world
    WHERE lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3
        AND lineages.state = 'superseded' AND lineages.superseded_in IS NOT NULL
        AND lineages.included_block_number > $4 AND lineages.included_block_number <= $5
)
SELECT ours.block_number, ours.block_hash FROM ours ORDER BY ours.block_number, ours.block_hash LIMIT $6;

-- name: record_reorganisations!
INSERT INTO transactions.reorganisations
    (chain_id, block_number, old_hash, new_hash, head_block_number, found_by)
SELECT $1, a.block_number, a.old_hash, a.new_hash, $5, $6
FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) AS a (block_number, old_hash, new_hash);

-- name: ended_in
-- The next page of the pool's lineages that these blocks ended.
WITH gone AS (
    SELECT * FROM unnest($4::bigint[], $5::bytea[]) AS a (block_number, block_hash)
)
SELECT lineages.lineage_id, lineages.job_id
FROM gone
JOIN transactions.receipts AS receipts USING (block_number, block_hash)
JOIN transactions.members AS members USING (tx_hash)
JOIN transactions.lineages AS lineages USING (lineage_id)
WHERE receipts.orphaned_at IS NULL
    AND lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3 AND lineages.lineage_id > $6
UNION
SELECT lineages.lineage_id, lineages.job_id
FROM gone
JOIN transactions.lineages AS lineages
    ON lineages.included_block_number = gone.block_number AND lineages.superseded_in = gone.block_hash
WHERE lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3 AND lineages.state = 'superseded'
    AND lineages.superseded_in IS NOT NULL AND lineages.lineage_id > $6
ORDER BY lineage_id
LIMIT $7;

-- name: lock_lineages
-- A statement of its own: what is read and changed after it must be younger than whatever it waited for.
SELECT lineages.lineage_id FROM transactions.lineages AS lineages
WHERE lineages.lineage_id = ANY ($1::uuid[])
ORDER BY lineages.lineage_id
FOR UPDATE;

-- name: still_ended_in
-- Those of the locked ones that nobody has revived meanwhile, with what ended them. A job that has another lineage now is
-- not theirs any more.
WITH gone AS (
    SELECT * FROM unnest($2::bigint[], $3::bytea[]) AS a (block_number, block_hash)
),
ended AS (
    SELECT lineages.lineage_id, receipts.tx_hash, receipts.block_number, receipts.block_hash
    FROM transactions.lineages AS lineages
    JOIN transactions.members AS members USING (lineage_id)
    JOIN transactions.receipts AS receipts USING (tx_hash)
    JOIN gone ON gone.block_number = receipts.block_number AND gone.block_hash = receipts.block_hash
    WHERE lineages.lineage_id = ANY ($1::uuid[]) AND receipts.orphaned_at IS NULL
        AND lineages.state IN ('mined', 'reverted', 'cancelled')
    UNION ALL
    SELECT lineages.lineage_id, lineages.superseded_by, lineages.included_block_number, lineages.superseded_in
    FROM transactions.lineages AS lineages
    JOIN gone ON gone.block_number = lineages.included_block_number AND gone.block_hash = lineages.superseded_in
    WHERE lineages.lineage_id = ANY ($1::uuid[]) AND lineages.state = 'superseded'
)
SELECT
    ended.lineage_id, ended.tx_hash, ended.block_number, ended.block_hash, lineages.signer, lineages.nonce,
    lineages.state, CASE WHEN lineages.disowned_at IS NULL THEN lineages.job_id END AS job_id,
    lineages.needs_result AND lineages.state = 'mined' AS had_result,
    EXISTS (
        SELECT FROM transactions.lineages AS others
        WHERE others.job_id = lineages.job_id AND others.lineage_id <> lineages.lineage_id
            AND others.state IN ('allocated', 'signed', 'broadcast', 'mined') AND others.disowned_at IS NULL
    ) AS is_succeeded
FROM ended
JOIN transactions.lineages AS lineages USING (lineage_id)
ORDER BY ended.lineage_id;

-- name: permit_revival!
-- The database lets an ended lineage and its members go on only inside this named operation.
SELECT set_config('tayho.operation', 'revive', true);

-- name: revive
-- The receipt stays as a row, and whatever was signed stays: the member with the highest fees is the one to be sent again.
-- A lineage whose job goes on without it is disowned; unless it was mined, its call is not wanted any more.
WITH asked AS (
    SELECT a.*
    FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::bytea[], $5::text[], $6::boolean[])
        AS a (lineage_id, tx_hash, block_number, block_hash, was_state, is_disowned)
),
orphaned AS (
    UPDATE transactions.receipts AS receipts SET orphaned_at = clock_timestamp()
    FROM asked
    WHERE receipts.tx_hash = asked.tx_hash AND receipts.block_hash = asked.block_hash AND receipts.orphaned_at IS NULL
),
revived AS (
    UPDATE transactions.lineages AS lineages
    SET state = 'signed', state_reason = NULL, included_block_number = NULL, superseded_in = NULL,
        superseded_by = NULL, hold = NULL, hold_reason = NULL, held_at = NULL, ended_at = NULL, check_at = now(),
        disowned_at = CASE WHEN asked.is_disowned THEN clock_timestamp() ELSE lineages.disowned_at END,
        cancel_requested_at = CASE
            WHEN asked.is_disowned AND asked.was_state <> 'mined' THEN clock_timestamp()
            ELSE lineages.cancel_requested_at
        END
    FROM asked
    WHERE lineages.lineage_id = asked.lineage_id
    RETURNING lineages.lineage_id, lineages.job_id
),
ranked AS (
    SELECT
        members.tx_hash,
        members.member_number = max(members.member_number) OVER (PARTITION BY members.lineage_id) AS is_active
    FROM transactions.members AS members
    WHERE members.lineage_id = ANY ($1::uuid[])
),
changed AS (
    UPDATE transactions.members AS members SET state = CASE WHEN ranked.is_active THEN 'signed' ELSE 'replaced' END
    FROM ranked
    WHERE members.tx_hash = ranked.tx_hash
        AND ((ranked.is_active AND members.state <> 'signed') OR members.state IN ('mined', 'reverted'))
),
told AS (
    INSERT INTO transactions.events (lineage_id, job_id, kind, tx_hash, detail)
    SELECT
        revived.lineage_id, revived.job_id, 'un_mined', asked.tx_hash,
        jsonb_build_object(
            'was', asked.was_state, 'block_number', asked.block_number,
            'block_hash', '0x' || encode(asked.block_hash, 'hex'), 'job_goes_on_without_it', asked.is_disowned
        )
    FROM revived
    JOIN asked USING (lineage_id)
)
SELECT revived.lineage_id FROM revived;

-- name: record_revival_conflicts!
INSERT INTO transactions.findings (chain_id, signer, kind, detail, found_by)
SELECT $1, a.signer, 'revival_conflict', a.detail, $4
FROM unnest($2::bytea[], $3::jsonb[]) AS a (signer, detail);
