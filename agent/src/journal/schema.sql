-- Journal of one host. Every row is written before the effect it speaks of, or with the proof after it.

-- Slot bound to an allocation until release proof or repair; survives reboots.
CREATE TABLE IF NOT EXISTS holds (
    slot_id       TEXT PRIMARY KEY,
    allocation_id TEXT NOT NULL,
    -- A clone onto the slot's disk has begun: the disk may hold this allocation's bytes.
    touched       INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Highest fencing token observed per slot; it outlives holds. A generation that ended with proof is closed.
CREATE TABLE IF NOT EXISTS fences (
    slot_id             TEXT PRIMARY KEY,
    cell_epoch          INTEGER NOT NULL,
    slot_generation     INTEGER NOT NULL,
    workflow_epoch      INTEGER NOT NULL,
    closed_cell_epoch   INTEGER,
    closed_generation   INTEGER
) STRICT;

-- Right to new effects, by the clock of one boot.
CREATE TABLE IF NOT EXISTS leases (
    lease_id      TEXT PRIMARY KEY,
    allocation_id TEXT NOT NULL,
    boot_id       TEXT NOT NULL,
    expires_nanos INTEGER NOT NULL,
    -- gpuaas.agent.v1.AcquireLeaseRequest and BundlePlan.
    request       BLOB NOT NULL,
    plan          BLOB NOT NULL
) STRICT;

CREATE TABLE IF NOT EXISTS lease_slots (
    slot_id  TEXT PRIMARY KEY,
    lease_id TEXT NOT NULL REFERENCES leases (lease_id) ON DELETE CASCADE
) STRICT;

-- Disk, GPU and fabric function that a slot was last held with.
CREATE TABLE IF NOT EXISTS slot_devices (
    slot_id TEXT NOT NULL,
    device  TEXT NOT NULL,
    PRIMARY KEY (slot_id, device)
) STRICT;
CREATE INDEX IF NOT EXISTS slot_devices_device ON slot_devices (device);

CREATE TABLE IF NOT EXISTS operations (
    operation_id  TEXT PRIMARY KEY,
    kind          TEXT NOT NULL,
    allocation_id TEXT NOT NULL,
    -- The caller's message, and a hash of what in it must not change between calls.
    request       BLOB NOT NULL,
    request_hash  TEXT NOT NULL,
    -- The lease as it was when the operation began.
    lease_request BLOB NOT NULL,
    plan          BLOB NOT NULL,
    traceparent   TEXT NOT NULL,
    state         TEXT NOT NULL,
    -- JSON of the failure; set before the undo begins.
    failure       TEXT,
    -- gpuaas.agent.v1.HostOperation with the results.
    result        BLOB,
    boot_id       TEXT NOT NULL,
    deadline_nanos INTEGER NOT NULL,
    started_ms    INTEGER NOT NULL,
    ended_ms      INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS operations_running ON operations (state) WHERE state = 'running';

CREATE INDEX IF NOT EXISTS operations_of_allocations ON operations (allocation_id, kind);
-- what stood there before it
DROP INDEX IF EXISTS operations_launches;
CREATE INDEX IF NOT EXISTS operations_ended ON operations (ended_ms) WHERE state <> 'running';
-- What removes a failed VM had another name before.
UPDATE operations SET kind = 'clean_up' WHERE kind = 'discard';

CREATE TABLE IF NOT EXISTS steps (
    operation_id TEXT NOT NULL REFERENCES operations (operation_id) ON DELETE CASCADE,
    position     INTEGER NOT NULL,
    name         TEXT NOT NULL,
    state        TEXT NOT NULL,
    percent      INTEGER NOT NULL DEFAULT 0,
    message      TEXT NOT NULL DEFAULT '',
    output       TEXT NOT NULL DEFAULT 'null',
    started_ms   INTEGER,
    ended_ms     INTEGER,
    PRIMARY KEY (operation_id, position)
) STRICT;

-- State that the last operation left an allocation's VM in, and the boot in which it did. No row: unknown.
CREATE TABLE IF NOT EXISTS power (
    allocation_id TEXT PRIMARY KEY,
    running       INTEGER NOT NULL,
    boot_id       TEXT NOT NULL
) STRICT;

-- Cached image files whose digest this host computed, by what the file was then.
CREATE TABLE IF NOT EXISTS images (
    digest      TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    -- Last use; 0 where no agent has noted one.
    used_ms     INTEGER NOT NULL DEFAULT 0
) STRICT;

-- NVSwitch partition that an allocation has, or may have: written before it is activated, deleted after it is
-- deactivated. It is what Fabric Manager is told after its restart.
CREATE TABLE IF NOT EXISTS gpu_partitions (
    partition_id  INTEGER PRIMARY KEY,
    allocation_id TEXT NOT NULL UNIQUE,
    -- JSON of the module ids of its GPUs; none by an older agent.
    modules       TEXT NOT NULL DEFAULT '[]'
) STRICT;

-- What leads from outside to an allocation's VM: a row before the rules, deleted before the VM's address can be another's.
CREATE TABLE IF NOT EXISTS ingress (
    allocation_id TEXT PRIMARY KEY,
    -- gpuaas.agent.v1.AllocationIngress.
    wanted        BLOB NOT NULL
) STRICT;

-- What was measured of each VM in its last hour, from an orderly end of the agent to its next start.
CREATE TABLE IF NOT EXISTS measured (
    allocation_id TEXT PRIMARY KEY,
    -- gpuaas.agent.v1.ReadMetricsResponse.
    series        BLOB NOT NULL
) STRICT;
