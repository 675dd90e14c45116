-- name: record_findings
WITH moment AS (SELECT clock_timestamp() AS found_at)
INSERT INTO discovery.findings
    (chain_id, environment, kind, found_by, subject, name, detail, found_at, hour_at)
SELECT
    $1, $2, $3, $4, asked.subject, asked.name, asked.detail, moment.found_at,
    date_trunc('hour', moment.found_at, 'UTC')
FROM moment, unnest($5::text[], $6::text[], $7::text[]) AS asked (subject, name, detail)
ORDER BY asked.subject, asked.name
ON CONFLICT (chain_id, environment, hour_at, kind, subject, name) DO NOTHING
RETURNING subject, name, detail;

-- name: newest_findings
SELECT findings.kind, findings.subject, findings.name, findings.detail, findings.found_by, findings.found_at
FROM discovery.findings AS findings
WHERE findings.chain_id = $1 AND findings.environment = $2
ORDER BY findings.hour_at DESC, findings.finding_id DESC
LIMIT $3;
