-- Whose VMs had taken their hugepages when the host counted the free ones: what all others on the node need is still to be
-- taken of these, so a second launch does not count on them (B-11).
ALTER TABLE nodes ADD COLUMN hugepages_allocated_to uuid[] NOT NULL DEFAULT '{}'
    CONSTRAINT nodes_hugepages_allocated_to CHECK (array_position(hugepages_allocated_to, NULL) IS NULL);

-- a copy in the memory of a process learns of it as of everything else that placement sees of a node
DROP TRIGGER nodes_changed ON nodes;
CREATE TRIGGER nodes_changed BEFORE UPDATE ON nodes FOR EACH ROW
    WHEN ((OLD.region_code, OLD.mode, OLD.admin_state, OLD.schedulable, OLD.hugepages_1g_free, OLD.max_vms, OLD.legal_groups,
           OLD.image_digests, OLD.hugepages_allocated_to)
          IS DISTINCT FROM
          (NEW.region_code, NEW.mode, NEW.admin_state, NEW.schedulable, NEW.hugepages_1g_free, NEW.max_vms, NEW.legal_groups,
           NEW.image_digests, NEW.hugepages_allocated_to))
    EXECUTE FUNCTION mark_node();
