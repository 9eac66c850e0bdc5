-- Power of an active allocation: legal changes as data, the proof of a boot, and the workflows that bring it about.

-- Boot id of the guest's kernel at the last login that proved a start; NULL when the last start was not proven.
ALTER TABLE allocations ADD COLUMN boot_id uuid;

CREATE TABLE power_transitions (from_power text, to_power text, PRIMARY KEY (from_power, to_power));
INSERT INTO power_transitions VALUES
    ('running', 'stopping'), ('stopping', 'stopped'),
    ('stopped', 'starting'), ('starting', 'running'),
    ('running', 'rebooting'), ('rebooting', 'running'),
    -- it failed, and the host was asked what is
    ('stopping', 'running'), ('starting', 'stopped'), ('rebooting', 'stopped');

-- What becomes active runs; what is active changes its power by the table. Leaving `active` needs no power.
CREATE FUNCTION guard_power() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state <> 'active' THEN
        RETURN NEW;
    END IF;
    IF OLD.state <> 'active' THEN
        IF NEW.power <> 'running' THEN
            RAISE EXCEPTION 'allocation % cannot become active as %', NEW.id, NEW.power USING ERRCODE = 'check_violation';
        END IF;
    ELSIF NEW.power IS DISTINCT FROM OLD.power AND NOT EXISTS
        (SELECT FROM power_transitions WHERE from_power = OLD.power AND to_power = NEW.power) THEN
        RAISE EXCEPTION 'allocation % cannot go from % to %', NEW.id, OLD.power, NEW.power USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER allocations_power_guard BEFORE UPDATE ON allocations FOR EACH ROW EXECUTE FUNCTION guard_power();

ALTER TABLE workflows DROP CONSTRAINT workflows_kind_check,
    ADD CONSTRAINT workflows_kind_check CHECK (kind IN ('provision', 'release', 'repair', 'clean_up', 'stop', 'start', 'reboot'));
ALTER TABLE node_tasks DROP CONSTRAINT node_tasks_type_check,
    ADD CONSTRAINT node_tasks_type_check
        CHECK (type IN ('slice.vm_provision', 'slice.vm_release', 'slice.vm_clean_up', 'slice.slot_repair',
                        'slice.vm_stop', 'slice.vm_start', 'slice.vm_reboot'));

GRANT SELECT ON power_transitions TO gpuaas_scheduler, gpuaas_allocation;
GRANT UPDATE (boot_id) ON allocations TO gpuaas_allocation;
