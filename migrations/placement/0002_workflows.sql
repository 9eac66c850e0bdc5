-- Durable work of the placement ledger: workflows and their steps, the record of every call to a host, and
-- the timeline a user sees. Written in the same transaction as the ledger change that causes it.

-- Every taking of a workflow's lease gets the next number: epochs grow over all workflows, so the token of a
-- release is always higher than any token of the provision it ends (P6).
CREATE SEQUENCE placement.workflow_epochs AS bigint;

CREATE TABLE placement.workflows (
    id               uuid PRIMARY KEY,
    kind             text NOT NULL CHECK (kind IN ('provision', 'release', 'repair', 'clean_up')),
    allocation_id    uuid REFERENCES placement.allocations (id),
    slot_id          uuid REFERENCES placement.slots (id),
    state            text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
    -- forward: towards the goal; undo: something failed, effects are taken back in reverse order
    direction        text NOT NULL DEFAULT 'forward' CHECK (direction IN ('forward', 'undo')),
    due_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- the caller's whole window; a call to a host carries what is left of it (INC-22)
    deadline_at      timestamptz NOT NULL,
    lease_owner      text NOT NULL DEFAULT '',
    lease_epoch      bigint NOT NULL DEFAULT 0,
    lease_expires_at timestamptz,
    -- why it failed: {reason, message, step, failure_class, detail}
    failure          jsonb,
    -- what runs now, for the read model: {step, percent, message, steps_done, steps_total}
    progress         jsonb,
    traceparent      text NOT NULL DEFAULT '',
    request_id       text NOT NULL DEFAULT '',
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at         timestamptz,
    CHECK (allocation_id IS NOT NULL OR slot_id IS NOT NULL),
    CHECK ((state = 'running') = (ended_at IS NULL)),
    CHECK ((kind <> 'repair' OR slot_id IS NOT NULL) IS TRUE)
);

-- at most one workflow works on an allocation as a whole, and one on a slot
CREATE UNIQUE INDEX workflows_one_per_allocation ON placement.workflows (allocation_id)
    WHERE state = 'running' AND slot_id IS NULL;
CREATE UNIQUE INDEX workflows_one_per_slot ON placement.workflows (slot_id) WHERE state = 'running';
CREATE INDEX workflows_due ON placement.workflows (due_at) WHERE state = 'running';
CREATE INDEX workflows_by_allocation ON placement.workflows (allocation_id, created_at);
CREATE INDEX workflows_by_slot ON placement.workflows (slot_id, created_at);

CREATE TABLE placement.workflow_steps (
    workflow_id uuid NOT NULL REFERENCES placement.workflows (id),
    step        text NOT NULL,
    state       text NOT NULL CHECK (state IN ('running', 'done', 'failed')),
    -- how often the effect was started
    attempts    integer NOT NULL DEFAULT 1,
    -- the epoch that wrote the row last
    lease_epoch bigint NOT NULL,
    output      jsonb NOT NULL DEFAULT '{}',
    error       jsonb,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    PRIMARY KEY (workflow_id, step)
);

-- The durable record of each call to a host (C-22, C-23, C-26, C-27, C-33).
CREATE TABLE placement.node_tasks (
    -- the operation id that the host is given
    id            uuid PRIMARY KEY,
    type          text NOT NULL CHECK (type IN ('slice.vm_provision', 'slice.vm_release', 'slice.vm_clean_up',
                                                'slice.slot_repair')),
    workflow_id   uuid NOT NULL REFERENCES placement.workflows (id),
    allocation_id uuid REFERENCES placement.allocations (id),
    slot_id       uuid REFERENCES placement.slots (id),
    node_id       uuid NOT NULL REFERENCES placement.nodes (id),
    state         text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'failed')),
    -- what was asked, without secrets (C-31)
    payload       jsonb NOT NULL DEFAULT '{}',
    -- what the host answered (C-27)
    output        jsonb NOT NULL DEFAULT '{}',
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    CHECK ((state = 'running') = (ended_at IS NULL))
);
CREATE INDEX node_tasks_by_allocation ON placement.node_tasks (allocation_id, created_at);
CREATE INDEX node_tasks_by_node ON placement.node_tasks (node_id, created_at);

-- What a user sees happening (C-37..C-40). `timeline_heads` hands out the numbers: its row lock makes them
-- grow by one without gaps.
CREATE TABLE placement.timeline_heads (
    allocation_id uuid PRIMARY KEY REFERENCES placement.allocations (id),
    last          bigint NOT NULL
);
CREATE TABLE placement.timeline (
    allocation_id uuid NOT NULL REFERENCES placement.allocations (id),
    sequence      bigint NOT NULL,
    step          text NOT NULL,
    state         text NOT NULL CHECK (state IN ('running', 'done', 'failed')),
    percent       smallint NOT NULL DEFAULT 0 CHECK (percent BETWEEN 0 AND 100),
    message       text NOT NULL DEFAULT '',
    -- {reason, message} of a step that failed
    error         jsonb,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    PRIMARY KEY (allocation_id, sequence),
    CHECK ((state = 'running') = (ended_at IS NULL))
);
-- a step that is told of again while it runs is the same entry
CREATE UNIQUE INDEX timeline_running_step ON placement.timeline (allocation_id, step) WHERE state = 'running';

GRANT USAGE ON SEQUENCE placement.workflow_epochs TO gpuaas_allocation;
GRANT SELECT, INSERT, UPDATE ON placement.workflows, placement.workflow_steps, placement.node_tasks,
    placement.timeline_heads, placement.timeline TO gpuaas_allocation;
-- the reserving transaction starts the first workflow and writes the first timeline entry
GRANT SELECT, INSERT ON placement.workflows TO gpuaas_scheduler;
GRANT SELECT, INSERT, UPDATE ON placement.timeline_heads, placement.timeline TO gpuaas_scheduler;
