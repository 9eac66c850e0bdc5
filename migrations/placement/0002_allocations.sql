-- The ledger, part 2 of 5: allocations, their claims and price snapshots, and their events.
CREATE DOMAIN capacity_shape AS text CHECK (VALUE IN ('gpu_slice', 'baremetal'));
CREATE DOMAIN power AS text CHECK (VALUE IN ('running', 'stopping', 'stopped', 'starting', 'rebooting'));
CREATE DOMAIN ssh_keys AS text[] CHECK (cardinality(VALUE) BETWEEN 1 AND 10);
CREATE DOMAIN guest_user AS text CHECK (VALUE ~ '^u_[0-9a-f]{16}$');
CREATE DOMAIN event_type AS text CHECK (VALUE ~ '^[a-z]+\.[a-z_]+$');

-- What a project has launched. One in state `requested` is queued for capacity.
CREATE TABLE allocations (
    id              uuid             PRIMARY KEY,
    project_id      uuid             NOT NULL,
    name            dns_label        NOT NULL,
    labels          jsonb            NOT NULL DEFAULT '{}',
    region_code     text             NOT NULL REFERENCES regions (code),
    sku             text             NOT NULL REFERENCES skus (code),
    gpu_count       positive_integer NOT NULL,
    capacity_shape  capacity_shape   NOT NULL,
    -- placement constraints of its launch; NULL: unknown, the old platform made the allocation
    constraints     json_object,
    node_id         uuid             REFERENCES nodes (id),
    state           text             NOT NULL,
    power           power,
    -- boot id of the guest's kernel at the last login that proved a start; NULL: the last start was not proven
    boot_id         uuid,
    failure         jsonb,
    image           jsonb            NOT NULL,
    ssh_public_keys ssh_keys         NOT NULL,
    guest_user      guest_user       NOT NULL,
    access          jsonb,
    lab             boolean          NOT NULL,
    -- {version_id, currency, nanos_per_gpu_hour}
    price           jsonb,
    principal       non_empty_text   NOT NULL,
    request_id      text             NOT NULL,
    traceparent     text             NOT NULL,
    revision        positive_bigint  NOT NULL DEFAULT 1,
    created_at      timestamptz      NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz      NOT NULL DEFAULT clock_timestamp(),
    active_at       timestamptz,
    releasing_at    timestamptz,
    ended_at        timestamptz,
    deadline_at     timestamptz,
    UNIQUE (id, sku),
    UNIQUE (id, node_id),
    CONSTRAINT allocations_placed CHECK (node_id IS NOT NULL OR state IN ('requested', 'failed')
        OR (state = 'released' AND releasing_at IS NULL AND active_at IS NULL)),
    CONSTRAINT allocations_queued_has_constraints CHECK (state <> 'requested' OR constraints IS NOT NULL),
    -- nothing is queued for ever
    CONSTRAINT allocations_queued_has_deadline CHECK (state <> 'requested' OR deadline_at IS NOT NULL),
    CONSTRAINT allocations_active_has_power CHECK ((state = 'active') = (power IS NOT NULL)),
    CONSTRAINT allocations_active_has_time CHECK (state <> 'active' OR active_at IS NOT NULL),
    CONSTRAINT allocations_failed_has_failure CHECK ((state = 'failed') = (failure IS NOT NULL)),
    CONSTRAINT allocations_ended_has_time CHECK ((state IN ('released', 'failed')) = (ended_at IS NOT NULL))
);
CREATE UNIQUE INDEX allocations_name ON allocations (project_id, name) WHERE state NOT IN ('released', 'failed');
CREATE INDEX allocations_newest ON allocations (project_id, created_at DESC, id DESC);
CREATE INDEX allocations_live ON allocations (project_id, sku) WHERE state NOT IN ('released', 'failed');
-- for placement constraints that name a label
CREATE INDEX allocations_live_labels ON allocations USING gin (labels) WHERE state NOT IN ('released', 'failed');
CREATE INDEX allocations_queued ON allocations (region_code, project_id) WHERE state = 'requested';

