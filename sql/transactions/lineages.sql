-- name: lineages_of_job
SELECT
    lineage_id, purpose, signer, nonce, to_address, value_wei, state, state_reason, included_block_number,
    allocated_at, ended_at
FROM transactions.lineages
WHERE job_id = $1
ORDER BY allocated_at;

-- name: members_of_lineages
-- Never the ciphertext (TX-12).
SELECT
    members.lineage_id, members.tx_hash, members.member_number, members.gas_limit, members.max_fee_per_gas_wei,
    members.max_priority_fee_per_gas_wei, members.key_id, members.transaction_type, members.is_cancellation,
    members.state, members.signed_at,
    receipts.block_number, receipts.block_hash, receipts.succeeded, receipts.gas_used,
    receipts.effective_gas_price_wei,
    (SELECT count(*) FROM transactions.broadcasts AS broadcasts WHERE broadcasts.tx_hash = members.tx_hash)
        AS broadcasts
FROM transactions.members AS members
LEFT JOIN transactions.receipts AS receipts
    ON receipts.tx_hash = members.tx_hash AND receipts.orphaned_at IS NULL
WHERE members.lineage_id = ANY ($1::uuid[])
ORDER BY members.lineage_id, members.member_number;
