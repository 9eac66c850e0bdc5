-- PostgreSQL reads the text of every CHECK of a table anew for each statement that writes a row of it, and runs it whether
-- or not its column changed; what a type allows it keeps for a connection, and asks only of values that are written.
-- So what is about one column is said by its type.
--
-- The scheduler and the allocation service are stopped while this script runs, and started from this release:
-- it writes whole tables anew under their locks, and statements that connections have prepared end with its types.
CREATE DOMAIN non_negative_integer AS integer CHECK (VALUE >= 0);
CREATE DOMAIN non_negative_bigint AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN positive_integer AS integer CHECK (VALUE > 0);
CREATE DOMAIN positive_bigint AS bigint CHECK (VALUE > 0);
CREATE DOMAIN non_empty_text AS text CHECK (VALUE <> '');
CREATE DOMAIN json_object AS jsonb CHECK (jsonb_typeof(VALUE) = 'object');

CREATE DOMAIN pci_address AS text CHECK (VALUE = '' OR VALUE ~ '^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$');
CREATE DOMAIN mac_address AS text CHECK (VALUE ~ '^(([0-9a-f]{2}:){5}[0-9a-f]{2})?$');
CREATE DOMAIN ip_address AS text CHECK (VALUE = '' OR VALUE = host(VALUE::inet));
-- a kernel name such as /dev/nvme0n1 or /dev/loop3 is no identity (A-110)
CREATE DOMAIN disk_identity AS text CHECK (VALUE = '' OR VALUE ~ '^/dev/disk/by-id/[^/]+$'
    OR VALUE ~ '^lab-disk:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$');
CREATE DOMAIN disk_identity_kind AS text CHECK (VALUE IN ('', 'nvme_wwn_by_id', 'lab_backing_file'));
CREATE DOMAIN wipe_policy AS text CHECK (VALUE IN ('', 'blkdiscard', 'nvme_format', 'site_erase'));
CREATE DOMAIN slot_class AS text CHECK (VALUE IN ('h200_sxm', 'lab'));
CREATE DOMAIN slot_admin_state AS text CHECK (VALUE IN ('enabled', 'disabled'));

