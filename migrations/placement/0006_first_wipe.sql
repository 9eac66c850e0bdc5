-- No slot is offered on an operator's word (P2, A-132): a disk without partitions and signatures may hold every byte of
-- whoever had it before. Approval starts a wipe, and only its evidence makes the slot available.
INSERT INTO slot_transitions VALUES ('disabled', 'cleanup');

-- The kind `approved` remains for rows of releases before this one. What they made available is wiped by the allocation
-- service before anybody new gets it.
CREATE OR REPLACE FUNCTION guard_evidence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM slots WHERE id = NEW.slot_id AND generation = NEW.generation
                      AND status = ANY (CASE NEW.kind WHEN 'wiped' THEN ARRAY['cleanup']
                                                      WHEN 'destroyed' THEN ARRAY['cleanup']
                                                      WHEN 'untouched' THEN ARRAY['reserved', 'cleanup']
                                                      ELSE ARRAY[]::text[] END)) THEN
        RAISE EXCEPTION 'evidence of kind % for slot % generation % does not fit the slot', NEW.kind, NEW.slot_id, NEW.generation
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

-- The disks of a bare metal node are its tenant's: none of them is wiped, and none is offered, while a claim on the node
-- is past `reserved`.
CREATE FUNCTION guard_slot_of_bare_metal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM claims WHERE node_id = NEW.node_id AND kind = 'node_exclusive'
                  AND state NOT IN ('reserved', 'released')) THEN
        RAISE EXCEPTION 'slot % cannot go from % to %: its node is in use as bare metal', NEW.id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slots_of_bare_metal BEFORE UPDATE OF status ON slots FOR EACH ROW
    WHEN (OLD.status IN ('disabled', 'cleanup_blocked') AND NEW.status IN ('cleanup', 'available'))
    EXECUTE FUNCTION guard_slot_of_bare_metal();
