-- Regions, nodes and their host instances, what hosts report, and what was sent of it to the ledger.

-- Where nodes are; one that is not enabled has a reason.
CREATE TABLE regions (
    code               text        PRIMARY KEY CHECK (code ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    display_name       text        NOT NULL,
    enabled            boolean     NOT NULL,
    unavailable_reason text        NOT NULL,
    revision           bigint      NOT NULL DEFAULT 1,
    create_time        timestamptz NOT NULL DEFAULT clock_timestamp(),
    update_time        timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Nodes as an operator registered them, and the host instance that counts now.
CREATE TABLE nodes (
    id                  uuid        PRIMARY KEY,
    hostname            text        NOT NULL UNIQUE,
    region_code         text        NOT NULL REFERENCES regions (code),
    mode                text        NOT NULL CHECK (mode IN ('slice', 'baremetal')),
    -- 0: no limit.
    max_vms_per_node    integer     NOT NULL CHECK (max_vms_per_node >= 0),
    state               text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'enrolled', 'lost')),
    current_instance_id uuid,
    -- Of the current host instance; its enrolment counts as the first one.
    last_heartbeat_time timestamptz,
    -- As last sent to the ledger: the sweep finds by it what has aged since.
    schedulable         boolean     NOT NULL DEFAULT false,
    revision            bigint      NOT NULL DEFAULT 1,
    create_time         timestamptz NOT NULL DEFAULT clock_timestamp(),
    update_time         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT nodes_pending_has_no_instance CHECK ((state = 'pending') = (current_instance_id IS NULL)),
    CONSTRAINT nodes_pending_has_no_heartbeat CHECK ((state = 'pending') = (last_heartbeat_time IS NULL))
);
-- For the heartbeat monitor.
CREATE INDEX nodes_heartbeat ON nodes (last_heartbeat_time) WHERE state = 'enrolled';

-- One enrolment of an installed image. Only nodes.current_instance_id counts (A-09).
CREATE TABLE host_instances (
    id                      uuid        PRIMARY KEY,
    node_id                 uuid        NOT NULL REFERENCES nodes (id),
    boot_id                 text        NOT NULL,
    machine_id              text        NOT NULL,
    agent_version           text        NOT NULL,
    agent_built_time        timestamptz,
    agent_address           text        NOT NULL CHECK (agent_address <> ''),
    host_profile            text        NOT NULL,
    lab                     boolean     NOT NULL,
    hypervisor              text        NOT NULL,
    -- SHA-256 of the certificate, for revocation lists.
    certificate_digest      bytea       NOT NULL CHECK (octet_length(certificate_digest) = 32),
    certificate_expire_time timestamptz NOT NULL,
    -- SHA-256 of the public key (SubjectPublicKeyInfo in DER) of the latest certificate: the instance is identified by its key
    -- from one certificate to the next.
    public_key_digest       bytea       NOT NULL CHECK (octet_length(public_key_digest) = 32),
    enrol_time              timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (id, node_id)
);
CREATE INDEX host_instances_node ON host_instances (node_id);
ALTER TABLE nodes ADD FOREIGN KEY (current_instance_id, id) REFERENCES host_instances (id, node_id);

-- Single-use tokens, by their SHA-256 only (A-07).
CREATE TABLE enrolment_tokens (
    id           uuid        PRIMARY KEY,
    node_id      uuid        NOT NULL REFERENCES nodes (id),
    token_digest bytea       NOT NULL UNIQUE CHECK (octet_length(token_digest) = 32),
    expire_time  timestamptz NOT NULL,
    -- Set once: by the enrolment that used it, or by a newer token of the node (then without an instance).
    end_time     timestamptz,
    instance_id  uuid        REFERENCES host_instances (id),
    create_time  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT enrolment_tokens_used_has_end CHECK (instance_id IS NULL OR (end_time IS NOT NULL) IS TRUE)
);
-- At most one token of a node can be used.
CREATE UNIQUE INDEX enrolment_tokens_usable ON enrolment_tokens (node_id) WHERE end_time IS NULL;

-- The latest readiness report of a node. It counts only for the instance that made it and only while fresh (INC-04).
CREATE TABLE node_evidence (
    node_id       uuid        PRIMARY KEY REFERENCES nodes (id),
    instance_id   uuid        NOT NULL,
    -- When the host observed it, never later than when the report arrived.
    observed_time timestamptz NOT NULL,
    -- gpuaas.agent.v1.ReadinessReport.
    report        bytea       NOT NULL,
    FOREIGN KEY (instance_id, node_id) REFERENCES host_instances (id, node_id)
);

