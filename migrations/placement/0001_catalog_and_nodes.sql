-- The ledger, part 1 of 5: what is offered, and on which nodes and slots.
--
-- The four parts are one baseline. Their constraints are the promises: a GPU is never allocated twice (P1), no slot is
-- available without clean evidence of its own generation (P2), and a transition that is not in a table of transitions
-- is refused. A CHECK that can meet a NULL uses IS TRUE or IS NOT FALSE, because NULL passes a CHECK.
--
-- On tables that are written often, a rule about one column is a domain and not a CHECK: PostgreSQL parses every CHECK of
-- a table again for each statement that writes a row and runs all of them, whatever column changed. A domain is parsed
-- once per connection and runs only for values that are written.
CREATE DOMAIN non_negative_integer AS integer CHECK (VALUE >= 0);
CREATE DOMAIN non_negative_bigint AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN positive_integer AS integer CHECK (VALUE > 0);
CREATE DOMAIN positive_bigint AS bigint CHECK (VALUE > 0);
CREATE DOMAIN percent AS smallint CHECK (VALUE BETWEEN 0 AND 100);
CREATE DOMAIN non_empty_text AS text CHECK (VALUE <> '');
CREATE DOMAIN json_object AS jsonb CHECK (jsonb_typeof(VALUE) = 'object');
CREATE DOMAIN dns_label AS text CHECK (VALUE ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$');

CREATE DOMAIN slot_class AS text CHECK (VALUE IN ('h200_sxm', 'lab'));
CREATE DOMAIN slot_admin_state AS text CHECK (VALUE IN ('enabled', 'disabled'));
CREATE DOMAIN pci_address AS text CHECK (VALUE = '' OR VALUE ~ '^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$');
CREATE DOMAIN mac_address AS text CHECK (VALUE ~ '^(([0-9a-f]{2}:){5}[0-9a-f]{2})?$');
CREATE DOMAIN ip_address AS text CHECK (VALUE = '' OR VALUE = host(VALUE::inet));
-- a kernel name such as /dev/nvme0n1 or /dev/loop3 is no identity (A-110)
CREATE DOMAIN disk_identity AS text CHECK (VALUE = '' OR VALUE ~ '^/dev/disk/by-id/[^/]+$'
    OR VALUE ~ '^lab-disk:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$');
CREATE DOMAIN disk_identity_kind AS text CHECK (VALUE IN ('', 'nvme_wwn_by_id', 'lab_backing_file'));
CREATE DOMAIN wipe_policy AS text CHECK (VALUE IN ('', 'blkdiscard', 'nvme_format', 'site_erase'));

-- in ascending order of severity
CREATE TYPE health AS ENUM ('healthy', 'unknown', 'degraded', 'failed');

-- Every value of allowed_gpu_counts is positive, none occurs twice.
CREATE FUNCTION are_gpu_counts(counts integer[]) RETURNS boolean LANGUAGE sql IMMUTABLE
    RETURN cardinality(counts) > 0 AND (SELECT bool_and(n > 0) AND count(*) = count(DISTINCT n) FROM unnest(counts) AS n);

-- The first eight bytes of each digest: enough to tell images apart, and short where thousands of nodes are read. What
-- is started is proven by its full digest on the host, whatever placement assumed.
CREATE FUNCTION image_keys(digests text[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE
    RETURN ARRAY (SELECT ('x' || substr(digest, 8, 16))::bit(64)::bigint FROM unnest(digests) AS d (digest));

-- The epoch of the ledger: the first part of every fencing token. The restore runbook raises it.
CREATE TABLE cell (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch    bigint  NOT NULL DEFAULT 1 CHECK (epoch >= 1)
);
INSERT INTO cell DEFAULT VALUES;

-- The ledger's own row per region. Nothing is placed in a region that is not enabled.
CREATE TABLE regions (
    code       text        PRIMARY KEY CHECK (code ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'),
    enabled    boolean     NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What can be launched: a shape, a class of slots, and what a VM gets per GPU.
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
    -- lab capacity is offered as lab capacity and as nothing else
    CONSTRAINT skus_lab_is_lab CHECK ((slot_class = 'lab') = (code = 'lab-slice')),
    CONSTRAINT skus_price_is_whole
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

-- How many allocations a project may hold, of all SKUs together; NULL: the service's default. The row is the first lock of
-- whatever counts against a quota of the project: launches of different SKUs count one after the other.
CREATE TABLE project_quotas (
    project_id      uuid                 PRIMARY KEY,
    max_allocations non_negative_integer,
    updated_at      timestamptz          NOT NULL DEFAULT clock_timestamp()
);

-- The ledger's own row per node. Whoever takes capacity of a node or returns it locks this row first.
CREATE TABLE nodes (
    id                     uuid        PRIMARY KEY,
    hostname               text        NOT NULL CHECK (hostname <> ''),
    region_code            text        NOT NULL REFERENCES regions (code),
    -- what its live claims make of it
    mode                   text        NOT NULL CHECK (mode IN ('slice', 'baremetal')),
    -- the mode that it returns to when its claims end; NULL: the mode it has
    intended_mode          text        CHECK ((intended_mode IN ('slice', 'baremetal')) IS NOT FALSE),
    generation             bigint      NOT NULL DEFAULT 1 CHECK (generation >= 1),
    -- the operator's intent, why, and since when
    admin_state            text        NOT NULL DEFAULT 'enabled' CHECK (admin_state IN ('enabled', 'cordoned', 'draining')),
    admin_reason           text        NOT NULL DEFAULT '' CHECK (length(admin_reason) <= 500),
    admin_at               timestamptz,
    agent_address          text        NOT NULL,
    instance_id            uuid        NOT NULL,
    lab                    boolean     NOT NULL,
    host_health            health      NOT NULL,
    schedulable            boolean     NOT NULL,
    not_schedulable_reason text        NOT NULL DEFAULT '',
    -- 0: no limit
    max_vms                integer     NOT NULL DEFAULT 0 CHECK (max_vms >= 0),
    -- [[module ids], …]
    legal_groups           jsonb       NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(legal_groups) = 'array'),
    hugepages_1g_free      integer     NOT NULL DEFAULT 0 CHECK (hugepages_1g_free >= 0),
    -- Allocations whose VMs had their hugepages when the host counted the free ones. Every other VM on the node still
    -- takes its hugepages from the free ones, so a second launch does not count on them (B-11).
    hugepages_allocated_to uuid[]      NOT NULL DEFAULT '{}'
        CONSTRAINT nodes_hugepages_allocated_to CHECK (array_position(hugepages_allocated_to, NULL) IS NULL),
    -- images that the host reported as verified in its cache: placement prefers such nodes, and requires one when the
    -- launch does (CON-10, E-05)
    image_digests          text[]      NOT NULL DEFAULT '{}'
        CONSTRAINT nodes_image_digests CHECK ((cardinality(image_digests) = 0
            OR cardinality(image_digests) <= 1000 AND array_position(image_digests, NULL) IS NULL
               AND array_to_string(image_digests, ',') ~ '^sha256:[0-9a-f]{64}(,sha256:[0-9a-f]{64})*$') IS TRUE),
    image_keys             bigint[]    NOT NULL GENERATED ALWAYS AS (image_keys(image_digests)) STORED,
    -- transaction of the last change that placement sees, see node_slot_changes
    changed_by             xid8        NOT NULL DEFAULT pg_current_xact_id(),
    created_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (id, mode)
);
CREATE INDEX nodes_region ON nodes (region_code);
CREATE INDEX nodes_changed ON nodes (changed_by);

-- A bundle of one GPU with its disk, network and fabric bindings on one node: the unit that is claimed.
CREATE TABLE slots (
    id                      uuid                 PRIMARY KEY,
    node_id                 uuid                 NOT NULL REFERENCES nodes (id),
    slot_index              non_negative_integer NOT NULL,
    class                   slot_class           NOT NULL,
    status                  text                 NOT NULL DEFAULT 'disabled',
    retired                 boolean              GENERATED ALWAYS AS (status = 'retired') STORED,
    -- the operator's intent; a slot in use follows it after its cleanup
    admin_state             slot_admin_state     NOT NULL DEFAULT 'enabled',
    admin_reason            text                 NOT NULL DEFAULT '',
    -- raised by every claim and repair
    generation              non_negative_bigint  NOT NULL DEFAULT 0,
    clean_generation        bigint,
    clean_reusable          boolean              GENERATED ALWAYS AS (CASE WHEN clean_generation IS NOT NULL THEN true END) STORED,
    -- two writers, one value
    host_health             health               NOT NULL DEFAULT 'unknown',
    cleanup_health          health               NOT NULL DEFAULT 'healthy',
    health_state            health               GENERATED ALWAYS AS (greatest(host_health, cleanup_health)) STORED,
    health_detail           text                 NOT NULL DEFAULT '',
    -- bindings: approved once, empty text is "none"
    gpu_pci_address         pci_address          NOT NULL DEFAULT '',
    gpu_module_id           non_negative_integer,
    numa_node               non_negative_integer,
    nvme_device             disk_identity        NOT NULL DEFAULT '',
    storage_identity_kind   disk_identity_kind   NOT NULL DEFAULT '',
    nvme_bytes              non_negative_bigint  NOT NULL DEFAULT 0,
    management_mac          mac_address          NOT NULL DEFAULT '',
    private_ip              ip_address           NOT NULL DEFAULT '',
    fabric_device           text                 NOT NULL DEFAULT '',
    fabric_vf_pci_address   pci_address          NOT NULL DEFAULT '',
    fabric_claim_mode       text                 NOT NULL DEFAULT '',
    destructive_wipe_policy wipe_policy          NOT NULL DEFAULT '',
    revision                non_negative_bigint  NOT NULL DEFAULT 0,
    created_at              timestamptz          NOT NULL DEFAULT clock_timestamp(),
    updated_at              timestamptz          NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (id, node_id),
    UNIQUE (id, class),
    UNIQUE (node_id, slot_index),
    -- the emulated disk exists in the emulated class only
    CONSTRAINT slots_lab_disk_is_lab CHECK (class = 'lab' OR storage_identity_kind <> 'lab_backing_file'),
    CONSTRAINT slots_lab_has_no_gpu CHECK (class <> 'lab' OR gpu_pci_address = ''),
    -- clean before it is available (P2)
    CONSTRAINT slots_available_is_clean CHECK ((status <> 'available' OR clean_generation = generation) IS TRUE),
    -- complete before it is available (A-117, A-122, INC-40)
    CONSTRAINT slots_available_is_complete CHECK ((status <> 'available'
        OR (management_mac <> '' AND private_ip <> '' AND destructive_wipe_policy <> '' AND nvme_bytes > 0
            AND CASE class
                WHEN 'lab' THEN storage_identity_kind = 'lab_backing_file' AND nvme_device LIKE 'lab-disk:%'
                ELSE storage_identity_kind = 'nvme_wwn_by_id' AND nvme_device LIKE '/dev/disk/by-id/%'
                     AND gpu_pci_address <> '' AND fabric_claim_mode = 'per_slot_vf' AND fabric_vf_pci_address <> ''
                END)) IS TRUE)
) WITH (fillfactor = 70);
-- A slot that changes its status stays on its page with its indexes untouched: their conditions depend on whether it is
-- retired, not on its status, and the fill factor leaves space for the next version of the row.
CREATE UNIQUE INDEX slots_own_gpu ON slots (node_id, gpu_pci_address) WHERE gpu_pci_address <> '' AND NOT retired;
CREATE UNIQUE INDEX slots_own_disk ON slots (node_id, nvme_device) WHERE nvme_device <> '' AND NOT retired;
CREATE UNIQUE INDEX slots_own_mac ON slots (node_id, management_mac) WHERE management_mac <> '' AND NOT retired;
CREATE UNIQUE INDEX slots_own_ip ON slots (node_id, private_ip) WHERE private_ip <> '' AND NOT retired;
CREATE UNIQUE INDEX slots_own_fabric_vf ON slots (node_id, fabric_vf_pci_address)
    WHERE fabric_vf_pci_address <> '' AND NOT retired;

-- Proof that a slot holds no tenant data, once per generation. Never changes.
CREATE TABLE clean_evidence (
    slot_id    uuid        NOT NULL REFERENCES slots (id),
    generation bigint      NOT NULL,
    kind       text        NOT NULL CHECK (kind IN ('approved', 'wiped', 'untouched', 'destroyed')),
    -- a destroyed device proves that no data is left, but cannot be used again
    reusable   boolean     GENERATED ALWAYS AS (kind <> 'destroyed') STORED,
    method     text        NOT NULL,
    detail     jsonb       NOT NULL DEFAULT '{}',
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (slot_id, generation),
    UNIQUE (slot_id, generation, reusable)
);
ALTER TABLE slots ADD CONSTRAINT slots_clean_evidence
    FOREIGN KEY (id, clean_generation, clean_reusable) REFERENCES clean_evidence (slot_id, generation, reusable);

-- Legal changes of a slot's status. Transitions are data: a script adds a new one before code uses it.
CREATE TABLE slot_transitions (from_status text, to_status text, PRIMARY KEY (from_status, to_status));
INSERT INTO slot_transitions VALUES
    ('available', 'reserved'), ('reserved', 'provisioning'), ('provisioning', 'active'), ('active', 'releasing'),
    ('releasing', 'cleanup'), ('cleanup', 'available'), ('cleanup', 'disabled'),
    -- the host is proven untouched
    ('reserved', 'available'),
    ('provisioning', 'releasing'),
    -- an effect on the host is possible, and nothing proves that it was undone
    ('available', 'cleanup_blocked'), ('reserved', 'cleanup_blocked'), ('provisioning', 'cleanup_blocked'),
    ('active', 'cleanup_blocked'), ('releasing', 'cleanup_blocked'), ('cleanup', 'cleanup_blocked'),
    ('disabled', 'cleanup_blocked'),
    -- repair
    ('cleanup_blocked', 'cleanup'),
    ('available', 'disabled'), ('disabled', 'available'),
    ('disabled', 'retired'), ('cleanup_blocked', 'retired'), ('cleanup', 'retired');

-- A slot begins disabled: approval is a second step (A-118, A-127). A claim and a repair raise the generation
-- by one, so evidence of an earlier holder never fits; so does taking a free slot out until it is revalidated.
CREATE FUNCTION guard_slot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.status <> 'disabled' OR NEW.generation <> 0 THEN
            RAISE EXCEPTION 'slot % must begin as disabled with generation 0', NEW.id USING ERRCODE = 'check_violation';
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
        RAISE EXCEPTION 'slot % has a live claim', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.updated_at < OLD.updated_at THEN
        RAISE EXCEPTION 'slot % cannot go back in time', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slots_guard BEFORE INSERT OR UPDATE ON slots FOR EACH ROW EXECUTE FUNCTION guard_slot();

-- Evidence is about the slot as it is now, and is written before the slot becomes available.
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

-- Grants, least per table and column. Only the scheduler takes nodes and slots in.
GRANT SELECT ON cell, regions, skus, quotas, nodes, slots, clean_evidence, slot_transitions
    TO gpuaas_scheduler, gpuaas_allocation;
GRANT INSERT, UPDATE ON regions, skus, quotas, nodes TO gpuaas_scheduler;
GRANT SELECT, INSERT, UPDATE ON project_quotas TO gpuaas_scheduler;
GRANT INSERT ON slots, clean_evidence TO gpuaas_scheduler;
GRANT UPDATE (status, admin_state, admin_reason, generation, clean_generation, host_health, health_detail,
              cleanup_health, revision, updated_at) ON slots TO gpuaas_scheduler;
-- A bare metal node returns to its intended mode in the transaction of the release; `updated_at` is for the row lock.
GRANT UPDATE (mode, generation, updated_at) ON nodes TO gpuaas_allocation;
GRANT INSERT ON clean_evidence TO gpuaas_allocation;
GRANT UPDATE (status, generation, clean_generation, cleanup_health, health_detail, revision, updated_at) ON slots
    TO gpuaas_allocation;
