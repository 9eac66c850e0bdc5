-- The database does not believe a service. A role that is lost to an attacker, or runs wrong code, may not end the claim of
-- somebody who is there, assert that a disk is empty, or sell a slot twice; it may not move epochs, positions and billable
-- time backwards. What one statement shows is refused by that statement. What only the whole transaction shows (a slot,
-- its claim and its allocation move one after the other) is checked at its end. A reservation is checked by its statements
-- alone, as before: it takes nothing from anybody.

-- One claim for each time that a slot is sold.
CREATE UNIQUE INDEX claims_one_per_generation ON claims (slot_id, slot_generation);

-- The call to the host that proved it (P2), found by the database. No foreign key: calls are removed after their retention,
-- evidence never is. NULL: evidence of another kind, or of a release before this one.
ALTER TABLE clean_evidence ADD COLUMN operation_id uuid;
CREATE UNIQUE INDEX clean_evidence_once ON clean_evidence (operation_id, slot_id) WHERE operation_id IS NOT NULL;
CREATE INDEX node_tasks_by_workflow ON node_tasks (workflow_id);

-- `wiped` needs the answer of the host to a call that a running workflow made about this very slot and generation.
-- `untouched` needs a holder of this generation who never became active. An operator's word is no evidence.
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
              WHERE c.slot_id = NEW.slot_id AND c.slot_generation = NEW.generation AND a.active_at IS NULL)
        WHEN 'destroyed' THEN slot.status = 'cleanup'
        ELSE false END;
    IF fits IS NOT TRUE THEN
        RAISE EXCEPTION 'evidence of kind % for slot % generation % does not fit the slot', NEW.kind, NEW.slot_id, NEW.generation
            USING ERRCODE = 'check_violation';
    END IF;
    NEW.at := clock_timestamp();
    RETURN NEW;
END $$;

-- Evidence is used in the transaction that writes it: none lies ready for after the next tenant.
CREATE FUNCTION check_evidence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM slots WHERE id = NEW.slot_id AND (generation > NEW.generation OR status = 'retired'
                      OR clean_generation = NEW.generation AND status IN ('available', 'disabled'))) THEN
        RAISE EXCEPTION 'evidence for slot % generation % was not used', NEW.slot_id, NEW.generation
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER clean_evidence_used AFTER INSERT ON clean_evidence DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION check_evidence();

-- A slot in use has the claim that says so, a free one has none, and one in cleanup has a running repair and nobody who
-- lives.
CREATE FUNCTION check_slot() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    slot record;
BEGIN
    SELECT s.status, s.generation, s.revision, c.state AS claim, c.slot_generation, c.allocation_id INTO slot
      FROM slots s LEFT JOIN claims c ON c.slot_id = s.id AND c.state <> 'released' WHERE s.id = NEW.id;
    IF slot.revision > NEW.revision THEN
        -- a later change of this transaction is checked instead
        RETURN NULL;
    END IF;
    IF (CASE
        WHEN slot.status IN ('available', 'disabled', 'retired') THEN slot.claim IS NULL
        WHEN slot.status = 'cleanup_blocked' THEN true
        WHEN slot.status = 'cleanup' THEN
            EXISTS (SELECT FROM workflows WHERE slot_id = NEW.id AND kind = 'repair' AND state = 'running')
            AND (slot.claim IS NULL OR slot.claim = 'cleanup_blocked' AND EXISTS
                 (SELECT FROM allocations WHERE id = slot.allocation_id AND state IN ('released', 'failed')))
        ELSE slot.claim = slot.status AND slot.slot_generation = slot.generation
        END) IS NOT TRUE THEN
        RAISE EXCEPTION 'slot % cannot be % with its claim %', NEW.id, slot.status, slot.claim USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER slots_match_claims AFTER UPDATE OF status ON slots DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.status <> NEW.status AND NEW.status <> 'reserved') EXECUTE FUNCTION check_slot();

