-- No way to `available` goes round a wipe (P2).

-- A slot of a release before the first wipe (0006) has the evidence `approved` or nothing better. It was taken out of sale by
-- hand: it comes back by way of a wipe alone.
CREATE FUNCTION guard_wiped_slot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF 'wiped' IS DISTINCT FROM (SELECT kind FROM clean_evidence WHERE slot_id = NEW.id AND kind <> 'untouched'
                                  ORDER BY generation DESC LIMIT 1) THEN
        RAISE EXCEPTION 'slot % cannot go from % to %: its disk was never wiped', NEW.id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slots_wiped BEFORE UPDATE OF status ON slots FOR EACH ROW
    WHEN (OLD.status = 'disabled' AND NEW.status = 'available') EXECUTE FUNCTION guard_wiped_slot();

-- `untouched` is no evidence once a host was called to provision: it may have written to the disk, whatever became of it.
CREATE OR REPLACE FUNCTION guard_evidence() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    slot record;
    fits boolean;
BEGIN
    SELECT node_id, generation, status INTO slot FROM slots WHERE id = NEW.slot_id;
    NEW.operation_id := CASE WHEN NEW.kind = 'wiped' THEN
        (SELECT t.id FROM workflows w JOIN node_tasks t ON t.workflow_id = w.id
          WHERE w.state = 'running' AND t.state = 'done' AND t.node_id = slot.node_id
            AND (t.type = 'slice.slot_repair' AND w.kind = 'repair' AND w.slot_id = NEW.slot_id
                 OR t.type = 'slice.vm_release' AND w.kind = 'release' AND w.slot_id IS NULL AND w.allocation_id =
                    (SELECT c.allocation_id FROM claims c
                      WHERE c.slot_id = NEW.slot_id AND c.slot_generation = NEW.generation))
          ORDER BY t.ended_at DESC LIMIT 1) END;
    fits := slot.generation = NEW.generation AND CASE NEW.kind
        WHEN 'wiped' THEN slot.status = 'cleanup' AND NEW.operation_id IS NOT NULL
        WHEN 'untouched' THEN slot.status IN ('reserved', 'cleanup') AND EXISTS
            (SELECT FROM claims c JOIN allocations a ON a.id = c.allocation_id
              WHERE c.slot_id = NEW.slot_id AND c.slot_generation = NEW.generation AND a.active_at IS NULL
                AND NOT EXISTS (SELECT FROM workflows w JOIN node_tasks t ON t.workflow_id = w.id
                                 WHERE w.allocation_id = a.id AND t.type = 'slice.vm_provision'))
        WHEN 'destroyed' THEN slot.status = 'cleanup'
        ELSE false END;
    IF fits IS NOT TRUE THEN
        RAISE EXCEPTION 'evidence of kind % for slot % generation % does not fit the slot', NEW.kind, NEW.slot_id, NEW.generation
            USING ERRCODE = 'check_violation';
    END IF;
    NEW.at := clock_timestamp();
    RETURN NEW;
END $$;