-- What an allocation has: one slot each, or one bare metal node.
CREATE TABLE claims (
    id              uuid        PRIMARY KEY,
    allocation_id   uuid        NOT NULL,
    sku             text        NOT NULL,
    kind            text        NOT NULL CHECK (kind IN ('slot', 'node_exclusive')),
    node_id         uuid        NOT NULL,
    slot_id         uuid,
    slot_class      text,
    slot_generation bigint      NOT NULL,
    state           text        NOT NULL,
    -- what a live claim makes of its node; the foreign key refuses the other kind
    node_mode       text        GENERATED ALWAYS AS (CASE WHEN state = 'released' THEN NULL
                                                          WHEN kind = 'slot' THEN 'slice' ELSE 'baremetal' END) STORED,
    -- parent fabric device that this claim has alone; empty when each slot has its own function (INC-27)
    fabric_key      text        NOT NULL DEFAULT '',
    -- SKU profile, price, bindings and host instance as they were when claimed
    snapshot        jsonb       NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    released_at     timestamptz,
    FOREIGN KEY (allocation_id, sku)     REFERENCES allocations (id, sku),
    FOREIGN KEY (allocation_id, node_id) REFERENCES allocations (id, node_id),
    FOREIGN KEY (node_id, node_mode)     REFERENCES nodes (id, mode),
    FOREIGN KEY (slot_id, node_id)       REFERENCES slots (id, node_id),
    FOREIGN KEY (slot_id, slot_class)    REFERENCES slots (id, class),
    FOREIGN KEY (sku, slot_class)        REFERENCES skus (code, slot_class),
    CONSTRAINT claims_kind_has_slot CHECK ((kind = 'slot') = (slot_id IS NOT NULL)),
    CONSTRAINT claims_kind_has_class CHECK ((kind = 'slot') = (slot_class IS NOT NULL)),
    CONSTRAINT claims_released_has_time CHECK ((state = 'released') = (released_at IS NOT NULL))
);
CREATE UNIQUE INDEX claims_one_per_slot ON claims (slot_id) WHERE state <> 'released';
CREATE UNIQUE INDEX claims_one_exclusive_per_node ON claims (node_id) WHERE state <> 'released' AND kind = 'node_exclusive';
CREATE UNIQUE INDEX claims_one_per_fabric ON claims (node_id, fabric_key) WHERE state <> 'released' AND fabric_key <> '';
CREATE INDEX claims_allocation ON claims (allocation_id);
CREATE INDEX claims_live_node ON claims (node_id) WHERE state <> 'released';

-- When an allocation was billable: what billing is reconciled against. Kept for ever.
CREATE TABLE allocation_periods (
    id            uuid        PRIMARY KEY,
    allocation_id uuid        NOT NULL REFERENCES allocations (id),
    project_id    uuid        NOT NULL,
    sku           text        NOT NULL,
    gpu_count     integer     NOT NULL CHECK (gpu_count > 0),
    price         jsonb,
    started_at    timestamptz NOT NULL,
    ended_at      timestamptz,
    CONSTRAINT allocation_periods_end_after_start CHECK ((ended_at >= started_at) IS NOT FALSE)
);
CREATE UNIQUE INDEX allocation_periods_one_open ON allocation_periods (allocation_id) WHERE ended_at IS NULL;
CREATE INDEX allocation_periods_of ON allocation_periods (allocation_id, started_at);

-- Events. `seq` is the order of insertion, `position` the order readers see: total, without gaps.
CREATE TABLE outbox (
    seq          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    position     bigint      UNIQUE,
    type         event_type  NOT NULL,
    aggregate_id uuid        NOT NULL,
    revision     bigint      NOT NULL,
    at           timestamptz NOT NULL,
    project_id   uuid,
    data         json_object NOT NULL,
    traceparent  text        NOT NULL DEFAULT '',
    UNIQUE (aggregate_id, revision)
);
CREATE INDEX outbox_unstamped ON outbox (seq) WHERE position IS NULL;
-- for those who watch one project
CREATE INDEX outbox_project ON outbox (project_id, position) WHERE project_id IS NOT NULL;

-- The last position that was assigned to an event.
CREATE TABLE outbox_head (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    position bigint  NOT NULL DEFAULT 0
);
INSERT INTO outbox_head DEFAULT VALUES;

