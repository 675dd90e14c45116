CREATE TABLE transactions.lanes (
    state text NOT NULL DEFAULT 'opened',  -- breaks ARC-9
    CHECK (state <> 'locked')  -- breaks ARC-9
);
CREATE TRIGGER attempts_kept BEFORE UPDATE ON coordination.attempts
FOR EACH ROW WHEN (OLD.state = 'stopped')  -- breaks ARC-9
EXECUTE FUNCTION tayho.refuse_change();