CREATE DOMAIN dns_label AS text CHECK (VALUE ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$');
CREATE DOMAIN capacity_shape AS text CHECK (VALUE IN ('gpu_slice', 'baremetal'));
CREATE DOMAIN power AS text CHECK (VALUE IN ('running', 'stopping', 'stopped', 'starting', 'rebooting'));
CREATE DOMAIN ssh_keys AS text[] CHECK (cardinality(VALUE) BETWEEN 1 AND 10);
CREATE DOMAIN guest_user AS text CHECK (VALUE ~ '^u_[0-9a-f]{16}$');

CREATE DOMAIN event_type AS text CHECK (VALUE ~ '^[a-z]+\.[a-z_]+$');
CREATE DOMAIN workflow_kind AS text CHECK (VALUE IN ('provision', 'release', 'repair', 'clean_up', 'stop', 'start', 'reboot'));
CREATE DOMAIN workflow_direction AS text CHECK (VALUE IN ('forward', 'undo'));
CREATE DOMAIN workflow_state AS text CHECK (VALUE IN ('running', 'done', 'failed', 'cancelled'));
CREATE DOMAIN step_state AS text CHECK (VALUE IN ('running', 'done', 'failed'));
CREATE DOMAIN percent AS smallint CHECK (VALUE BETWEEN 0 AND 100);

-- A slot that changes its status stays where it is on its page, with its indexes untouched: what they ask is whether it is
-- retired, not which of the other statuses it has, and each page keeps room for the next version of a row.
ALTER TABLE slots
    ADD COLUMN retired boolean GENERATED ALWAYS AS (status = 'retired') STORED,
    DROP CONSTRAINT slots_slot_index_check, ALTER slot_index TYPE non_negative_integer,
    DROP CONSTRAINT slots_class_check, ALTER class TYPE slot_class,
    DROP CONSTRAINT slots_admin_state_check, ALTER admin_state TYPE slot_admin_state,
    DROP CONSTRAINT slots_generation_check, ALTER generation TYPE non_negative_bigint,
    DROP CONSTRAINT slots_storage_identity_kind_check, ALTER storage_identity_kind TYPE disk_identity_kind,
    DROP CONSTRAINT slots_nvme_bytes_check, ALTER nvme_bytes TYPE non_negative_bigint,
    DROP CONSTRAINT slots_management_mac_check, ALTER management_mac TYPE mac_address,
    DROP CONSTRAINT slots_private_ip_check, ALTER private_ip TYPE ip_address,
    DROP CONSTRAINT slots_destructive_wipe_policy_check, ALTER destructive_wipe_policy TYPE wipe_policy,
    DROP CONSTRAINT slots_revision_check, ALTER revision TYPE non_negative_bigint,
    DROP CONSTRAINT slots_gpu_pci_address_check, ALTER gpu_pci_address TYPE pci_address,
    DROP CONSTRAINT slots_fabric_vf_pci_address_check, ALTER fabric_vf_pci_address TYPE pci_address,
    DROP CONSTRAINT slots_check, ALTER gpu_module_id TYPE non_negative_integer, ALTER numa_node TYPE non_negative_integer,
    DROP CONSTRAINT slots_nvme_device_check, ALTER nvme_device TYPE disk_identity,
    SET (fillfactor = 70);
DROP INDEX slots_own_gpu, slots_own_disk, slots_own_mac, slots_own_ip, slots_own_fabric_vf;
CREATE UNIQUE INDEX slots_own_gpu ON slots (node_id, gpu_pci_address) WHERE gpu_pci_address <> '' AND NOT retired;
CREATE UNIQUE INDEX slots_own_disk ON slots (node_id, nvme_device) WHERE nvme_device <> '' AND NOT retired;
CREATE UNIQUE INDEX slots_own_mac ON slots (node_id, management_mac) WHERE management_mac <> '' AND NOT retired;
CREATE UNIQUE INDEX slots_own_ip ON slots (node_id, private_ip) WHERE private_ip <> '' AND NOT retired;
CREATE UNIQUE INDEX slots_own_fabric_vf ON slots (node_id, fabric_vf_pci_address)
    WHERE fabric_vf_pci_address <> '' AND NOT retired;

ALTER TABLE allocations
    DROP CONSTRAINT allocations_name_check, ALTER name TYPE dns_label,
    DROP CONSTRAINT allocations_gpu_count_check, ALTER gpu_count TYPE positive_integer,
    DROP CONSTRAINT allocations_capacity_shape_check, ALTER capacity_shape TYPE capacity_shape,
    DROP CONSTRAINT allocations_power_check, ALTER power TYPE power,
    DROP CONSTRAINT allocations_ssh_public_keys_check, ALTER ssh_public_keys TYPE ssh_keys,
    DROP CONSTRAINT allocations_guest_user_check, ALTER guest_user TYPE guest_user,
    DROP CONSTRAINT allocations_principal_check, ALTER principal TYPE non_empty_text,
    DROP CONSTRAINT allocations_revision_check, ALTER revision TYPE positive_bigint;

ALTER TABLE outbox
    DROP CONSTRAINT outbox_type_check, ALTER type TYPE event_type,
    DROP CONSTRAINT outbox_data_check, ALTER data TYPE json_object;

ALTER TABLE workflows
    DROP CONSTRAINT workflows_kind_check, ALTER kind TYPE workflow_kind,
    DROP CONSTRAINT workflows_direction_check, ALTER direction TYPE workflow_direction,
    DROP CONSTRAINT workflows_state_check, ALTER state TYPE workflow_state;

ALTER TABLE timeline
    DROP CONSTRAINT timeline_state_check, ALTER state TYPE step_state,
    DROP CONSTRAINT timeline_percent_check, ALTER percent TYPE percent;

-- Processes know where there is room from their copy of the fleet, which asks what changed. The audit compares the counts.
DROP INDEX node_capacity_fit;

-- The same as before, but that a function keeps for a connection what a WHEN reads anew for each statement, and calls no
-- function for what is an expression.
CREATE OR REPLACE FUNCTION count_node_capacity() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    held     boolean;
    now_free integer;
    now_used integer;
BEGIN
    -- all who have a slot are alike
    IF TG_OP = 'UPDATE' AND OLD.health_state = NEW.health_state
       AND (OLD.status = NEW.status OR OLD.status NOT IN ('available', 'cleanup_blocked', 'disabled', 'retired')
                                       AND NEW.status NOT IN ('available', 'cleanup_blocked', 'disabled', 'retired')) THEN
        RETURN NULL;
    END IF;
    held := TG_OP = 'UPDATE' AND EXISTS (SELECT FROM reserved_slots WHERE slot_id = NEW.id);
    now_free := (NEW.status = 'available' AND NOT held)::integer;
    now_used := (NEW.status NOT IN ('available', 'disabled', 'retired') OR NEW.status = 'available' AND held)::integer;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO node_capacity (node_id, slot_class, region_code, free, used)
        SELECT n.id, NEW.class, n.region_code, now_free, now_used FROM nodes n WHERE n.id = NEW.node_id
        ON CONFLICT (node_id, slot_class) DO UPDATE
           SET free = node_capacity.free + excluded.free, used = node_capacity.used + excluded.used,
               changed_by = excluded.changed_by;
        RETURN NULL;
    END IF;
    UPDATE node_capacity
       SET free = free + now_free - (OLD.status = 'available' AND NOT held)::integer,
           used = used + now_used
                - (OLD.status NOT IN ('available', 'disabled', 'retired') OR OLD.status = 'available' AND held)::integer,
           changed_by = pg_current_xact_id()
     WHERE node_id = NEW.node_id AND slot_class = NEW.class;
    IF held AND NEW.status = 'retired' THEN
        DELETE FROM reserved_slots WHERE slot_id = NEW.id;
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER slots_capacity_moves ON slots;
CREATE TRIGGER slots_capacity_moves AFTER UPDATE OF status, host_health, cleanup_health ON slots
    FOR EACH ROW EXECUTE FUNCTION count_node_capacity();
DROP FUNCTION sale_of(text);

-- What makes a slot complete is approved once, and changes by mistake only. Copies see that, too.
CREATE FUNCTION mark_bindings() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE node_capacity SET changed_by = pg_current_xact_id() WHERE node_id = NEW.node_id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION mark_bindings() FROM PUBLIC;
CREATE TRIGGER slots_bindings AFTER UPDATE OF slot_index, class, gpu_pci_address, gpu_module_id, numa_node, nvme_device,
    storage_identity_kind, nvme_bytes, management_mac, private_ip, fabric_device, fabric_vf_pci_address, fabric_claim_mode,
    destructive_wipe_policy ON slots
    FOR EACH ROW EXECUTE FUNCTION mark_bindings();

-- Nodes whose last change a snapshot could not see. Planned once for all snapshots, and always by index: few change.
CREATE FUNCTION nodes_changed_since(since pg_snapshot) RETURNS uuid[] LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN ARRAY (SELECT id FROM nodes WHERE changed_by >= pg_snapshot_xmin(since) AND NOT pg_visible_in_snapshot(changed_by, since)
                  UNION
                  SELECT node_id FROM node_capacity
                   WHERE changed_by >= pg_snapshot_xmin(since) AND NOT pg_visible_in_snapshot(changed_by, since));
END $$;