-- Legal changes of an allocation's state.
CREATE TABLE allocation_transitions (from_state text, to_state text, PRIMARY KEY (from_state, to_state));
INSERT INTO allocation_transitions VALUES
    ('requested', 'reserved'), ('reserved', 'provisioning'), ('provisioning', 'active'), ('active', 'releasing'),
    ('reserved', 'releasing'), ('provisioning', 'releasing'), ('releasing', 'released'),
    ('requested', 'failed'), ('reserved', 'failed'), ('provisioning', 'failed'),
    -- its owner takes it out of the queue: no host was touched, no claim was made
    ('requested', 'released');

-- Legal changes of the power of an active allocation.
CREATE TABLE power_transitions (from_power text, to_power text, PRIMARY KEY (from_power, to_power));
INSERT INTO power_transitions VALUES
    ('running', 'stopping'), ('stopping', 'stopped'),
    ('stopped', 'starting'), ('starting', 'running'),
    ('running', 'rebooting'), ('rebooting', 'running'),
    -- it failed, and the host reported what is
    ('stopping', 'running'), ('starting', 'stopped'), ('rebooting', 'stopped'),
    -- unexpected shutdown: the guest shut down, or its host was restarted
    ('running', 'stopped');

-- Legal changes of a claim's state.
CREATE TABLE claim_transitions (from_state text, to_state text, PRIMARY KEY (from_state, to_state));
INSERT INTO claim_transitions VALUES
    ('reserved', 'provisioning'), ('provisioning', 'active'), ('active', 'releasing'), ('provisioning', 'releasing'),
    ('releasing', 'released'), ('reserved', 'released'), ('cleanup_blocked', 'released'),
    ('reserved', 'cleanup_blocked'), ('provisioning', 'cleanup_blocked'), ('active', 'cleanup_blocked'),
    ('releasing', 'cleanup_blocked');

