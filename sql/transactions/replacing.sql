-- name: wanting_replacement
-- Read without a lock: of two replicas that replace the same member, the second finds its number taken. A lane's lowest
-- nonce that no block holds is the only one that a higher fee helps; a wish to cancel concerns any.
WITH in_flight AS (
    SELECT lineages.*, row_number() OVER (PARTITION BY lineages.signer ORDER BY lineages.nonce) = 1 AS is_lowest
    FROM transactions.lineages AS lineages
    JOIN transactions.lanes AS lanes
        ON lanes.chain_id = lineages.chain_id AND lanes.signer = lineages.signer AND lanes.world = lineages.world
    WHERE lineages.chain_id = $1 AND lineages.environment = $2 AND lineages.role = $3
        AND lineages.state IN ('allocated', 'signed', 'broadcast') AND lineages.included_block_number IS NULL
),
looked_at AS (
    SELECT in_flight.* FROM in_flight
    WHERE in_flight.is_lowest OR in_flight.cancel_requested_at IS NOT NULL
        OR in_flight.hold IN ('fee_capped', 'replacements_spent')
),
standing AS (
    SELECT
        looked_at.*, active.tx_hash, active.member_number, active.member_state, active.is_cancellation,
        active.transaction_type, active.gas_limit, active.max_fee_per_gas_wei, active.max_priority_fee_per_gas_wei,
        coalesce(told.kind = 'held' AND told.was_paying, false) AS was_paying_when_held,
        -- A hold that was lifted gives the transaction its time anew.
        greatest(active.signed_at, CASE WHEN told.kind = 'released' THEN told.occurred_at END)
            <= clock_timestamp() - make_interval(secs => $4) AS is_overdue
    FROM looked_at
    LEFT JOIN LATERAL (
        SELECT members.*, members.state AS member_state FROM transactions.members AS members
        WHERE members.lineage_id = looked_at.lineage_id
        ORDER BY members.member_number DESC
        LIMIT 1
    ) AS active ON true
    LEFT JOIN LATERAL (
        SELECT events.kind, events.occurred_at, (events.detail ->> 'pays_the_market')::boolean AS was_paying
        FROM transactions.events AS events
        WHERE events.lineage_id = looked_at.lineage_id AND events.kind IN ('held', 'released')
        ORDER BY events.event_id DESC
        LIMIT 1
    ) AS told ON true
)
SELECT
    standing.lineage_id, standing.purpose, standing.job_id, standing.chain_id, standing.signer, standing.nonce,
    standing.call_hash, standing.to_address, standing.value_wei, standing.call_data, standing.gas_limit_min,
    standing.state, standing.hold,
    standing.tx_hash, standing.tx_hash AS active_tx_hash, standing.member_number, standing.member_state,
    standing.is_cancellation, standing.transaction_type, standing.gas_limit, standing.max_fee_per_gas_wei,
    standing.max_priority_fee_per_gas_wei, standing.is_lowest, coalesce(standing.is_overdue, false) AS is_overdue,
    standing.was_paying_when_held,
    standing.bump_requested_at IS NOT NULL AS is_bump_wanted,
    standing.cancel_requested_at IS NOT NULL AS is_cancel_wanted,
    -- Until lately another nonce had to be mined before it.
    EXISTS (
        SELECT FROM transactions.lineages AS before
        WHERE before.chain_id = standing.chain_id AND before.signer = standing.signer
            AND before.world = standing.world AND before.nonce = standing.nonce - 1 AND before.state <> 'abandoned'
            AND (before.ended_at IS NULL OR before.ended_at > clock_timestamp() - make_interval(secs => $4))
    ) AS was_behind,
    members.tx_hashes, coalesce(members.cancellations, 0) AS cancellations,
    (
        SELECT broadcasts.reason FROM transactions.broadcasts AS broadcasts
        WHERE broadcasts.tx_hash = standing.tx_hash
        ORDER BY broadcasts.broadcast_id DESC
        LIMIT 1
    ) AS answer_reason