-- A live claim is in the state of its allocation. A claim ends only when its allocation has ended and its slot is out of
-- use. While a tenant has a bare metal node, none of its slots has evidence that is good afterwards. The
-- owner is exempt: `claim_old_allocations` claims nodes whose tenants are there already.
CREATE FUNCTION check_claim() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    claim record;
BEGIN
    SELECT c.state, a.state AS allocation INTO claim
      FROM claims c JOIN allocations a ON a.id = c.allocation_id WHERE c.id = NEW.id;
    IF claim.state <> NEW.state THEN
        -- a later change of this transaction is checked instead
        RETURN NULL;
    END IF;
    IF (CASE claim.state
        WHEN 'released' THEN claim.allocation IN ('released', 'failed') AND NOT EXISTS
            (SELECT FROM slots WHERE id = NEW.slot_id AND generation = NEW.slot_generation
                AND status IN ('reserved', 'provisioning', 'active', 'releasing'))
        WHEN 'cleanup_blocked' THEN claim.allocation <> 'requested'
        ELSE claim.allocation = claim.state
             AND (NEW.kind = 'slot' OR claim.state = 'reserved' OR current_user NOT IN ('gpuaas_scheduler', 'gpuaas_allocation')
                  OR NOT EXISTS
                  (SELECT FROM slots WHERE node_id = NEW.node_id AND status IN ('available', 'cleanup')))
        END) IS NOT TRUE THEN
        RAISE EXCEPTION 'claim % cannot be % while its allocation is %', NEW.id, claim.state, claim.allocation
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER claims_match AFTER UPDATE OF state ON claims DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION check_claim();

-- Where an allocation goes, its claims go, and it is billable as long as it is active.
CREATE FUNCTION check_allocation() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    now_state text;
    held      bigint;
    elsewhere bigint;
BEGIN
    SELECT state INTO now_state FROM allocations WHERE id = NEW.id;
    IF now_state <> NEW.state THEN
        -- a later change of this transaction is checked instead
        RETURN NULL;
    END IF;
    SELECT count(*), count(*) FILTER (WHERE state NOT IN (now_state, 'cleanup_blocked')) INTO held, elsewhere
      FROM claims WHERE allocation_id = NEW.id AND state <> 'released';
    IF elsewhere > 0 OR held = 0 AND now_state IN ('reserved', 'provisioning', 'active', 'releasing') THEN
        RAISE EXCEPTION 'allocation % cannot be % with its claims', NEW.id, now_state USING ERRCODE = 'check_violation';
    END IF;
    IF (OLD.state = 'active' OR now_state = 'active') AND (now_state = 'active') <> EXISTS
       (SELECT FROM allocation_periods WHERE allocation_id = NEW.id AND ended_at IS NULL) THEN
        RAISE EXCEPTION 'allocation % must be billable exactly while it is active', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER allocations_match_claims AFTER UPDATE OF state ON allocations DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION check_allocation();

-- Periods go forward only, lie between the allocation's times, and none ends while its allocation is active.
CREATE FUNCTION check_period() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS
       (SELECT FROM allocation_periods WHERE allocation_id = NEW.allocation_id AND id <> NEW.id AND ended_at > NEW.started_at) THEN
        RAISE EXCEPTION 'period % does not follow what was billed', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    IF NOT EXISTS (SELECT FROM allocations WHERE id = NEW.allocation_id AND NEW.started_at BETWEEN active_at AND updated_at
                      AND (NEW.ended_at IS NULL OR NEW.ended_at <= releasing_at)
                      AND ((state = 'active') = EXISTS (SELECT FROM allocation_periods
                                                         WHERE allocation_id = NEW.allocation_id AND ended_at IS NULL))) THEN
        RAISE EXCEPTION 'period % is not of the time that its allocation was active', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER allocation_periods_match AFTER INSERT OR UPDATE ON allocation_periods DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION check_period();

-- What only grows. The condition is part of the trigger: a legal change calls no function.
CREATE FUNCTION refuse_lower() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'row of % cannot go back', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER outbox_head_grows BEFORE UPDATE ON outbox_head FOR EACH ROW WHEN (NEW.position < OLD.position)
    EXECUTE FUNCTION refuse_lower();
CREATE TRIGGER cell_grows BEFORE UPDATE ON cell FOR EACH ROW WHEN (NEW.epoch < OLD.epoch) EXECUTE FUNCTION refuse_lower();
-- what has ended does not run again
CREATE TRIGGER workflows_grow BEFORE UPDATE ON workflows FOR EACH ROW
    WHEN (NEW.lease_epoch < OLD.lease_epoch OR OLD.state <> 'running' AND NEW.state <> OLD.state
          OR NEW.direction <> OLD.direction AND NEW.direction = 'forward')
    EXECUTE FUNCTION refuse_lower();
