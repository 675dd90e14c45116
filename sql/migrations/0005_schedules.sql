-- Recurring work, and how far each schedule has been decided (DLV-13).

CREATE TABLE coordination.schedules (
    chain_id bigint NOT NULL CHECK (chain_id > 0),
    environment text NOT NULL CHECK (length(environment) BETWEEN 1 AND 64),
    name text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    -- Kind, role, time rule, request: what its jobs are made from.
    declaration jsonb NOT NULL CHECK (jsonb_typeof(declaration) = 'object'),
    -- Every slot up to here has been fired, or skipped for good.
    decided_until timestamptz NOT NULL,
    -- The newest slot that has a job; none yet where it is null.
    last_slot_at timestamptz,
    -- When a process last said that this declaration is its own.
    confirmed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    first_seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, environment, name),
    CONSTRAINT schedules_last_slot_decided CHECK (last_slot_at <= decided_until)
) WITH (fillfactor = 50);

-- A slot that was decided once is never decided again, whatever clock or release comes later.
CREATE TRIGGER schedules_slots_grow BEFORE UPDATE OF decided_until, last_slot_at ON coordination.schedules
FOR EACH ROW WHEN (
    NEW.decided_until < OLD.decided_until
    OR (OLD.last_slot_at IS NOT NULL AND (NEW.last_slot_at IS NULL OR NEW.last_slot_at < OLD.last_slot_at))
) EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER schedules_identity_immutable
BEFORE UPDATE OF chain_id, environment, name, first_seen_at ON coordination.schedules
FOR EACH ROW WHEN (
    (OLD.chain_id, OLD.environment, OLD.name, OLD.first_seen_at)
    IS DISTINCT FROM (NEW.chain_id, NEW.environment, NEW.name, NEW.first_seen_at)
) EXECUTE FUNCTION tayho.refuse_change();
