-- Work that scanners find by themselves, and what kept them from finding any (DLV-13).

CREATE SCHEMA discovery;

-- Work whose job found nothing to do, and that is due all the same: how often it was given a job anew. Work that went
-- well has no row here.
CREATE TABLE discovery.occasions (
    chain_id bigint NOT NULL CHECK (chain_id > 0),
    environment text NOT NULL,
    -- The idempotency key of the first job; later ones have it with their number.
    work_key text NOT NULL,
    occasion integer NOT NULL CHECK (occasion >= 1),
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chain_id, environment, work_key)
) WITH (fillfactor = 50);
CREATE TRIGGER occasions_count BEFORE UPDATE OF occasion ON discovery.occasions
FOR EACH ROW WHEN (NEW.occasion <> OLD.occasion + 1) EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER occasions_identity_immutable BEFORE UPDATE OF chain_id, environment, work_key ON discovery.occasions
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER occasions_kept BEFORE DELETE ON discovery.occasions
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();

-- Why a kind found no work where there may be some: a silent source, an absurd value. Only grows, by one row an hour for
-- each fault of each subject, however many replicas look however often.
CREATE TABLE discovery.findings (
    finding_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id bigint NOT NULL CHECK (chain_id > 0),
    environment text NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL CHECK (length(subject) BETWEEN 1 AND 120),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 60),
    detail text NOT NULL CHECK (length(detail) <= 2000),
    found_by text NOT NULL,
    found_at timestamptz NOT NULL,
    -- The beginning of the hour, in UTC.
    hour_at timestamptz NOT NULL,
    CONSTRAINT findings_once_an_hour UNIQUE (chain_id, environment, hour_at, kind, subject, name)
);
CREATE TRIGGER findings_append_only BEFORE UPDATE OR DELETE ON discovery.findings
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
