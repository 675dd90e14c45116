-- What each finality decision rested on, and what voters said against each other (RPC-12).
CREATE TABLE transactions.evidence (
    evidence_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    chain_id bigint NOT NULL,
    environment text NOT NULL,
    role text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('final', 'contested', 'refuted')),
    -- What a decision ended; empty for a contest, which decides nothing by itself.
    lineage_ids uuid[] NOT NULL DEFAULT '{}',
    head_block_number bigint CHECK (head_block_number >= 0),
    head_hash bytea CHECK (octet_length(head_hash) = 32),
    detail jsonb NOT NULL,
    decided_by text NOT NULL,
    decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT evidence_final CHECK (
        (kind = 'final') = (cardinality(lineage_ids) > 0)
        AND (kind = 'final') = (head_block_number IS NOT NULL)
        AND (kind = 'final') = (head_hash IS NOT NULL)
    ),
    -- A look ends 500 lineages at most. The writer cuts long answers well before this.
    CONSTRAINT evidence_bounded CHECK (cardinality(lineage_ids) <= 1000 AND octet_length(detail::text) <= 4194304)
);
CREATE INDEX evidence_age ON transactions.evidence (chain_id, environment, role, decided_at);
CREATE INDEX evidence_of_lineage ON transactions.evidence USING gin (lineage_ids);

-- It goes by the policy alone: the operation names the policy's days, and no policy is shorter than a week.
CREATE FUNCTION transactions.refuse_delete_but_by_policy() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    days int := nullif(current_setting('tayho.evidence_days', true), '')::int;
BEGIN
    IF current_setting('tayho.operation', true) IS DISTINCT FROM 'prune_evidence' OR days IS NULL
        OR OLD.decided_at >= now() - make_interval(days => greatest(days, 7))
    THEN
        RAISE EXCEPTION '% of a row of %.% is refused: only the policy deletes it, when it is old enough',
            TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
            USING ERRCODE = 'TY003', CONSTRAINT = TG_NAME;
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER evidence_immutable BEFORE UPDATE ON transactions.evidence
FOR EACH ROW EXECUTE FUNCTION tayho.refuse_change();
CREATE TRIGGER evidence_kept BEFORE DELETE ON transactions.evidence
FOR EACH ROW EXECUTE FUNCTION transactions.refuse_delete_but_by_policy();
CREATE TRIGGER evidence_kept_whole BEFORE TRUNCATE ON transactions.evidence
FOR EACH STATEMENT EXECUTE FUNCTION tayho.refuse_change();
