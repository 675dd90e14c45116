-- name: keep_final!
INSERT INTO transactions.evidence
    (chain_id, environment, role, kind, lineage_ids, head_block_number, head_hash, detail, decided_by)
VALUES ($1, $2, $3, 'final', $4, $5, $6, $7, $8);

-- name: keep_contests!
INSERT INTO transactions.evidence (chain_id, environment, role, kind, detail, decided_by)
SELECT $1, $2, $3, told.kind, told.detail, $6
FROM unnest($4::text[], $5::jsonb[]) AS told (kind, detail);

-- name: as_prune_evidence!
SELECT set_config('tayho.operation', 'prune_evidence', true), set_config('tayho.evidence_days', $1::int::text, true);

-- name: prune_evidence$
-- One page, oldest first; how many rows went. Another replica's page is passed by.
WITH old_ones AS (
    SELECT evidence.evidence_id FROM transactions.evidence AS evidence
    WHERE evidence.chain_id = $1 AND evidence.environment = $2 AND evidence.role = $3
        AND evidence.decided_at < now() - make_interval(days => $4)
    ORDER BY evidence.decided_at
    LIMIT $5
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM transactions.evidence AS evidence
    WHERE evidence.evidence_id = ANY (ARRAY(SELECT old_ones.evidence_id FROM old_ones))
    RETURNING evidence.evidence_id
)
SELECT count(*) FROM gone;

-- name: evidence_of_job
SELECT
    evidence.evidence_id, evidence.kind, evidence.lineage_ids, evidence.head_block_number, evidence.head_hash,
    evidence.detail, evidence.decided_by, evidence.decided_at
FROM transactions.evidence AS evidence
WHERE evidence.lineage_ids && ARRAY(SELECT lineages.lineage_id FROM transactions.lineages AS lineages WHERE lineages.job_id = $1)
ORDER BY evidence.evidence_id;
