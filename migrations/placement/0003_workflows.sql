-- The ledger, part 3 of 5: durable work. Workflows and their steps, the record of every call to a host, and the timeline
-- a user sees. Written in the same transaction as the ledger change that causes it.

-- Bare metal nodes are brought up and erased by workflows of their own kinds.
CREATE DOMAIN workflow_kind AS text CHECK (VALUE IN ('provision', 'provision_node', 'release', 'release_node', 'repair',
                                                     'clean_up', 'stop', 'start', 'reboot'));
CREATE DOMAIN workflow_direction AS text CHECK (VALUE IN ('forward', 'undo'));
CREATE DOMAIN workflow_state AS text CHECK (VALUE IN ('running', 'done', 'failed', 'cancelled'));
CREATE DOMAIN step_state AS text CHECK (VALUE IN ('running', 'done', 'failed'));

-- Whoever takes a workflow's lease gets the next number: epochs grow over all workflows, so the token of a
-- release is always higher than any token of the provision it ends (P6).
CREATE SEQUENCE workflow_epochs AS bigint;

-- Durable work on an allocation or a slot, one step after the other, by whoever has its lease.
CREATE TABLE workflows (
    id               uuid               PRIMARY KEY,
    kind             workflow_kind      NOT NULL,
    allocation_id    uuid               REFERENCES allocations (id),
    slot_id          uuid               REFERENCES slots (id),
    state            workflow_state     NOT NULL DEFAULT 'running',
    -- forward: towards the goal; undo: something failed, effects are undone in reverse order
    direction        workflow_direction NOT NULL DEFAULT 'forward',
    due_at           timestamptz        NOT NULL DEFAULT clock_timestamp(),
    -- the caller's whole window; a call to a host carries what is left of it (INC-22)
    deadline_at      timestamptz        NOT NULL,
    lease_owner      text               NOT NULL DEFAULT '',
    lease_epoch      bigint             NOT NULL DEFAULT 0,
    lease_expires_at timestamptz,
    -- why it failed: {reason, message, step, failure_class, detail}
    failure          jsonb,
    -- what runs now, for the read model: {step, percent, message, steps_done, steps_total}
    progress         jsonb,
    traceparent      text               NOT NULL DEFAULT '',
    request_id       text               NOT NULL DEFAULT '',
    created_at       timestamptz        NOT NULL DEFAULT clock_timestamp(),
    ended_at         timestamptz,
    CONSTRAINT workflows_of_something CHECK (allocation_id IS NOT NULL OR slot_id IS NOT NULL),
    CONSTRAINT workflows_repair_has_slot CHECK ((kind <> 'repair' OR slot_id IS NOT NULL) IS TRUE),
    CONSTRAINT workflows_ended_has_time CHECK ((state = 'running') = (ended_at IS NULL))
);
-- at most one workflow works on an allocation itself, and one on a slot
CREATE UNIQUE INDEX workflows_one_per_allocation ON workflows (allocation_id) WHERE state = 'running' AND slot_id IS NULL;
CREATE UNIQUE INDEX workflows_one_per_slot ON workflows (slot_id) WHERE state = 'running';
CREATE INDEX workflows_due ON workflows (due_at) WHERE state = 'running';
CREATE INDEX workflows_by_allocation ON workflows (allocation_id, created_at);
CREATE INDEX workflows_by_slot ON workflows (slot_id, created_at);

-- The steps of a workflow that were started, and what each of them returned.
CREATE TABLE workflow_steps (
    workflow_id uuid        NOT NULL REFERENCES workflows (id),
    step        text        NOT NULL,
    state       text        NOT NULL CHECK (state IN ('running', 'done', 'failed')),
    -- how often the effect was started
    attempts    integer     NOT NULL DEFAULT 1,
    -- the epoch that wrote the row last
    lease_epoch bigint      NOT NULL,
    output      jsonb       NOT NULL DEFAULT '{}',
    error       jsonb,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    PRIMARY KEY (workflow_id, step)
);

