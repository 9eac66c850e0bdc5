-- How much room each node has, by class of slots: what placement looks at first, so that a reservation reads a few
-- nodes by index and not the fleet. It follows from the slots and is kept by triggers in the transaction that moves
-- them, under the node's lock. It is a hint: what is placed is decided again on the slots themselves.
CREATE TABLE node_capacity (
    node_id     uuid    NOT NULL REFERENCES nodes (id),
    slot_class  text    NOT NULL,
    region_code text    NOT NULL,
    -- slots on sale
    free        integer NOT NULL DEFAULT 0 CHECK (free >= 0),
    -- slots that somebody has, or that wait for a repair
    used        integer NOT NULL DEFAULT 0 CHECK (used >= 0),
    -- nobody has anything of the node
    clean       boolean GENERATED ALWAYS AS (used = 0) STORED,
    PRIMARY KEY (node_id, slot_class)
);
CREATE INDEX node_capacity_fit ON node_capacity (region_code, slot_class, clean, free, node_id) WHERE free > 0;

INSERT INTO node_capacity (node_id, slot_class, region_code, free, used)
SELECT n.id, s.class, n.region_code, count(*) FILTER (WHERE s.status = 'available'),
       count(*) FILTER (WHERE s.status NOT IN ('available', 'disabled', 'retired'))
  FROM nodes n JOIN slots s ON s.node_id = n.id GROUP BY n.id, s.class;

-- 1 when a slot of this status is free, and when it is used
CREATE FUNCTION capacity_of(status text, OUT free integer, OUT used integer) LANGUAGE sql IMMUTABLE
    RETURN ((status = 'available')::integer, (status NOT IN ('available', 'disabled', 'retired'))::integer);

CREATE FUNCTION count_node_capacity() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    now_capacity record;
    was_capacity record;
BEGIN
    SELECT * INTO now_capacity FROM capacity_of(NEW.status);
    IF TG_OP = 'INSERT' THEN
        INSERT INTO node_capacity (node_id, slot_class, region_code, free, used)
        SELECT n.id, NEW.class, n.region_code, now_capacity.free, now_capacity.used FROM nodes n WHERE n.id = NEW.node_id
        ON CONFLICT (node_id, slot_class) DO UPDATE
           SET free = node_capacity.free + excluded.free, used = node_capacity.used + excluded.used;
        RETURN NULL;
    END IF;
    SELECT * INTO was_capacity FROM capacity_of(OLD.status);
    IF now_capacity <> was_capacity THEN
        UPDATE node_capacity SET free = free + now_capacity.free - was_capacity.free, used = used + now_capacity.used - was_capacity.used
         WHERE node_id = NEW.node_id AND slot_class = NEW.class;
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION count_node_capacity() FROM PUBLIC;
CREATE TRIGGER slots_capacity AFTER INSERT OR UPDATE OF status ON slots FOR EACH ROW EXECUTE FUNCTION count_node_capacity();

CREATE FUNCTION move_node_capacity() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE node_capacity SET region_code = NEW.region_code WHERE node_id = NEW.id AND region_code <> NEW.region_code;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION move_node_capacity() FROM PUBLIC;
CREATE TRIGGER nodes_capacity AFTER UPDATE OF region_code ON nodes FOR EACH ROW EXECUTE FUNCTION move_node_capacity();

GRANT SELECT ON node_capacity TO gpuaas_scheduler, gpuaas_allocation;
