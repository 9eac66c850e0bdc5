-- The life of nodes and slots: what operators say of them, who said it and when, repairs of hosts, and what outside health
-- agents have found. Whether a host is ready is told by inventory; here it has its place in the history.

-- maintenance: somebody works on the host, nobody is on it. broken: the host has an open break-fix record. retired: for good.
ALTER TABLE nodes DROP CONSTRAINT nodes_admin_state_check;
ALTER TABLE nodes ADD CONSTRAINT nodes_admin_state_check
    CHECK (admin_state IN ('enabled', 'cordoned', 'draining', 'maintenance', 'broken', 'retired'));
-- who said it; empty: a release before this one did not write it
ALTER TABLE nodes ADD COLUMN admin_by text NOT NULL DEFAULT '';
ALTER TABLE slots ADD COLUMN admin_by text NOT NULL DEFAULT '';

-- The index of a retired slot is free: a disk that was replaced makes another slot at the same place.
ALTER TABLE slots DROP CONSTRAINT slots_node_id_slot_index_key;
CREATE UNIQUE INDEX slots_own_index ON slots (node_id, slot_index) WHERE NOT retired;
CREATE INDEX slots_node ON slots (node_id, slot_index);

-- What became of a node, in order. A state is an operator's (`nodes.admin_state`), or `ready` or `validating` by what the
-- host proves. Never changes.
CREATE TABLE node_history (
    seq       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id   uuid        NOT NULL REFERENCES nodes (id),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    state     text        NOT NULL CHECK (state IN ('ready', 'validating', 'enabled', 'cordoned', 'draining', 'maintenance',
                                                   'broken', 'retired')),
    reason    text        NOT NULL,
    -- empty: the host's own report
    principal text        NOT NULL
);
CREATE INDEX node_history_of ON node_history (node_id, seq);

-- What became of a slot beside its claims and evidence, which have their own tables. Never changes.
CREATE TABLE slot_history (
    seq       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slot_id   uuid        NOT NULL REFERENCES slots (id),
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind      text        NOT NULL CHECK (kind IN ('health', 'enabled', 'disabled', 'retired')),
    health    health      NOT NULL,
    detail    text        NOT NULL,
    principal text        NOT NULL
);
CREATE INDEX slot_history_of ON slot_history (slot_id, seq);

CREATE FUNCTION note_node() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF (NEW.admin_state, NEW.admin_reason) IS DISTINCT FROM (OLD.admin_state, OLD.admin_reason) THEN
        INSERT INTO node_history (node_id, state, reason, principal)
        VALUES (NEW.id, NEW.admin_state, NEW.admin_reason, NEW.admin_by);
    END IF;
    IF NEW.schedulable <> OLD.schedulable
       OR NOT NEW.schedulable AND NEW.not_schedulable_reason <> OLD.not_schedulable_reason THEN
        INSERT INTO node_history (node_id, state, reason, principal)
        VALUES (NEW.id, CASE WHEN NEW.schedulable THEN 'ready' ELSE 'validating' END, NEW.not_schedulable_reason, '');
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION note_node() FROM PUBLIC;
CREATE TRIGGER nodes_history AFTER UPDATE OF admin_state, admin_reason, schedulable, not_schedulable_reason ON nodes
    FOR EACH ROW EXECUTE FUNCTION note_node();

CREATE FUNCTION note_slot() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.health_state <> OLD.health_state THEN
        INSERT INTO slot_history (slot_id, kind, health, detail, principal)
        VALUES (NEW.id, 'health', NEW.health_state, NEW.health_detail, '');
    END IF;
    IF NEW.admin_state <> OLD.admin_state THEN
        INSERT INTO slot_history (slot_id, kind, health, detail, principal)
        VALUES (NEW.id, NEW.admin_state, NEW.health_state, NEW.admin_reason, NEW.admin_by);
    END IF;
    IF NEW.status = 'retired' AND OLD.status <> 'retired' THEN
        INSERT INTO slot_history (slot_id, kind, health, detail, principal)
        VALUES (NEW.id, 'retired', NEW.health_state, NEW.admin_reason, NEW.admin_by);
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION note_slot() FROM PUBLIC;
-- two triggers, so that the way of an allocation through its slot calls no function
CREATE TRIGGER slots_history AFTER UPDATE OF host_health, cleanup_health, admin_state ON slots FOR EACH ROW
    WHEN (OLD.status <> 'retired' AND NEW.status = OLD.status
          AND (OLD.health_state <> NEW.health_state OR OLD.admin_state <> NEW.admin_state))
    EXECUTE FUNCTION note_slot();
