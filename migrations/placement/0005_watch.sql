-- What watchers go by: the events of one project after a position, and the changes of one timeline after a number.

CREATE INDEX outbox_project ON outbox (project_id, position) WHERE project_id IS NOT NULL;

-- Every change of an entry gets the allocation's next number, under the row lock that also numbers the entries: who
-- has seen a number has seen all before it.
ALTER TABLE timeline_heads ADD COLUMN changes bigint NOT NULL DEFAULT 0;
ALTER TABLE timeline ADD COLUMN change bigint;
UPDATE timeline SET change = sequence;
UPDATE timeline_heads SET changes = last;
ALTER TABLE timeline ALTER COLUMN change SET NOT NULL;
CREATE UNIQUE INDEX timeline_changes ON timeline (allocation_id, change);

CREATE FUNCTION number_timeline_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.state, NEW.percent, NEW.message, NEW.error)
                            IS NOT DISTINCT FROM (OLD.state, OLD.percent, OLD.message, OLD.error) THEN
        NEW.change := OLD.change;
        RETURN NEW;
    END IF;
    UPDATE timeline_heads SET changes = changes + 1 WHERE allocation_id = NEW.allocation_id
        RETURNING changes INTO STRICT NEW.change;
    RETURN NEW;
END $$;
CREATE TRIGGER timeline_changes BEFORE INSERT OR UPDATE ON timeline
    FOR EACH ROW EXECUTE FUNCTION number_timeline_change();
