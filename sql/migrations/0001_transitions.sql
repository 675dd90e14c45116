-- The arrows of every life in the database, and the trigger that refuses what is not listed.
-- tayho.kernel.transitions says the same in Python; a test holds the two equal (DLV-7, ARC-9).

CREATE TABLE tayho.transitions (
    table_name text NOT NULL,
    from_state text NOT NULL,
    to_state text NOT NULL,
    -- Where it is set, only this named operation may take the arrow: SET LOCAL tayho.operation = '…'.
    operation text,
    PRIMARY KEY (table_name, from_state, to_state)
);

CREATE FUNCTION tayho.refuse_unlisted_transition() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    named text;
    was text := 'new';
BEGIN
    IF TG_OP = 'UPDATE' THEN
        was := OLD.state;
    END IF;
    SELECT operation INTO named
    FROM tayho.transitions
    WHERE table_name = TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME AND from_state = was AND to_state = NEW.state;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a row of %.% may not go from % to %', TG_TABLE_SCHEMA, TG_TABLE_NAME, was, NEW.state
            USING ERRCODE = 'TY001', CONSTRAINT = 'transition_listed';
    END IF;
    IF named IS NOT NULL AND named IS DISTINCT FROM current_setting('tayho.operation', true) THEN
        RAISE EXCEPTION 'a row of %.% goes from % to % only by the operation "%"',
            TG_TABLE_SCHEMA, TG_TABLE_NAME, was, NEW.state, named
            USING ERRCODE = 'TY002', CONSTRAINT = 'transition_named';
    END IF;
    RETURN NEW;
END $$;

-- For rows in a terminal state, and for columns that never change.
CREATE FUNCTION tayho.refuse_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of a row of %.% is refused: it is immutable', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
        USING ERRCODE = 'TY003', CONSTRAINT = TG_NAME;
END $$;