CREATE TRIGGER slots_history_of_status AFTER UPDATE OF status ON slots FOR EACH ROW
    WHEN (OLD.status <> NEW.status AND (NEW.status = 'retired' OR OLD.health_state <> NEW.health_state))
    EXECUTE FUNCTION note_slot();

CREATE TRIGGER node_history_immutable BEFORE UPDATE OR DELETE ON node_history
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER slot_history_immutable BEFORE UPDATE OR DELETE ON slot_history
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Repairs of a host by hand: what broke, what was done, how it ended.
CREATE TABLE break_fixes (
    id        uuid           PRIMARY KEY,
    node_id   uuid           NOT NULL REFERENCES nodes (id),
    -- NULL: the host as a whole
    slot_id   uuid,
    fault     non_empty_text NOT NULL,
    opened_by non_empty_text NOT NULL,
    opened_at timestamptz    NOT NULL DEFAULT clock_timestamp(),
    -- all or none
    closed_by text,
    closed_at timestamptz,
    outcome   text,
    FOREIGN KEY (slot_id, node_id) REFERENCES slots (id, node_id),
    CONSTRAINT break_fixes_closed_is_whole CHECK (num_nulls(closed_by, closed_at, outcome) IN (0, 3)),
    CONSTRAINT break_fixes_outcome CHECK ((outcome <> '') IS NOT FALSE)
);
CREATE INDEX break_fixes_of ON break_fixes (node_id, opened_at DESC, id);
CREATE INDEX break_fixes_open ON break_fixes (node_id) WHERE closed_at IS NULL;
-- a record that is closed stays as it is
CREATE TRIGGER break_fixes_closed BEFORE UPDATE ON break_fixes FOR EACH ROW
    WHEN (OLD.closed_at IS NOT NULL) EXECUTE FUNCTION refuse_change();

CREATE TABLE break_fix_actions (
    seq          bigint         GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    break_fix_id uuid           NOT NULL REFERENCES break_fixes (id),
    at           timestamptz    NOT NULL DEFAULT clock_timestamp(),
    principal    non_empty_text NOT NULL,
    action       non_empty_text NOT NULL
);
CREATE INDEX break_fix_actions_of ON break_fix_actions (break_fix_id, seq);
CREATE TRIGGER break_fix_actions_immutable BEFORE UPDATE OR DELETE ON break_fix_actions
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- What an outside health agent (DCGM, NVSentinel) has found. Reported again, it is the same finding, seen once more.
CREATE TABLE node_findings (
    id          uuid           PRIMARY KEY,
    node_id     uuid           NOT NULL REFERENCES nodes (id),
    -- NULL: the host as a whole
    slot_id     uuid,
    source      dns_label      NOT NULL,
    -- the agent's own name of the fault, and the device it is of; empty: the host
    code        non_empty_text NOT NULL,
    device      text           NOT NULL,
    severity    text           NOT NULL CHECK (severity IN ('info', 'warning', 'critical')),
    message     text           NOT NULL,
    reported_by non_empty_text NOT NULL,
    first_at    timestamptz    NOT NULL DEFAULT clock_timestamp(),
    last_at     timestamptz    NOT NULL DEFAULT clock_timestamp(),
    seen        bigint         NOT NULL DEFAULT 1 CHECK (seen > 0),
    -- all or none
    resolved_by text,
    resolved_at timestamptz,
    resolution  text,
    FOREIGN KEY (slot_id, node_id) REFERENCES slots (id, node_id),
    CONSTRAINT node_findings_resolved_is_whole CHECK (num_nulls(resolved_by, resolved_at, resolution) IN (0, 3))
);
CREATE UNIQUE INDEX node_findings_one_open ON node_findings (node_id, source, code, device) WHERE resolved_at IS NULL;
CREATE INDEX node_findings_of ON node_findings (node_id, last_at DESC, id);
CREATE TRIGGER node_findings_resolved BEFORE UPDATE ON node_findings FOR EACH ROW
    WHEN (OLD.resolved_at IS NOT NULL) EXECUTE FUNCTION refuse_change();

