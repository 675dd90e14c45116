-- name: allocate
-- The nonces are taken from the fence and numbered here, in one statement: contiguous whatever was asked for (I5).
WITH asked AS (
    SELECT a.*
    FROM unnest($4::uuid[], $5::uuid[], $6::bytea[], $7::bytea[], $8::bytea[], $9::numeric[], $10::bytea[],
                $11::bigint[], $12::boolean[])
        WITH ORDINALITY AS a (lineage_id, job_id, signer, call_hash, to_address, value_wei, call_data, gas_limit_min,
                              needs_result, place)
),
counted AS (
    SELECT asked.signer, count(*) AS nonces FROM asked GROUP BY asked.signer
),
advanced AS (
    UPDATE transactions.lanes AS lanes SET next_nonce = lanes.next_nonce + counted.nonces
    FROM counted
    WHERE lanes.chain_id = $1 AND lanes.signer = counted.signer AND lanes.state = 'open'
    RETURNING lanes.signer, lanes.world, lanes.next_nonce - counted.nonces AS nonce_first
)
INSERT INTO transactions.lineages
    (lineage_id, purpose, job_id, chain_id, signer, world, nonce, call_hash, environment, role, to_address,
     value_wei, call_data, gas_limit_min, needs_result, state)
SELECT
    asked.lineage_id, 'call', asked.job_id, $1, asked.signer, advanced.world,
    advanced.nonce_first + row_number() OVER (PARTITION BY asked.signer ORDER BY asked.place) - 1,
    asked.call_hash, $2, $3, asked.to_address, asked.value_wei, asked.call_data, asked.gas_limit_min,
    asked.needs_result, 'allocated'
FROM asked
JOIN advanced USING (signer)
RETURNING lineage_id, job_id, signer, nonce;

-- name: live_of_job^
SELECT
    lineages.lineage_id, lineages.purpose, lineages.job_id, lineages.chain_id, lineages.signer, lineages.nonce,
    lineages.call_hash, lineages.to_address, lineages.value_wei, lineages.call_data, lineages.gas_limit_min,
    lineages.state,
    (
        SELECT members.tx_hash FROM transactions.members AS members
        WHERE members.lineage_id = lineages.lineage_id
        ORDER BY members.member_number DESC
        LIMIT 1
    ) AS active_tx_hash
FROM transactions.lineages AS lineages
WHERE lineages.job_id = $1 AND lineages.state IN ('allocated', 'signed', 'broadcast', 'mined')
    AND lineages.disowned_at IS NULL;

-- name: persist
-- Signed bytes enter the journal here and nowhere else (TX-2); only an allocation that nobody signed yet takes them.
WITH asked AS (
    SELECT a.*
    FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::numeric[], $5::numeric[], $6::text[], $7::bytea[],
                $8::bytea[], $10::smallint[], $11::boolean[])
        AS a (lineage_id, tx_hash, gas_limit, max_fee_per_gas_wei, max_priority_fee_per_gas_wei, key_id, cipher_nonce,
              ciphertext, transaction_type, is_cancellation)
),
unsigned AS (
    SELECT lineages.lineage_id FROM transactions.lineages AS lineages
    WHERE lineages.lineage_id = ANY ($1::uuid[]) AND lineages.state = 'allocated'
    ORDER BY lineages.lineage_id
    FOR UPDATE
),
signed AS (
    UPDATE transactions.lineages AS lineages SET state = 'signed', check_at = now() + make_interval(secs => $9)
    FROM unsigned
    WHERE lineages.lineage_id = unsigned.lineage_id
    RETURNING lineages.lineage_id, lineages.chain_id, lineages.signer, lineages.nonce, lineages.call_hash
)
INSERT INTO transactions.members
    (tx_hash, lineage_id, chain_id, signer, nonce, call_hash, member_number, transaction_type, is_cancellation,
     gas_limit, max_fee_per_gas_wei, max_priority_fee_per_gas_wei, key_id, cipher_nonce, ciphertext, state)
SELECT
    asked.tx_hash, signed.lineage_id, signed.chain_id, signed.signer, signed.nonce, signed.call_hash, 1,
    asked.transaction_type, asked.is_cancellation, asked.gas_limit, asked.max_fee_per_gas_wei,
    asked.max_priority_fee_per_gas_wei, asked.key_id, asked.cipher_nonce, asked.ciphertext, 'signed'
FROM asked
JOIN signed USING (lineage_id)
RETURNING lineage_id;

-- name: sealed_members
SELECT
    members.tx_hash, members.lineage_id, members.chain_id, members.signer, members.nonce, members.call_hash,
    members.is_cancellation, members.key_id, members.cipher_nonce, members.ciphertext
