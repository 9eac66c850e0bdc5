-- Which transaction last changed what placement sees of a node, so that a reader who has a copy asks only for what
-- changed: everything whose transaction its last snapshot could not see. Neither times nor numbers from a sequence
-- could say that, for transactions do not commit in the order in which they write.
ALTER TABLE nodes ADD COLUMN changed_by xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE node_capacity ADD COLUMN changed_by xid8 NOT NULL DEFAULT pg_current_xact_id();
CREATE INDEX nodes_changed ON nodes (changed_by);
CREATE INDEX node_capacity_changed ON node_capacity (changed_by);

CREATE FUNCTION mark_node() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed_by := pg_current_xact_id();
    RETURN NEW;
END $$;
CREATE TRIGGER nodes_changed BEFORE UPDATE ON nodes FOR EACH ROW
    WHEN ((OLD.region_code, OLD.mode, OLD.admin_state, OLD.schedulable, OLD.hugepages_1g_free, OLD.max_vms, OLD.legal_groups)
          IS DISTINCT FROM
          (NEW.region_code, NEW.mode, NEW.admin_state, NEW.schedulable, NEW.hugepages_1g_free, NEW.max_vms, NEW.legal_groups))
    EXECUTE FUNCTION mark_node();

-- What a slot is to placement. All who have it are alike, so an allocation's way from reserved to its wipe is no change.
CREATE FUNCTION sale_of(status text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN CASE WHEN status IN ('available', 'cleanup_blocked', 'disabled', 'retired') THEN status ELSE 'used' END;

CREATE OR REPLACE FUNCTION count_node_capacity() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    now_capacity record;
    was_capacity record;
BEGIN
    SELECT * INTO now_capacity FROM capacity_of(NEW.status);
    IF TG_OP = 'INSERT' THEN
        INSERT INTO node_capacity (node_id, slot_class, region_code, free, used)
        SELECT n.id, NEW.class, n.region_code, now_capacity.free, now_capacity.used FROM nodes n WHERE n.id = NEW.node_id
        ON CONFLICT (node_id, slot_class) DO UPDATE
           SET free = node_capacity.free + excluded.free, used = node_capacity.used + excluded.used,
               changed_by = excluded.changed_by;
        RETURN NULL;
    END IF;
    SELECT * INTO was_capacity FROM capacity_of(OLD.status);
    UPDATE node_capacity SET free = free + now_capacity.free - was_capacity.free, used = used + now_capacity.used - was_capacity.used,
           changed_by = pg_current_xact_id()
     WHERE node_id = NEW.node_id AND slot_class = NEW.class;
    RETURN NULL;
END $$;
DROP TRIGGER slots_capacity ON slots;
CREATE TRIGGER slots_capacity AFTER INSERT ON slots FOR EACH ROW EXECUTE FUNCTION count_node_capacity();
CREATE TRIGGER slots_capacity_moves AFTER UPDATE OF status, host_health, cleanup_health ON slots FOR EACH ROW
    WHEN ((sale_of(OLD.status), OLD.health_state) IS DISTINCT FROM (sale_of(NEW.status), NEW.health_state))
    EXECUTE FUNCTION count_node_capacity();

-- A claim that no longer counts as a VM, or no longer holds a slot that stays in cleanup. One that begins is marked
-- by its slot.
CREATE FUNCTION mark_node_capacity() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE node_capacity SET changed_by = pg_current_xact_id()
     WHERE node_id = NEW.node_id AND changed_by <> pg_current_xact_id();
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION mark_node_capacity() FROM PUBLIC;
CREATE TRIGGER claims_capacity AFTER UPDATE OF state ON claims FOR EACH ROW
    WHEN (OLD.state <> NEW.state AND NEW.state IN ('cleanup_blocked', 'released')) EXECUTE FUNCTION mark_node_capacity();