CREATE TRIGGER workflow_steps_grow BEFORE UPDATE ON workflow_steps FOR EACH ROW
    WHEN (NEW.lease_epoch < OLD.lease_epoch OR NEW.attempts < OLD.attempts) EXECUTE FUNCTION refuse_lower();
-- the host's answer is kept as it was given
CREATE TRIGGER node_tasks_grow BEFORE UPDATE ON node_tasks FOR EACH ROW WHEN (OLD.state <> 'running')
    EXECUTE FUNCTION refuse_lower();

-- Whose part of a slot's and a claim's way it is. The scheduler takes slots in, sells them and distrusts them; everything
-- else is done by the allocation service, with the host.
CREATE FUNCTION guard_part_of_role() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% may not do this to %', current_user, TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER slots_part_of_scheduler BEFORE UPDATE OF status ON slots FOR EACH ROW
    WHEN (current_user = 'gpuaas_scheduler' AND NEW.status <> 'cleanup_blocked'
          AND (OLD.status, NEW.status) NOT IN (('available', 'reserved'), ('available', 'disabled'), ('disabled', 'available'),
                                              ('disabled', 'disabled'), ('disabled', 'cleanup')))
    EXECUTE FUNCTION guard_part_of_role();
CREATE TRIGGER slots_part_of_allocation BEFORE UPDATE OF status ON slots FOR EACH ROW
    WHEN (current_user = 'gpuaas_allocation' AND NEW.status = 'reserved' AND OLD.status <> 'reserved')
    EXECUTE FUNCTION guard_part_of_role();
CREATE TRIGGER claims_part_of_scheduler BEFORE UPDATE OF state ON claims FOR EACH ROW
    WHEN (current_user = 'gpuaas_scheduler' AND NEW.state <> 'cleanup_blocked'
          AND NOT (OLD.kind = 'node_exclusive' AND OLD.state = 'cleanup_blocked'))
    EXECUTE FUNCTION guard_part_of_role();

-- Rights, shrunk to what each role does.
REVOKE INSERT ON clean_evidence FROM gpuaas_scheduler, gpuaas_allocation;
GRANT INSERT (slot_id, generation, kind, method, detail) ON clean_evidence TO gpuaas_allocation;
REVOKE UPDATE (clean_generation) ON slots FROM gpuaas_scheduler;
REVOKE INSERT ON slots FROM gpuaas_scheduler;
GRANT INSERT (id, node_id, slot_index, class, host_health, gpu_pci_address, gpu_module_id, numa_node, nvme_device,
              storage_identity_kind, nvme_bytes, management_mac, private_ip, fabric_device, fabric_vf_pci_address,
              fabric_claim_mode, destructive_wipe_policy) ON slots TO gpuaas_scheduler;
REVOKE INSERT, UPDATE ON workflows, workflow_steps, node_tasks FROM gpuaas_allocation;
REVOKE INSERT ON workflows FROM gpuaas_scheduler;
GRANT INSERT (id, kind, allocation_id, slot_id, deadline_at, traceparent, request_id) ON workflows
    TO gpuaas_scheduler, gpuaas_allocation;
GRANT UPDATE (state, direction, due_at, lease_owner, lease_epoch, lease_expires_at, failure, progress, ended_at) ON workflows
    TO gpuaas_allocation;
GRANT INSERT (workflow_id, step, state, lease_epoch) ON workflow_steps TO gpuaas_allocation;
GRANT UPDATE (state, attempts, lease_epoch, output, error, ended_at) ON workflow_steps TO gpuaas_allocation;
GRANT INSERT (id, type, workflow_id, allocation_id, slot_id, node_id, payload) ON node_tasks TO gpuaas_allocation;
GRANT UPDATE (state, output, ended_at) ON node_tasks TO gpuaas_allocation;
REVOKE INSERT ON outbox FROM gpuaas_scheduler, gpuaas_allocation;
GRANT INSERT (type, aggregate_id, revision, at, project_id, data, traceparent) ON outbox TO gpuaas_scheduler, gpuaas_allocation;
REVOKE INSERT ON allocation_periods FROM gpuaas_allocation;
GRANT INSERT (id, allocation_id, project_id, sku, gpu_count, price, started_at) ON allocation_periods TO gpuaas_allocation;