FROM transactions.members AS members
WHERE members.tx_hash = ANY ($1::bytea[])
ORDER BY members.signer, members.nonce, members.member_number;

-- name: last_said
-- The newest answers to each transaction, the newest first, by their class in the table of what nodes say.
SELECT
    members.tx_hash, lanes.state <> 'underfunded' AS is_funded, said.reasons,
    extract(epoch FROM clock_timestamp() - said.last_at)::float8 AS seconds_ago
FROM transactions.members AS members
JOIN transactions.lanes AS lanes USING (chain_id, signer)
CROSS JOIN LATERAL (
    SELECT array_agg(newest.reason ORDER BY newest.broadcast_id DESC) AS reasons, max(newest.answered_at) AS last_at
    FROM (
        SELECT broadcasts.broadcast_id, coalesce(broadcasts.reason, broadcasts.answer) AS reason, broadcasts.answered_at
        FROM transactions.broadcasts AS broadcasts
        WHERE broadcasts.tx_hash = members.tx_hash
        ORDER BY broadcasts.broadcast_id DESC
        LIMIT $2
    ) AS newest
) AS said
WHERE members.tx_hash = ANY ($1::bytea[]) AND said.reasons IS NOT NULL;

-- name: record_broadcasts!
INSERT INTO transactions.broadcasts (tx_hash, endpoint, answer, reason, detail, sent_by)
SELECT a.tx_hash, a.endpoint, a.answer, a.reason, a.detail, $6
FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::text[])
    AS a (tx_hash, endpoint, answer, reason, detail);

-- name: doubt!
-- No node has said yes or no to these bytes: a state of its own, which a yes or a receipt ends (TX-4, TX-12).
UPDATE transactions.members SET state = 'ambiguous'
FROM (
    SELECT doubted.tx_hash FROM transactions.members AS doubted
    WHERE doubted.tx_hash = ANY ($1::bytea[]) AND doubted.state = 'signed'
    ORDER BY doubted.tx_hash
    FOR UPDATE
) AS unanswered
WHERE members.tx_hash = unanswered.tx_hash;

-- name: mark_broadcast
-- Lineages first and in order, then their members: the order in which `finalise` locks them too.
WITH sent AS (
    SELECT lineages.lineage_id
    FROM transactions.lineages AS lineages
    WHERE lineages.lineage_id IN (
        SELECT members.lineage_id FROM transactions.members AS members WHERE members.tx_hash = ANY ($1::bytea[])
    )
    ORDER BY lineages.lineage_id
    FOR UPDATE
),
marked AS (
    UPDATE transactions.members AS members SET state = 'broadcast'
    FROM sent
    WHERE members.lineage_id = sent.lineage_id AND members.tx_hash = ANY ($1::bytea[])
        AND members.state IN ('signed', 'ambiguous')
    RETURNING members.lineage_id, members.member_number
)
UPDATE transactions.lineages AS lineages SET state = 'broadcast'
FROM marked
WHERE lineages.lineage_id = marked.lineage_id AND lineages.state = 'signed'
RETURNING marked.member_number, extract(epoch FROM clock_timestamp() - lineages.allocated_at)::float8 AS seconds;

-- name: abandon_unsigned^
-- The tail's nonce goes back to the fence; any other nonce is filled at once, so the lane never gaps (TX-3, I5).
WITH abandoned AS (
    UPDATE transactions.lineages AS lineages
    SET state = 'abandoned', state_reason = $2, ended_at = clock_timestamp()
    WHERE lineages.lineage_id = $1 AND lineages.state = 'allocated'
    RETURNING lineages.*
),
released AS (
    UPDATE transactions.lanes AS lanes SET next_nonce = lanes.next_nonce - 1
    FROM abandoned
    WHERE lanes.chain_id = abandoned.chain_id AND lanes.signer = abandoned.signer
        AND lanes.world = abandoned.world AND lanes.next_nonce = abandoned.nonce + 1
    RETURNING lanes.signer
),
filled AS (
    INSERT INTO transactions.lineages
        (lineage_id, purpose, job_id, chain_id, signer, world, nonce, call_hash, environment, role, to_address,
         value_wei, call_data, state)
    SELECT
        $3, 'filler', NULL, abandoned.chain_id, abandoned.signer, abandoned.world, abandoned.nonce, $4,
        abandoned.environment,
        abandoned.role, abandoned.signer, 0, '', 'allocated'
    FROM abandoned
    WHERE NOT EXISTS (SELECT FROM released)
    RETURNING lineage_id
)
SELECT abandoned.lineage_id, EXISTS (SELECT FROM released) AS released, EXISTS (SELECT FROM filled) AS filled
FROM abandoned;