CREATE FUNCTION guard_allocation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state NOT IN ('requested', 'reserved') THEN
            RAISE EXCEPTION 'allocation % cannot begin as %', NEW.id, NEW.state USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.state IS DISTINCT FROM OLD.state AND NOT EXISTS
        (SELECT FROM allocation_transitions WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'allocation % cannot go from % to %', NEW.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.revision <> OLD.revision + 1 OR NEW.updated_at < OLD.updated_at THEN
        RAISE EXCEPTION 'allocation % must raise its revision by one and not go back in time', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER allocations_guard BEFORE INSERT OR UPDATE ON allocations FOR EACH ROW EXECUTE FUNCTION guard_allocation();

-- An allocation that becomes active is running; while it is active, its power changes by the table of transitions. It
-- may leave `active` with any power.
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

-- A claim is made on a slot that was reserved for it, and only its state ever changes.
CREATE FUNCTION guard_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'reserved' THEN
            RAISE EXCEPTION 'claim % cannot begin as %', NEW.id, NEW.state USING ERRCODE = 'check_violation';
        END IF;
        IF NEW.kind = 'slot' AND NOT EXISTS (SELECT FROM slots WHERE id = NEW.slot_id AND status = 'reserved'
                                                AND generation = NEW.slot_generation) THEN
            RAISE EXCEPTION 'claim %: slot % is not reserved with generation %', NEW.id, NEW.slot_id, NEW.slot_generation
                USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.state IS DISTINCT FROM OLD.state AND NOT EXISTS
        (SELECT FROM claim_transitions WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'claim % cannot go from % to %', NEW.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    IF (NEW.id, NEW.allocation_id, NEW.sku, NEW.kind, NEW.node_id, NEW.slot_id, NEW.slot_class, NEW.slot_generation,
        NEW.fabric_key, NEW.snapshot, NEW.created_at)
       IS DISTINCT FROM
       (OLD.id, OLD.allocation_id, OLD.sku, OLD.kind, OLD.node_id, OLD.slot_id, OLD.slot_class, OLD.slot_generation,
        OLD.fabric_key, OLD.snapshot, OLD.created_at) THEN
        RAISE EXCEPTION 'claim %: only its state changes', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER claims_guard BEFORE INSERT OR UPDATE ON claims FOR EACH ROW EXECUTE FUNCTION guard_claim();

-- A period is closed once and otherwise never changes.
CREATE FUNCTION guard_period() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' OR OLD.ended_at IS NOT NULL
       OR (NEW.id, NEW.allocation_id, NEW.project_id, NEW.sku, NEW.gpu_count, NEW.price, NEW.started_at)
          IS DISTINCT FROM (OLD.id, OLD.allocation_id, OLD.project_id, OLD.sku, OLD.gpu_count, OLD.price, OLD.started_at) THEN
        RAISE EXCEPTION 'period % does not change', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER allocation_periods_guard BEFORE UPDATE OR DELETE ON allocation_periods
    FOR EACH ROW EXECUTE FUNCTION guard_period();

-- An event gets its position once and otherwise never changes.
CREATE FUNCTION guard_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.position IS NOT NULL THEN
            RAISE EXCEPTION 'an event is written without position' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.position IS NOT NULL
       OR (NEW.seq, NEW.type, NEW.aggregate_id, NEW.revision, NEW.at, NEW.project_id, NEW.data, NEW.traceparent)
          IS DISTINCT FROM (OLD.seq, OLD.type, OLD.aggregate_id, OLD.revision, OLD.at, OLD.project_id, OLD.data, OLD.traceparent) THEN
        RAISE EXCEPTION 'event % does not change', OLD.seq USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER outbox_guard BEFORE INSERT OR UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION guard_outbox();

-- Events are retained 90 days. The role that reads and stamps them may delete them only through this function. It deletes
-- only the first positions, as long as they are old enough, and never the last one: the log has no gap.
CREATE FUNCTION sweep_outbox(most integer) RETURNS bigint LANGUAGE sql SECURITY DEFINER
    SET search_path FROM CURRENT AS $$
    WITH front AS (
        SELECT seq, position, at < clock_timestamp() - interval '90 days' AS old
          FROM outbox WHERE position IS NOT NULL ORDER BY position LIMIT most
    ), gone AS (
        DELETE FROM outbox o USING front f
         WHERE o.seq = f.seq AND f.old AND f.position < (SELECT position FROM outbox_head)
           AND f.position < coalesce((SELECT min(position) FROM front WHERE NOT old), f.position + 1)
        RETURNING 1
    )
    SELECT count(*) FROM gone
$$;
REVOKE ALL ON FUNCTION sweep_outbox(integer) FROM PUBLIC;

-- Grants, least per table and column. Only the scheduler makes claims; only allocation bills and stamps.
GRANT SELECT ON allocations, claims, allocation_transitions, power_transitions, claim_transitions
    TO gpuaas_scheduler, gpuaas_allocation;
GRANT INSERT ON allocations, claims, outbox TO gpuaas_scheduler;
-- a reinstalled host has nothing left of a blocked bare metal allocation, whose claim ends then
GRANT UPDATE (state, updated_at, released_at) ON claims TO gpuaas_scheduler;
-- the audit compares states with events and periods; it does not read what events contain
GRANT SELECT (seq, position, type, aggregate_id, revision, at) ON outbox TO gpuaas_scheduler;
GRANT SELECT (position) ON outbox_head TO gpuaas_scheduler;
GRANT SELECT (id, allocation_id, started_at, ended_at) ON allocation_periods TO gpuaas_scheduler;

GRANT UPDATE (state, updated_at, released_at) ON claims TO gpuaas_allocation;
GRANT UPDATE (state, power, boot_id, failure, access, revision, updated_at, active_at, releasing_at, ended_at, deadline_at)
    ON allocations TO gpuaas_allocation;
GRANT SELECT, INSERT ON allocation_periods, outbox TO gpuaas_allocation;
GRANT SELECT ON outbox_head TO gpuaas_allocation;
GRANT UPDATE (ended_at) ON allocation_periods TO gpuaas_allocation;
GRANT UPDATE (position) ON outbox, outbox_head TO gpuaas_allocation;
GRANT EXECUTE ON FUNCTION sweep_outbox(integer) TO gpuaas_allocation;
