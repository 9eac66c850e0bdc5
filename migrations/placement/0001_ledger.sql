-- The ledger: what exists, who holds it, what it was sold for, and what happened.
--
-- The constraints are the promises: a GPU is never sold twice (P1), no slot is sold without clean evidence of
-- its own generation (P2), transitions that are not in the tables do not happen. A CHECK that can see a NULL
-- says IS TRUE, because NULL passes a CHECK.

-- Raised by the restore runbook: the first part of every fencing token.
CREATE TABLE cell (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch    bigint  NOT NULL DEFAULT 1 CHECK (epoch >= 1)
);
INSERT INTO cell DEFAULT VALUES;

CREATE TABLE regions (
    code       text        PRIMARY KEY CHECK (code ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'),
    enabled    boolean     NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Every value of allowed_gpu_counts is positive, none occurs twice.
CREATE FUNCTION are_gpu_counts(counts integer[]) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN cardinality(counts) > 0 AND (SELECT bool_and(n > 0) AND count(*) = count(DISTINCT n) FROM unnest(counts) AS n);

CREATE TABLE skus (
    code               text        PRIMARY KEY CHECK (code ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'),
    display_name       text        NOT NULL,
    capacity_shape     text        NOT NULL CHECK (capacity_shape IN ('gpu_slice', 'baremetal')),
    slot_class         text        NOT NULL CHECK (slot_class IN ('h200_sxm', 'lab')),
    allowed_gpu_counts integer[]   NOT NULL CHECK (are_gpu_counts(allowed_gpu_counts) IS TRUE),
    profile_name       text        NOT NULL CHECK (profile_name <> ''),
    vcpus_per_gpu      integer     NOT NULL CHECK (vcpus_per_gpu > 0),
    memory_mib_per_gpu integer     NOT NULL CHECK (memory_mib_per_gpu > 0),
    hugepages          boolean     NOT NULL,
    -- current price version; all or none
    price_version_id   uuid,
    price_currency     text        CHECK ((price_currency ~ '^[A-Z]{3}$') IS NOT FALSE),
    price_nanos        bigint      CHECK ((price_nanos >= 0) IS NOT FALSE),
    price_effective_at timestamptz,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (code, slot_class),
    -- lab capacity is sold as lab capacity and as nothing else
    CHECK ((slot_class = 'lab') = (code = 'lab-slice')),
    CHECK (num_nulls(price_version_id, price_currency, price_nanos, price_effective_at) IN (0, 4))
);

-- How many GPUs of a SKU a project may hold; NULL: the service's default. The row is the lock.
CREATE TABLE quotas (
    project_id uuid        NOT NULL,
    sku        text        NOT NULL REFERENCES skus (code),
    max_gpus   integer     CHECK ((max_gpus >= 0) IS NOT FALSE),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (project_id, sku)
);

CREATE TYPE health AS ENUM ('healthy', 'unknown', 'degraded', 'failed');

-- The ledger's own row per node: the thing that is locked.
CREATE TABLE nodes (
    id                     uuid        PRIMARY KEY,
    hostname               text        NOT NULL CHECK (hostname <> ''),
    region_code            text        NOT NULL REFERENCES regions (code),
    mode                   text        NOT NULL CHECK (mode IN ('slice', 'baremetal')),
    admin_state            text        NOT NULL DEFAULT 'enabled' CHECK (admin_state IN ('enabled', 'cordoned', 'draining')),
    generation             bigint      NOT NULL DEFAULT 1 CHECK (generation >= 1),
    agent_address          text        NOT NULL,
    instance_id            uuid        NOT NULL,
    schedulable            boolean     NOT NULL,
    not_schedulable_reason text        NOT NULL DEFAULT '',
    hugepages_1g_free      integer     NOT NULL DEFAULT 0 CHECK (hugepages_1g_free >= 0),
    -- 0: no limit
    max_vms                integer     NOT NULL DEFAULT 0 CHECK (max_vms >= 0),
    -- [[module ids], …]
    legal_groups           jsonb       NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(legal_groups) = 'array'),
    lab                    boolean     NOT NULL,
    host_health            health      NOT NULL,
    created_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (id, mode)
);
CREATE INDEX nodes_region ON nodes (region_code);

CREATE TABLE slots (
    id                      uuid        PRIMARY KEY,
    node_id                 uuid        NOT NULL REFERENCES nodes (id),
    slot_index              integer     NOT NULL CHECK (slot_index >= 0),
    class                   text        NOT NULL CHECK (class IN ('h200_sxm', 'lab')),
    status                  text        NOT NULL DEFAULT 'disabled',
    -- the operator's intent; a held slot follows it after its cleanup
    admin_state             text        NOT NULL DEFAULT 'enabled' CHECK (admin_state IN ('enabled', 'disabled')),
    admin_reason            text        NOT NULL DEFAULT '',
    -- raised by every claim and repair
    generation              bigint      NOT NULL DEFAULT 0 CHECK (generation >= 0),
    clean_generation        bigint,
    clean_sellable          boolean     GENERATED ALWAYS AS (CASE WHEN clean_generation IS NOT NULL THEN true END) STORED,
    -- two writers, one value
    host_health             health      NOT NULL DEFAULT 'unknown',
    cleanup_health          health      NOT NULL DEFAULT 'healthy',
    health_state            health      GENERATED ALWAYS AS (greatest(host_health, cleanup_health)) STORED,
    health_detail           text        NOT NULL DEFAULT '',
    -- bindings: approved once, empty text is "none"
    gpu_pci_address         text        NOT NULL DEFAULT '',
    gpu_module_id           integer,
    numa_node               integer,
    nvme_device             text        NOT NULL DEFAULT '',
    storage_identity_kind   text        NOT NULL DEFAULT '' CHECK (storage_identity_kind IN ('', 'nvme_wwn_by_id', 'lab_backing_file')),
    nvme_bytes              bigint      NOT NULL DEFAULT 0 CHECK (nvme_bytes >= 0),
    management_mac          text        NOT NULL DEFAULT '' CHECK (management_mac ~ '^(([0-9a-f]{2}:){5}[0-9a-f]{2})?$'),
    private_ip              text        NOT NULL DEFAULT '' CHECK (private_ip = '' OR private_ip = host(private_ip::inet)),
    fabric_device           text        NOT NULL DEFAULT '',
    fabric_vf_pci_address   text        NOT NULL DEFAULT '',
    fabric_claim_mode       text        NOT NULL DEFAULT '',
    destructive_wipe_policy text        NOT NULL DEFAULT '' CHECK (destructive_wipe_policy IN ('', 'blkdiscard', 'nvme_format', 'site_erase')),
    revision                bigint      NOT NULL DEFAULT 0 CHECK (revision >= 0),
    created_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (id, node_id),
    UNIQUE (id, class),
    UNIQUE (node_id, slot_index),
    CHECK (gpu_pci_address = '' OR gpu_pci_address ~ '^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$'),
    CHECK (fabric_vf_pci_address = '' OR fabric_vf_pci_address ~ '^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$'),
    CHECK (gpu_module_id >= 0 IS NOT FALSE AND numa_node >= 0 IS NOT FALSE),
    -- a kernel name such as /dev/nvme0n1 or /dev/loop3 is no identity (A-110)
    CHECK (nvme_device = '' OR nvme_device ~ '^/dev/disk/by-id/[^/]+$'
           OR nvme_device ~ '^lab-disk:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'),
    -- the emulated disk exists in the emulated class only
    CHECK (class = 'lab' OR storage_identity_kind <> 'lab_backing_file'),
    CHECK (class <> 'lab' OR gpu_pci_address = ''),
    -- clean before sale (P2)
    CONSTRAINT slots_clean_before_sale CHECK ((status <> 'available' OR clean_generation = generation) IS TRUE),
    -- complete before sale (A-117, A-122, INC-40)
    CONSTRAINT slots_complete_before_sale CHECK ((status <> 'available'
        OR (management_mac <> '' AND private_ip <> '' AND destructive_wipe_policy <> '' AND nvme_bytes > 0
            AND CASE class
                WHEN 'lab' THEN storage_identity_kind = 'lab_backing_file' AND nvme_device LIKE 'lab-disk:%'
                ELSE storage_identity_kind = 'nvme_wwn_by_id' AND nvme_device LIKE '/dev/disk/by-id/%'
                     AND gpu_pci_address <> '' AND fabric_claim_mode = 'per_slot_vf' AND fabric_vf_pci_address <> ''
                END)) IS TRUE)
);
CREATE UNIQUE INDEX slots_own_gpu ON slots (node_id, gpu_pci_address) WHERE gpu_pci_address <> '' AND status <> 'retired';
CREATE UNIQUE INDEX slots_own_disk ON slots (node_id, nvme_device) WHERE nvme_device <> '' AND status <> 'retired';
CREATE UNIQUE INDEX slots_own_mac ON slots (node_id, management_mac) WHERE management_mac <> '' AND status <> 'retired';
CREATE UNIQUE INDEX slots_own_ip ON slots (node_id, private_ip) WHERE private_ip <> '' AND status <> 'retired';
CREATE UNIQUE INDEX slots_own_fabric_vf ON slots (node_id, fabric_vf_pci_address) WHERE fabric_vf_pci_address <> '' AND status <> 'retired';

-- Proof that a slot holds no tenant data, once per generation. Never changes.
CREATE TABLE clean_evidence (
    slot_id    uuid        NOT NULL REFERENCES slots (id),
    generation bigint      NOT NULL,
    kind       text        NOT NULL CHECK (kind IN ('approved', 'wiped', 'untouched', 'destroyed')),
    -- a destroyed device is proof, but not of something that can be sold
    sellable   boolean     GENERATED ALWAYS AS (kind <> 'destroyed') STORED,
    method     text        NOT NULL,
    detail     jsonb       NOT NULL DEFAULT '{}',
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (slot_id, generation),
    UNIQUE (slot_id, generation, sellable)
);
ALTER TABLE slots ADD CONSTRAINT slots_clean_evidence
    FOREIGN KEY (id, clean_generation, clean_sellable) REFERENCES clean_evidence (slot_id, generation, sellable);

CREATE TABLE allocations (
    id              uuid        PRIMARY KEY,
    project_id      uuid        NOT NULL,
    name            text        NOT NULL CHECK (name ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'),
    region_code     text        NOT NULL REFERENCES regions (code),
    sku             text        NOT NULL REFERENCES skus (code),
    gpu_count       integer     NOT NULL CHECK (gpu_count > 0),
    capacity_shape  text        NOT NULL CHECK (capacity_shape IN ('gpu_slice', 'baremetal')),
    node_id         uuid        REFERENCES nodes (id),
    state           text        NOT NULL,
    power           text        CHECK ((power IN ('running', 'stopping', 'stopped', 'starting', 'rebooting')) IS NOT FALSE),
    failure         jsonb,
    image           jsonb       NOT NULL,
    ssh_public_keys text[]      NOT NULL CHECK (cardinality(ssh_public_keys) BETWEEN 1 AND 10),
    labels          jsonb       NOT NULL DEFAULT '{}',
    guest_user      text        NOT NULL CHECK (guest_user ~ '^u_[0-9a-f]{16}$'),
    access          jsonb,
    lab             boolean     NOT NULL,
    -- {version_id, currency, nanos_per_gpu_hour}
    price           jsonb,
    principal       text        NOT NULL CHECK (principal <> ''),
    request_id      text        NOT NULL,
    traceparent     text        NOT NULL,
    revision        bigint      NOT NULL DEFAULT 1 CHECK (revision >= 1),
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    active_at       timestamptz,
    releasing_at    timestamptz,
    ended_at        timestamptz,
    deadline_at     timestamptz,
    UNIQUE (id, sku),
    UNIQUE (id, node_id),
    CHECK ((state = 'failed') = (failure IS NOT NULL)),
    CHECK (node_id IS NOT NULL OR state IN ('requested', 'failed')),
    CHECK ((state = 'active') = (power IS NOT NULL)),
    CHECK (state <> 'active' OR active_at IS NOT NULL),
    CHECK ((state IN ('released', 'failed')) = (ended_at IS NOT NULL))
);
CREATE UNIQUE INDEX allocations_name ON allocations (project_id, name) WHERE state NOT IN ('released', 'failed');
CREATE INDEX allocations_newest ON allocations (project_id, created_at DESC, id DESC);
CREATE INDEX allocations_live ON allocations (project_id, sku) WHERE state NOT IN ('released', 'failed');

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
    held_mode       text        GENERATED ALWAYS AS (CASE WHEN state = 'released' THEN NULL
                                                          WHEN kind = 'slot' THEN 'slice' ELSE 'baremetal' END) STORED,
    -- parent fabric device that this claim holds alone; empty when each slot has its own function (INC-27)
    fabric_key      text        NOT NULL DEFAULT '',
    -- SKU profile, price, bindings and host instance as they were when claimed
    snapshot        jsonb       NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    released_at     timestamptz,
    CHECK ((kind = 'slot') = (slot_id IS NOT NULL)),
    CHECK ((kind = 'slot') = (slot_class IS NOT NULL)),
    CHECK ((state = 'released') = (released_at IS NOT NULL)),
    FOREIGN KEY (allocation_id, sku)     REFERENCES allocations (id, sku),
    FOREIGN KEY (allocation_id, node_id) REFERENCES allocations (id, node_id),
    FOREIGN KEY (node_id, held_mode)     REFERENCES nodes (id, mode),
    FOREIGN KEY (slot_id, node_id)       REFERENCES slots (id, node_id),
    FOREIGN KEY (slot_id, slot_class)    REFERENCES slots (id, class),
    FOREIGN KEY (sku, slot_class)        REFERENCES skus (code, slot_class)
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
    CHECK ((ended_at >= started_at) IS NOT FALSE)
);
CREATE UNIQUE INDEX allocation_periods_one_open ON allocation_periods (allocation_id) WHERE ended_at IS NULL;
CREATE INDEX allocation_periods_of ON allocation_periods (allocation_id, started_at);

-- Events. `seq` is the order of insertion, `position` the order readers see: total, without gaps.
CREATE TABLE outbox (
    seq          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    position     bigint      UNIQUE,
    type         text        NOT NULL CHECK (type ~ '^[a-z]+\.[a-z_]+$'),
    aggregate_id uuid        NOT NULL,
    revision     bigint      NOT NULL,
    at           timestamptz NOT NULL,
    project_id   uuid,
    data         jsonb       NOT NULL CHECK (jsonb_typeof(data) = 'object'),
    traceparent  text        NOT NULL DEFAULT '',
    UNIQUE (aggregate_id, revision)
);
CREATE INDEX outbox_unstamped ON outbox (seq) WHERE position IS NULL;
CREATE TABLE outbox_head (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    position bigint  NOT NULL DEFAULT 0
);
INSERT INTO outbox_head DEFAULT VALUES;

-- Transitions are data. A new one is migrated in before code uses it.
CREATE TABLE slot_transitions (from_status text, to_status text, PRIMARY KEY (from_status, to_status));
INSERT INTO slot_transitions VALUES
    ('available', 'reserved'), ('reserved', 'provisioning'), ('provisioning', 'active'), ('active', 'releasing'),
    ('releasing', 'cleanup'), ('cleanup', 'available'), ('cleanup', 'disabled'),
    -- the host is proven untouched
    ('reserved', 'available'),
    ('provisioning', 'releasing'),
    -- a host effect is possible and not undone with proof
    ('available', 'cleanup_blocked'), ('reserved', 'cleanup_blocked'), ('provisioning', 'cleanup_blocked'),
    ('active', 'cleanup_blocked'), ('releasing', 'cleanup_blocked'), ('cleanup', 'cleanup_blocked'),
    ('disabled', 'cleanup_blocked'),
    -- repair
    ('cleanup_blocked', 'cleanup'),
    ('available', 'disabled'), ('disabled', 'available'),
    ('disabled', 'retired'), ('cleanup_blocked', 'retired'), ('cleanup', 'retired');
CREATE TABLE allocation_transitions (from_state text, to_state text, PRIMARY KEY (from_state, to_state));
INSERT INTO allocation_transitions VALUES
    ('requested', 'reserved'), ('reserved', 'provisioning'), ('provisioning', 'active'), ('active', 'releasing'),
    ('reserved', 'releasing'), ('provisioning', 'releasing'), ('releasing', 'released'),
    ('requested', 'failed'), ('reserved', 'failed'), ('provisioning', 'failed');
CREATE TABLE claim_transitions (from_state text, to_state text, PRIMARY KEY (from_state, to_state));
INSERT INTO claim_transitions VALUES
    ('reserved', 'provisioning'), ('provisioning', 'active'), ('active', 'releasing'), ('provisioning', 'releasing'),
    ('releasing', 'released'), ('reserved', 'released'), ('cleanup_blocked', 'released'),
    ('reserved', 'cleanup_blocked'), ('provisioning', 'cleanup_blocked'), ('active', 'cleanup_blocked'),
    ('releasing', 'cleanup_blocked');

-- Slots are born disabled: approval is a second step (A-118, A-127). A claim and a repair raise the generation
-- by one, so evidence of an earlier holder never fits; so does taking a free slot out until it is revalidated.
CREATE FUNCTION guard_slot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'disabled' OR NEW.generation <> 0 THEN
            RAISE EXCEPTION 'slot % must be born disabled with generation 0', NEW.id USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.status IS DISTINCT FROM OLD.status AND NOT EXISTS
        (SELECT FROM slot_transitions WHERE from_status = OLD.status AND to_status = NEW.status) THEN
        RAISE EXCEPTION 'slot % cannot go from % to %', NEW.id, OLD.status, NEW.status USING ERRCODE = 'check_violation';
    END IF;
    IF (OLD.status, NEW.status) IN (('available', 'reserved'), ('cleanup_blocked', 'cleanup')) THEN
        IF NEW.generation <> OLD.generation + 1 THEN
            RAISE EXCEPTION 'slot % must raise its generation by one', NEW.id USING ERRCODE = 'check_violation';
        END IF;
    ELSIF NEW.generation <> OLD.generation
          AND NOT (NEW.status = 'disabled' AND OLD.status IN ('available', 'disabled') AND NEW.generation = OLD.generation + 1) THEN
        RAISE EXCEPTION 'slot % cannot change its generation now', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.status = 'available' AND OLD.status <> 'available' AND EXISTS
        (SELECT FROM claims WHERE slot_id = NEW.id AND state <> 'released') THEN
        RAISE EXCEPTION 'slot % is held by a claim', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.updated_at < OLD.updated_at THEN
        RAISE EXCEPTION 'slot % cannot go back in time', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slots_guard BEFORE INSERT OR UPDATE ON slots FOR EACH ROW EXECUTE FUNCTION guard_slot();

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

-- Evidence is about the slot as it is now, and comes before the sale.
CREATE FUNCTION guard_evidence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM slots WHERE id = NEW.slot_id AND generation = NEW.generation
                      AND status IN ('disabled', 'reserved', 'cleanup')) THEN
        RAISE EXCEPTION 'evidence for slot % generation % does not fit the slot', NEW.slot_id, NEW.generation
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER clean_evidence_guard BEFORE INSERT ON clean_evidence FOR EACH ROW EXECUTE FUNCTION guard_evidence();
CREATE TRIGGER clean_evidence_immutable BEFORE UPDATE OR DELETE ON clean_evidence
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

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

-- Grants, least per table and column. Only the scheduler makes claims; only allocation bills and stamps.
GRANT SELECT ON cell, slot_transitions, allocation_transitions, claim_transitions,
    regions, skus, quotas, nodes, slots, clean_evidence, allocations, claims TO gpuaas_scheduler, gpuaas_allocation;

GRANT INSERT, UPDATE ON regions, skus, quotas, nodes TO gpuaas_scheduler;
GRANT INSERT ON slots, clean_evidence, allocations, claims, outbox TO gpuaas_scheduler;
GRANT UPDATE (status, admin_state, admin_reason, generation, clean_generation, host_health, health_detail,
              cleanup_health, revision, updated_at) ON slots TO gpuaas_scheduler;
GRANT UPDATE (state, updated_at) ON claims TO gpuaas_scheduler;

-- a column of the node for its row lock
GRANT UPDATE (updated_at) ON nodes TO gpuaas_allocation;
GRANT UPDATE (status, generation, clean_generation, cleanup_health, health_detail, revision, updated_at) ON slots TO gpuaas_allocation;
GRANT INSERT ON clean_evidence, allocation_periods, outbox TO gpuaas_allocation;
GRANT UPDATE (state, updated_at, released_at) ON claims TO gpuaas_allocation;
GRANT UPDATE (state, power, failure, access, revision, updated_at, active_at, releasing_at, ended_at, deadline_at)
    ON allocations TO gpuaas_allocation;
GRANT SELECT ON allocation_periods, outbox, outbox_head TO gpuaas_allocation;
GRANT UPDATE (ended_at) ON allocation_periods TO gpuaas_allocation;
GRANT UPDATE (position) ON outbox, outbox_head TO gpuaas_allocation;