-- Every call to a host that may take long: the durable record of it, and the queue.
CREATE TABLE node_tasks (
    id               uuid        PRIMARY KEY,
    node_id          uuid        NOT NULL REFERENCES nodes (id),
    task_type        text        NOT NULL CHECK (task_type IN ('slice.topology_discover')),
    state            text        NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'completed', 'failed')),
    -- Instance that is inspected, known once the task runs.
    instance_id      uuid,
    -- Why it failed, for the operator.
    error            text        NOT NULL DEFAULT '',
    -- gpuaas.agent.v1.TopologyReport.
    output           bytea,
    -- The generation of each slot, by index, before the inspection. It proves nothing of a slot whose generation is another
    -- by the time it is approved, because the slot had a tenant meanwhile (P2).
    slot_generations jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(slot_generations) = 'object'),
    traceparent      text        NOT NULL,
    attempts         integer     NOT NULL DEFAULT 0,
    not_before       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Grows with every claim; a late writer of an earlier claim changes no row.
    lease_epoch      bigint      NOT NULL DEFAULT 0,
    lease_until      timestamptz,
    create_time      timestamptz NOT NULL DEFAULT clock_timestamp(),
    end_time         timestamptz,
    FOREIGN KEY (instance_id, node_id) REFERENCES host_instances (id, node_id),
    CONSTRAINT node_tasks_running_has_lease CHECK ((state = 'running') = (lease_until IS NOT NULL)),
    CONSTRAINT node_tasks_ended_has_time CHECK ((state IN ('completed', 'failed')) = (end_time IS NOT NULL)),
    CONSTRAINT node_tasks_completed_has_output CHECK ((state = 'completed') = (output IS NOT NULL)),
    CONSTRAINT node_tasks_completed_has_instance CHECK (state <> 'completed' OR instance_id IS NOT NULL),
    CONSTRAINT node_tasks_failed_has_error CHECK ((state = 'failed') = (error <> ''))
);
CREATE INDEX node_tasks_latest ON node_tasks (node_id, create_time DESC, id DESC);
CREATE INDEX node_tasks_due ON node_tasks (create_time) WHERE state IN ('queued', 'running');
-- At most one inspection of a node is queued; a second request joins it.
CREATE UNIQUE INDEX node_tasks_one_queued ON node_tasks (node_id, task_type) WHERE state = 'queued';

-- Which candidates of which discovery an operator approved (A-88, A-115). The slots themselves live in the ledger.
CREATE TABLE slot_approvals (
    id           uuid        PRIMARY KEY,
    node_id      uuid        NOT NULL REFERENCES nodes (id),
    discovery_id uuid        NOT NULL REFERENCES node_tasks (id),
    slot_indexes integer[]   NOT NULL CHECK (cardinality(slot_indexes) > 0),
    slot_ids     uuid[]      NOT NULL,
    principal    text        NOT NULL,
    create_time  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX slot_approvals_node ON slot_approvals (node_id, create_time);

-- The desired state of the ledger's row of a region or node, written with the change and pushed after it until it arrived.
CREATE TABLE ledger_sync (
    kind                 text        NOT NULL CHECK (kind IN ('region', 'node')),
    key                  text        NOT NULL,
    -- gpuaas.internal.scheduler.v1.PutRegionRequest or PutNodeRequest.
    desired              bytea       NOT NULL,
    -- Grows when `desired` changes.
    version              bigint      NOT NULL DEFAULT 1,
    -- Highest version the ledger has confirmed.
    pushed_version       bigint      NOT NULL DEFAULT 0,
    -- Version at which a reimage was observed: it is sent until the ledger has confirmed that version.
    new_instance_version bigint      NOT NULL DEFAULT 0,
    lease_epoch          bigint      NOT NULL DEFAULT 0,
    lease_until          timestamptz,
    not_before           timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts             integer     NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, key),
    CONSTRAINT ledger_sync_pushed_version CHECK (pushed_version <= version),
    CONSTRAINT ledger_sync_new_instance_version CHECK (new_instance_version <= version)
);
CREATE INDEX ledger_sync_due ON ledger_sync (not_before) WHERE pushed_version < version;

-- The last number that was assigned to a difference.
CREATE TABLE watch_head (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    position bigint  NOT NULL DEFAULT 0
);
INSERT INTO watch_head DEFAULT VALUES;

-- What watchers of hosts go by: every host and slot with a digest of how it was last observed, under a number that grows
-- with every difference. A host's own clock and its heartbeats are not part of the digest.
CREATE TABLE watched (
    kind           text   NOT NULL CHECK (kind IN ('node', 'slot')),
    id             uuid   NOT NULL,
    digest         bytea  NOT NULL CHECK (octet_length(digest) = 32),
    -- of the last difference, and of the first observation
    position       bigint NOT NULL UNIQUE,
    first_position bigint NOT NULL,
    PRIMARY KEY (kind, id),
    CONSTRAINT watched_first_position CHECK (first_position <= position)
);

GRANT SELECT, INSERT ON regions, nodes, host_instances, enrolment_tokens, node_evidence, node_tasks, slot_approvals,
    ledger_sync, watched TO gpuaas_inventory;
GRANT SELECT ON watch_head TO gpuaas_inventory;
GRANT UPDATE (display_name, enabled, unavailable_reason, revision, update_time) ON regions TO gpuaas_inventory;
GRANT UPDATE (state, current_instance_id, last_heartbeat_time, schedulable, revision, update_time) ON nodes TO gpuaas_inventory;
GRANT UPDATE (boot_id, agent_version, agent_address, host_profile, lab, hypervisor, certificate_digest,
              certificate_expire_time, public_key_digest) ON host_instances TO gpuaas_inventory;
GRANT UPDATE (end_time, instance_id) ON enrolment_tokens TO gpuaas_inventory;
GRANT UPDATE (instance_id, observed_time, report) ON node_evidence TO gpuaas_inventory;
GRANT UPDATE (state, instance_id, error, output, slot_generations, attempts, not_before, lease_epoch, lease_until, end_time)
    ON node_tasks TO gpuaas_inventory;
GRANT UPDATE (desired, version, pushed_version, new_instance_version, lease_epoch, lease_until, not_before, attempts)
    ON ledger_sync TO gpuaas_inventory;
GRANT UPDATE (position) ON watch_head TO gpuaas_inventory;
GRANT UPDATE (digest, position) ON watched TO gpuaas_inventory;