-- The durable record of each call to a host (C-22, C-23, C-26, C-27, C-33).
CREATE TABLE node_tasks (
    -- the operation id sent to the host
    id            uuid        PRIMARY KEY,
    type          text        NOT NULL CHECK (type IN ('slice.vm_provision', 'slice.vm_release', 'slice.vm_clean_up',
                                                       'slice.slot_repair', 'slice.vm_stop', 'slice.vm_start',
                                                       'slice.vm_reboot')),
    workflow_id   uuid        NOT NULL REFERENCES workflows (id),
    allocation_id uuid        REFERENCES allocations (id),
    slot_id       uuid        REFERENCES slots (id),
    node_id       uuid        NOT NULL REFERENCES nodes (id),
    state         text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'failed')),
    -- the request, without secrets (C-31)
    payload       jsonb       NOT NULL DEFAULT '{}',
    -- what the host answered (C-27)
    output        jsonb       NOT NULL DEFAULT '{}',
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    CONSTRAINT node_tasks_ended_has_time CHECK ((state = 'running') = (ended_at IS NULL))
);
CREATE INDEX node_tasks_by_allocation ON node_tasks (allocation_id, created_at);
CREATE INDEX node_tasks_by_node ON node_tasks (node_id, created_at);

-- The last numbers of an allocation's timeline. The row lock makes them grow by one without gaps: a reader that has a number
-- has all before it.
CREATE TABLE timeline_heads (
    allocation_id uuid   PRIMARY KEY REFERENCES allocations (id),
    -- of its entries
    last          bigint NOT NULL,
    -- of the changes of its entries
    changes       bigint NOT NULL DEFAULT 0
);

-- What a user sees happening (C-37..C-40).
CREATE TABLE timeline (
    allocation_id uuid        NOT NULL REFERENCES allocations (id),
    sequence      bigint      NOT NULL,
    -- number of its last change, for those who watch
    change        bigint      NOT NULL,
    step          text        NOT NULL,
    state         step_state  NOT NULL,
    percent       percent     NOT NULL DEFAULT 0,
    message       text        NOT NULL DEFAULT '',
    -- {reason, message} of a step that failed
    error         jsonb,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    PRIMARY KEY (allocation_id, sequence),
    CONSTRAINT timeline_ended_has_time CHECK ((state = 'running') = (ended_at IS NULL))
);
-- a step that is reported again while it runs is the same entry
CREATE UNIQUE INDEX timeline_running_step ON timeline (allocation_id, step) WHERE state = 'running';
CREATE UNIQUE INDEX timeline_changes ON timeline (allocation_id, change);

CREATE FUNCTION number_timeline_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.state, NEW.percent, NEW.message, NEW.error)
                            IS NOT DISTINCT FROM (OLD.state, OLD.percent, OLD.message, OLD.error) THEN
        NEW.change := OLD.change;
        RETURN NEW;
    END IF;
    UPDATE timeline_heads SET changes = changes + 1 WHERE allocation_id = NEW.allocation_id
        RETURNING changes INTO STRICT NEW.change;
    RETURN NEW;
END $$;
CREATE TRIGGER timeline_changes BEFORE INSERT OR UPDATE ON timeline
    FOR EACH ROW EXECUTE FUNCTION number_timeline_change();

GRANT USAGE ON SEQUENCE workflow_epochs TO gpuaas_allocation;
GRANT SELECT, INSERT, UPDATE ON workflows, workflow_steps, node_tasks, timeline_heads, timeline TO gpuaas_allocation;
-- the reserving transaction starts the first workflow and writes the first timeline entry
GRANT SELECT, INSERT ON workflows TO gpuaas_scheduler;
GRANT SELECT, INSERT, UPDATE ON timeline_heads, timeline TO gpuaas_scheduler;
