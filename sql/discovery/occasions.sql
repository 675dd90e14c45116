-- name: occasions_of
SELECT occasions.work_key, occasions.occasion
FROM discovery.occasions AS occasions
WHERE occasions.chain_id = $1 AND occasions.environment = $2 AND occasions.work_key = ANY ($3::text[]);

-- name: begin_waiting!
-- The first job of the work found nothing to do: from now on the wait for the second is counted.
INSERT INTO discovery.occasions (chain_id, environment, work_key, occasion)
SELECT $1, $2, asked.work_key, 1
FROM unnest($3::text[]) AS asked (work_key)
ORDER BY asked.work_key
ON CONFLICT (chain_id, environment, work_key) DO NOTHING;

-- name: advance_if_waited
-- One of many replicas gets a row: the others read the occasion that it left behind, and are one too late.
WITH waited AS (
    SELECT occasions.work_key, occasions.occasion
    FROM discovery.occasions AS occasions
    JOIN unnest($3::text[], $4::int[]) AS seen (work_key, occasion)
        ON occasions.work_key = seen.work_key AND occasions.occasion = seen.occasion
    WHERE
        occasions.chain_id = $1 AND occasions.environment = $2
        AND occasions.begun_at
        + make_interval(secs => least($5::float8 * 2 ^ least(occasions.occasion - 1, 30), $6::float8)) <= clock_timestamp()
    ORDER BY occasions.work_key
    FOR UPDATE OF occasions
)
UPDATE discovery.occasions AS occasions
SET occasion = occasions.occasion + 1, begun_at = clock_timestamp()
FROM waited
WHERE occasions.chain_id = $1 AND occasions.environment = $2 AND occasions.work_key = waited.work_key
RETURNING occasions.work_key, occasions.occasion;