-- What holds of an operator's word, whoever writes it. Retired is the end, with nothing on the node. Nobody is on a node in
-- maintenance. A node is broken exactly as long as it has an open break-fix record.
CREATE FUNCTION guard_node_life() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.admin_state = 'retired'
       OR NEW.admin_state = 'retired' AND (
           EXISTS (SELECT FROM claims WHERE node_id = NEW.id AND state <> 'released')
           OR EXISTS (SELECT FROM slots WHERE node_id = NEW.id AND status <> 'retired'))
       OR NEW.admin_state = 'maintenance' AND
           EXISTS (SELECT FROM claims WHERE node_id = NEW.id AND state NOT IN ('released', 'cleanup_blocked'))
       OR (NEW.admin_state = 'broken') <> EXISTS (SELECT FROM break_fixes WHERE node_id = NEW.id AND closed_at IS NULL) THEN
        RAISE EXCEPTION 'node % cannot go from % to %', NEW.id, OLD.admin_state, NEW.admin_state USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER nodes_life BEFORE UPDATE OF admin_state ON nodes FOR EACH ROW
    WHEN (OLD.admin_state <> NEW.admin_state) EXECUTE FUNCTION guard_node_life();

-- The configuration of a node changes only while nothing of it is for sale and nobody has anything of it (A-48, A-49). Both
-- services lock the row of the node before they sell, so no sale comes in between.
CREATE FUNCTION guard_node_config() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM claims WHERE node_id = NEW.id AND state <> 'released')
       OR NEW.admin_state = 'enabled' AND EXISTS (SELECT FROM slots WHERE node_id = NEW.id AND status = 'available') THEN
        RAISE EXCEPTION 'node % cannot change its mode or limit while it is for sale or in use', NEW.id
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER nodes_config BEFORE UPDATE OF mode, intended_mode, max_vms ON nodes FOR EACH ROW
    WHEN (current_user IN ('gpuaas_scheduler', 'gpuaas_allocation')
          AND (coalesce(OLD.intended_mode, OLD.mode), OLD.max_vms)
              IS DISTINCT FROM (coalesce(NEW.intended_mode, NEW.mode), NEW.max_vms))
    EXECUTE FUNCTION guard_node_config();

CREATE FUNCTION guard_slot_of_retired() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM nodes WHERE id = NEW.node_id AND admin_state = 'retired') THEN
        RAISE EXCEPTION 'node % is retired and takes no slot', NEW.node_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slots_of_retired BEFORE INSERT ON slots FOR EACH ROW EXECUTE FUNCTION guard_slot_of_retired();

-- The scheduler retires what nobody has; everything else of a slot's end is done by the allocation service, with the host.
DROP TRIGGER slots_part_of_scheduler ON slots;
CREATE TRIGGER slots_part_of_scheduler BEFORE UPDATE OF status ON slots FOR EACH ROW
    WHEN (current_user = 'gpuaas_scheduler' AND NEW.status <> 'cleanup_blocked'
          AND (OLD.status, NEW.status) NOT IN (('available', 'reserved'), ('available', 'disabled'), ('disabled', 'available'),
                                              ('disabled', 'disabled'), ('disabled', 'cleanup'), ('disabled', 'retired'),
                                              ('cleanup_blocked', 'retired')))
    EXECUTE FUNCTION guard_part_of_role();

GRANT SELECT ON node_history, slot_history, break_fixes, break_fix_actions, node_findings TO gpuaas_scheduler, gpuaas_allocation;
GRANT UPDATE (admin_by) ON slots TO gpuaas_scheduler;
GRANT UPDATE (admin_reason, admin_by) ON slots TO gpuaas_allocation;
GRANT INSERT (id, node_id, slot_id, fault, opened_by) ON break_fixes TO gpuaas_scheduler;
GRANT UPDATE (closed_by, closed_at, outcome) ON break_fixes TO gpuaas_scheduler;
GRANT INSERT (break_fix_id, principal, action) ON break_fix_actions TO gpuaas_scheduler;
GRANT INSERT (id, node_id, slot_id, source, code, device, severity, message, reported_by) ON node_findings TO gpuaas_scheduler;
GRANT UPDATE (slot_id, severity, message, reported_by, last_at, seen, resolved_by, resolved_at, resolution) ON node_findings
    TO gpuaas_scheduler;