FROM standing
LEFT JOIN LATERAL (
    SELECT
        array_agg(members.tx_hash ORDER BY members.member_number) AS tx_hashes,
        count(*) FILTER (WHERE members.is_cancellation) AS cancellations
    FROM transactions.members AS members
    WHERE members.lineage_id = standing.lineage_id
) AS members ON true
WHERE standing.hold IN ('fee_capped', 'replacements_spent')
    OR standing.cancel_requested_at IS NOT NULL AND standing.is_cancellation IS NOT TRUE
    OR standing.is_lowest AND standing.state <> 'allocated'
        AND (standing.is_overdue OR standing.bump_requested_at IS NOT NULL)
ORDER BY standing.signer, standing.nonce
LIMIT $5;

-- name: permit_replace!
-- Signed bytes are followed by others at the same nonce only inside this named operation.
SELECT set_config('tayho.operation', 'replace', true);

-- name: lock_replaceable
SELECT lineages.lineage_id FROM transactions.lineages AS lineages
WHERE lineages.lineage_id = ANY ($1::uuid[])
ORDER BY lineages.lineage_id
FOR UPDATE;

-- name: persist_replacements
-- After the lock, in a statement of its own: the member numbers read here are younger than whoever it waited for.
WITH asked AS (
    SELECT a.*
    FROM unnest($1::uuid[], $2::integer[], $3::bytea[], $4::smallint[], $5::boolean[], $6::bigint[], $7::numeric[],
                $8::numeric[], $9::text[], $10::bytea[], $11::bytea[], $12::text[])
        AS a (lineage_id, member_number, tx_hash, transaction_type, is_cancellation, gas_limit, max_fee_per_gas_wei,
              max_priority_fee_per_gas_wei, key_id, cipher_nonce, ciphertext, cause)
),
next_ones AS (
    SELECT
        asked.*, lineages.job_id, lineages.chain_id, lineages.signer, lineages.nonce, lineages.call_hash,
        lineages.hold, old.tx_hash AS old_tx_hash
    FROM asked
    JOIN transactions.lineages AS lineages USING (lineage_id)
    JOIN transactions.members AS old
        ON old.lineage_id = asked.lineage_id AND old.member_number = asked.member_number - 1
    WHERE lineages.state IN ('signed', 'broadcast') AND lineages.included_block_number IS NULL
        AND NOT EXISTS (
            SELECT FROM transactions.members AS taken
            WHERE taken.lineage_id = asked.lineage_id AND taken.member_number >= asked.member_number
        )
),
old_ones AS (
    SELECT members.tx_hash FROM transactions.members AS members
    WHERE members.tx_hash IN (SELECT next_ones.old_tx_hash FROM next_ones)
    ORDER BY members.tx_hash
    FOR UPDATE
),
replaced AS (
    UPDATE transactions.members AS members SET state = 'replaced'
    FROM old_ones
    WHERE members.tx_hash = old_ones.tx_hash
),
moved AS (
    UPDATE transactions.lineages AS lineages
    SET state = 'signed', check_at = now() + make_interval(secs => $13), bump_requested_at = NULL,
        hold = NULL, hold_reason = NULL, held_at = NULL
    FROM next_ones
    WHERE lineages.lineage_id = next_ones.lineage_id
),
signed AS (
    INSERT INTO transactions.members
        (tx_hash, lineage_id, chain_id, signer, nonce, call_hash, member_number, transaction_type, is_cancellation,
         gas_limit, max_fee_per_gas_wei, max_priority_fee_per_gas_wei, key_id, cipher_nonce, ciphertext, state)
    SELECT
        next_ones.tx_hash, next_ones.lineage_id, next_ones.chain_id, next_ones.signer, next_ones.nonce,
        next_ones.call_hash, next_ones.member_number, next_ones.transaction_type, next_ones.is_cancellation,
        next_ones.gas_limit, next_ones.max_fee_per_gas_wei, next_ones.max_priority_fee_per_gas_wei, next_ones.key_id,
        next_ones.cipher_nonce, next_ones.ciphertext, 'signed'
    FROM next_ones
),
told AS (
    INSERT INTO transactions.events (lineage_id, job_id, kind, tx_hash, detail)
    SELECT
        next_ones.lineage_id, next_ones.job_id, 'replaced', next_ones.tx_hash,
        jsonb_build_object(
            'cause', next_ones.cause, 'replaces', '0x' || encode(next_ones.old_tx_hash, 'hex'),
            'max_fee_per_gas_wei', next_ones.max_fee_per_gas_wei,
            'max_priority_fee_per_gas_wei', next_ones.max_priority_fee_per_gas_wei
        )
    FROM next_ones
    UNION ALL
    SELECT
        next_ones.lineage_id, next_ones.job_id, 'released', NULL,
        jsonb_build_object('hold', next_ones.hold, 'reason', 'replaced')
    FROM next_ones
    WHERE next_ones.hold IS NOT NULL
)
SELECT next_ones.lineage_id FROM next_ones;

