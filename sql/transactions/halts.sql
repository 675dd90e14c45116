-- name: lock_pool_for_halt$
-- Waits for every transaction that has found the pool unhalted (`hold_pool`), and for the allocation that runs.
SELECT is_halted FROM transactions.pools WHERE chain_id = $1 AND environment = $2 AND role = $3 FOR UPDATE;

-- name: hold_pool$
-- Whether the pool is halted; it cannot become so until this transaction ends.
SELECT is_halted FROM transactions.pools WHERE chain_id = $1 AND environment = $2 AND role = $3 FOR KEY SHARE;

-- name: raise_halt
-- Exactly one row: the new halt, or the open one of the kind. Under the pool's lock. $1 to $3 the pool, $4 its id, $5 kind, $6 evidence, $7 who.
WITH raised AS (
    INSERT INTO transactions.halts (halt_id, chain_id, environment, role, kind, evidence, raised_by)
    VALUES ($4, $1, $2, $3, $5, $6, $7)
    ON CONFLICT (chain_id, environment, role, kind) WHERE resolved_at IS NULL DO NOTHING
    RETURNING halt_id, kind, evidence, raised_by, raised_at
),
marked AS (
    UPDATE transactions.pools AS pools SET is_halted = true
    WHERE pools.chain_id = $1 AND pools.environment = $2 AND pools.role = $3 AND NOT pools.is_halted
)
SELECT raised.halt_id, raised.kind, raised.evidence, raised.raised_by, raised.raised_at FROM raised
UNION ALL
SELECT halts.halt_id, halts.kind, halts.evidence, halts.raised_by, halts.raised_at
FROM transactions.halts AS halts
WHERE halts.chain_id = $1 AND halts.environment = $2 AND halts.role = $3 AND halts.kind = $5
    AND halts.resolved_at IS NULL;

-- name: open_halts
SELECT halts.halt_id, halts.kind, halts.evidence, halts.raised_by, halts.raised_at
FROM transactions.halts AS halts
WHERE halts.chain_id = $1 AND halts.environment = $2 AND halts.role = $3 AND halts.resolved_at IS NULL
ORDER BY halts.raised_at;

-- name: resolve_halts
-- Those named that are still open. The pool goes on when `unmark_pool` says so, in the same transaction.
UPDATE transactions.halts AS halts SET resolution = $2, resolved_by = $3, resolved_at = clock_timestamp()
WHERE halts.halt_id = ANY ($1::uuid[]) AND halts.resolved_at IS NULL
RETURNING halts.halt_id;

-- name: unmark_pool!
UPDATE transactions.pools AS pools SET is_halted = false
WHERE pools.chain_id = $1 AND pools.environment = $2 AND pools.role = $3 AND pools.is_halted
    AND NOT EXISTS (
        SELECT FROM transactions.halts AS halts
        WHERE halts.chain_id = pools.chain_id AND halts.environment = pools.environment AND halts.role = pools.role
            AND halts.resolved_at IS NULL
    );
