-- name: declare
-- Said once by each process, at its start: whoever starts last decides. A schedule that is new, or that changes, begins
-- from now on; one that is as it was goes on where it stood.
INSERT INTO coordination.schedules AS schedules (chain_id, environment, name, declaration, decided_until)
SELECT $1, $2, asked.name, asked.declaration::jsonb, clock_timestamp()
FROM unnest($3::text[], $4::text[]) AS asked (name, declaration)
ORDER BY asked.name
ON CONFLICT (chain_id, environment, name) DO UPDATE
SET declaration = excluded.declaration, confirmed_at = excluded.confirmed_at, updated_at = excluded.updated_at,
    decided_until = greatest(schedules.decided_until, excluded.decided_until)
WHERE schedules.declaration <> excluded.declaration
RETURNING schedules.name;

-- name: hold
-- Say again what is ours ($5: how old the last word may grow), and take over what is not and has been silent for $6:
-- those who declared it otherwise are gone. They fired what came before their last word; what came after it is ours.
WITH asked AS (
    SELECT a.name, a.declaration::jsonb AS declaration
    FROM unnest($3::text[], $4::text[]) AS a (name, declaration)
),
held AS (
    SELECT schedules.name, asked.declaration, schedules.declaration <> asked.declaration AS is_taken_over
    FROM asked
    JOIN coordination.schedules AS schedules
        ON schedules.chain_id = $1 AND schedules.environment = $2 AND schedules.name = asked.name
    WHERE schedules.confirmed_at < clock_timestamp() - make_interval(
        secs => CASE WHEN schedules.declaration = asked.declaration THEN $5::float8 ELSE $6::float8 END
    )
    ORDER BY schedules.name
    -- Who holds the row says the same, or fires it.
    FOR UPDATE OF schedules SKIP LOCKED
)
UPDATE coordination.schedules AS schedules
SET declaration = held.declaration,
    decided_until = CASE
        WHEN held.is_taken_over THEN greatest(schedules.decided_until, schedules.confirmed_at)
        ELSE schedules.decided_until
    END,
    confirmed_at = clock_timestamp(),
    updated_at = CASE WHEN held.is_taken_over THEN clock_timestamp() ELSE schedules.updated_at END
FROM held
WHERE schedules.chain_id = $1 AND schedules.environment = $2 AND schedules.name = held.name
RETURNING schedules.name, held.is_taken_over;

-- name: read_ours
-- How far each schedule of ours is decided, on the clock that decides; one whose declaration is another's is left out.
SELECT schedules.name, schedules.decided_until, clock_timestamp() AS now
FROM unnest($3::text[], $4::text[]) AS asked (name, declaration)
JOIN coordination.schedules AS schedules
    ON schedules.chain_id = $1 AND schedules.environment = $2 AND schedules.name = asked.name
    AND schedules.declaration = asked.declaration::jsonb
ORDER BY schedules.name;

-- name: advance_if_undecided!
-- Zero rows: another replica decided these slots, or the declaration is not ours any more.
UPDATE coordination.schedules AS schedules
SET decided_until = $6, last_slot_at = coalesce($7::timestamptz, schedules.last_slot_at),
    confirmed_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE schedules.chain_id = $1 AND schedules.environment = $2 AND schedules.name = $3
    AND schedules.declaration = $4::text::jsonb AND schedules.decided_until = $5;

-- name: list_all
SELECT
    schedules.name, schedules.declaration, schedules.decided_until, schedules.last_slot_at, schedules.first_seen_at,
    schedules.updated_at, clock_timestamp() AS now,
    extract(epoch FROM clock_timestamp() - schedules.confirmed_at)::float8 AS silent_seconds
FROM coordination.schedules AS schedules
WHERE schedules.chain_id = $1 AND schedules.environment = $2
ORDER BY schedules.name;
