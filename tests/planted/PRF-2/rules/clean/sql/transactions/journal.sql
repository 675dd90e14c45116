-- name: mark!
UPDATE transactions.lineages SET nonce = 1;
-- name: find
SELECT nonce FROM transactions.lineages;