-- name: change_holds
-- From the hold that was read to another, or to none; whoever was first tells it.
WITH asked AS (
    SELECT a.*
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::boolean[])
        AS a (lineage_id, was, hold, reason, pays_the_market)
),
changing AS (
    SELECT lineages.lineage_id, lineages.job_id, asked.was, asked.hold, asked.reason, asked.pays_the_market
    FROM asked
    JOIN transactions.lineages AS lineages USING (lineage_id)
    WHERE lineages.state IN ('signed', 'broadcast') AND lineages.hold IS NOT DISTINCT FROM asked.was
        AND lineages.hold IS DISTINCT FROM asked.hold
        AND lineages.included_block_number IS NULL
    ORDER BY lineages.lineage_id
    FOR UPDATE OF lineages
),
changed AS (
    UPDATE transactions.lineages AS lineages
    SET hold = changing.hold,
        hold_reason = CASE WHEN changing.hold IS NOT NULL THEN changing.reason END,
        held_at = CASE WHEN changing.hold IS NOT NULL THEN clock_timestamp() END
    FROM changing
    WHERE lineages.lineage_id = changing.lineage_id
),
told AS (
    INSERT INTO transactions.events (lineage_id, job_id, kind, detail)
    SELECT
        changing.lineage_id, changing.job_id, CASE WHEN changing.hold IS NULL THEN 'released' ELSE 'held' END,
        jsonb_build_object(
            'hold', coalesce(changing.hold, changing.was), 'reason', changing.reason,
            'pays_the_market', changing.pays_the_market
        )
    FROM changing
)
SELECT changing.lineage_id FROM changing;

-- name: tell_cancelled_unsigned!
INSERT INTO transactions.events (lineage_id, job_id, kind, detail)
VALUES ($1, $2, 'cancelled', '{"reason": "nothing had been signed: the nonce was given back or filled"}');

-- name: lock_named^
-- By its own id, its job's, or the hash of any transaction ever signed for it; of several the open one, else the last.
SELECT
    lineages.lineage_id, lineages.purpose, lineages.job_id, lineages.signer, lineages.nonce, lineages.state,
    lineages.included_block_number, lineages.cancel_requested_at IS NOT NULL AS is_cancel_wanted,
    (
        SELECT members.tx_hash FROM transactions.members AS members
        WHERE members.lineage_id = lineages.lineage_id AND members.state IN ('mined', 'reverted')
    ) AS mined_tx_hash
FROM transactions.lineages AS lineages
WHERE lineages.chain_id = $1 AND lineages.environment = $2
    AND (
        lineages.lineage_id = $3 OR lineages.job_id = $3
        OR lineages.lineage_id = (SELECT members.lineage_id FROM transactions.members AS members WHERE members.tx_hash = $4)
    )
ORDER BY lineages.ended_at DESC NULLS FIRST, lineages.allocated_at DESC
LIMIT 1
FOR UPDATE OF lineages;

-- name: wish
-- What an operator wants of the lineage, once; who and why stands beside it. Nothing is signed by this (TX-10).
WITH wished AS (
    UPDATE transactions.lineages AS lineages
    SET bump_requested_at = CASE WHEN $2::text = 'bump' THEN clock_timestamp() ELSE lineages.bump_requested_at END,
        cancel_requested_at = CASE WHEN $2::text = 'cancel' THEN clock_timestamp() ELSE lineages.cancel_requested_at END
    WHERE lineages.lineage_id = $1
        AND CASE WHEN $2::text = 'bump' THEN lineages.bump_requested_at ELSE lineages.cancel_requested_at END IS NULL
    RETURNING lineages.lineage_id, lineages.job_id
)
INSERT INTO transactions.events (lineage_id, job_id, kind, detail)
SELECT wished.lineage_id, wished.job_id, $2::text || '_requested', jsonb_build_object('actor', $3::text, 'reason', $4::text)
FROM wished
RETURNING lineage_id;
