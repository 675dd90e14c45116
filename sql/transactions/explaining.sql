-- Questions of people and of scrapes. None of them ever reads the ciphertext (TX-12).

-- name: find_lineages
-- By the id of a lineage or of its job, or by the hash of any transaction ever signed for it; the newest first.
SELECT lineages.lineage_id
FROM transactions.lineages AS lineages
WHERE lineages.chain_id = $1 AND lineages.environment = $2
    AND (
        lineages.lineage_id = $3::uuid
        OR lineages.job_id = $3::uuid
        OR lineages.lineage_id = (SELECT members.lineage_id FROM transactions.members AS members WHERE members.tx_hash = $4::bytea)
    )
ORDER BY lineages.allocated_at DESC;

-- name: lineage^
SELECT
    lineages.lineage_id, lineages.purpose, lineages.job_id, lineages.chain_id, lineages.environment, lineages.role,
    lineages.signer, lineages.world, lineages.nonce, lineages.call_hash, lineages.to_address, lineages.value_wei,
    octet_length(lineages.call_data) AS call_data_bytes, lineages.state, lineages.state_reason, lineages.hold,
    lineages.hold_reason, lineages.held_at, lineages.bump_requested_at, lineages.cancel_requested_at,
    lineages.included_block_number, lineages.check_at, lineages.allocated_at, lineages.ended_at,
    clock_timestamp() AS now
FROM transactions.lineages AS lineages
WHERE lineages.lineage_id = $1;

-- name: broadcasts_of_lineage
SELECT
    broadcasts.tx_hash, broadcasts.endpoint, broadcasts.answer, broadcasts.reason, broadcasts.detail,
    broadcasts.sent_by, broadcasts.answered_at
FROM transactions.broadcasts AS broadcasts
JOIN transactions.members AS members USING (tx_hash)
WHERE members.lineage_id = $1
ORDER BY broadcasts.broadcast_id DESC
LIMIT $2;

-- name: receipts_of_lineage
SELECT
    receipts.tx_hash, receipts.block_number, receipts.block_hash, receipts.succeeded, receipts.gas_used,
    receipts.effective_gas_price_wei, receipts.head_block_number, receipts.observed_at, receipts.orphaned_at
FROM transactions.receipts AS receipts
JOIN transactions.members AS members USING (tx_hash)
WHERE members.lineage_id = $1
ORDER BY receipts.observed_at;

-- name: events_of_lineage
SELECT events.kind, events.tx_hash, events.detail, events.occurred_at
FROM transactions.events AS events
WHERE events.lineage_id = $1
ORDER BY events.event_id;

-- name: findings_of_lineage
-- What was found of its lane from its allocation to its end.
SELECT findings.kind, findings.detail, findings.found_by, findings.found_at
FROM transactions.lineages AS lineages
JOIN transactions.findings AS findings
    ON findings.chain_id = lineages.chain_id AND findings.signer = lineages.signer
    AND findings.found_at BETWEEN lineages.allocated_at AND coalesce(lineages.ended_at, clock_timestamp()) + interval '1 minute'
WHERE lineages.lineage_id = $1
ORDER BY findings.finding_id DESC
LIMIT $2;

-- name: lane_of_lineage^
SELECT
    lanes.state, lanes.state_reason, lanes.next_nonce, lanes.latest_nonce, lanes.pending_nonce, lanes.balance_wei,
    lanes.is_delegated, lanes.observed_at, lowest.nonce AS lowest_open_nonce,
    lowest.lineage_id AS lowest_open_lineage_id
FROM transactions.lineages AS lineages
JOIN transactions.lanes AS lanes USING (chain_id, signer)
LEFT JOIN LATERAL (
    SELECT others.nonce, others.lineage_id
    FROM transactions.lineages AS others
    WHERE others.chain_id = lineages.chain_id AND others.signer = lineages.signer
        AND others.state IN ('allocated', 'signed', 'broadcast') AND others.included_block_number IS NULL
    ORDER BY others.nonce
    LIMIT 1
) AS lowest ON true
WHERE lineages.lineage_id = $1;

-- name: open_halts
SELECT halts.kind, halts.evidence, halts.raised_by, halts.raised_at
FROM transactions.halts AS halts
WHERE halts.chain_id = $1 AND halts.environment = $2 AND halts.role = $3 AND halts.resolved_at IS NULL
ORDER BY halts.raised_at;

-- name: doubtful
-- What is neither surely sent nor surely not, and what is held, the longest open first.
SELECT
    lineages.lineage_id, lineages.job_id, lineages.signer, lineages.nonce, lineages.state, lineages.hold,
    lineages.hold_reason, lineages.held_at, members.tx_hash, members.state AS member_state,
    last.reason AS last_answer, last.answered_at AS last_answered_at
FROM transactions.lineages AS lineages
LEFT JOIN transactions.members AS members USING (lineage_id)
LEFT JOIN LATERAL (
    SELECT coalesce(broadcasts.reason, broadcasts.answer) AS reason, broadcasts.answered_at
    FROM transactions.broadcasts AS broadcasts
    WHERE broadcasts.tx_hash = members.tx_hash
    ORDER BY broadcasts.broadcast_id DESC
    LIMIT 1
) AS last ON true
WHERE lineages.chain_id = $1 AND lineages.environment = $2 AND ($3::text IS NULL OR lineages.role = $3::text)
    AND lineages.state IN ('allocated', 'signed', 'broadcast')
    AND (members.state = 'ambiguous' OR lineages.hold IS NOT NULL)
ORDER BY lineages.allocated_at, members.member_number
LIMIT $4;

-- name: lanes_of_environment
SELECT
    lanes.role, lanes.signer, lanes.state, lanes.state_reason, lanes.next_nonce, lanes.latest_nonce,
    lanes.pending_nonce, lanes.balance_wei, lanes.is_delegated, lanes.world, lanes.observed_at,
    coalesce(flying.in_flight, 0) AS in_flight, coalesce(flying.held, 0) AS held, flying.oldest_open_seconds
FROM transactions.lanes AS lanes
LEFT JOIN LATERAL (
    SELECT
        count(*) AS in_flight, count(lineages.hold) AS held,
        extract(epoch FROM clock_timestamp() - min(lineages.allocated_at))::float8 AS oldest_open_seconds
    FROM transactions.lineages AS lineages
    WHERE lineages.chain_id = lanes.chain_id AND lineages.signer = lanes.signer
        AND lineages.state IN ('allocated', 'signed', 'broadcast') AND lineages.included_block_number IS NULL
) AS flying ON true
WHERE lanes.chain_id = $1 AND lanes.environment = $2 AND ($3::text IS NULL OR lanes.role = $3::text)
ORDER BY lanes.role, lanes.signer;

-- name: open_by_state_and_hold
-- For the gauges: the open lineages of a pool, each under its state and, where it is held, its hold.
SELECT lineages.state, coalesce(lineages.hold, '') AS hold, count(*) AS lineages
FROM transactions.lineages AS lineages
WHERE lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3
    AND lineages.state IN ('allocated', 'signed', 'broadcast')
GROUP BY lineages.state, lineages.hold;
