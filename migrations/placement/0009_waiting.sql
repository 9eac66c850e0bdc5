-- Requests that wait for capacity. An allocation in state `requested` is one of them; this is what else is known of
-- it. The order in which they are served follows from these rows, so a restart of the scheduler loses nothing.

-- the owner gives up waiting: no host was touched, no claim was made
INSERT INTO allocation_transitions VALUES ('requested', 'released');
ALTER TABLE allocations DROP CONSTRAINT allocations_check1,
    ADD CONSTRAINT allocations_placed CHECK (node_id IS NOT NULL OR state IN ('requested', 'failed')
        OR (state = 'released' AND releasing_at IS NULL AND active_at IS NULL)),
    -- nobody waits for ever
    ADD CONSTRAINT allocations_wait_ends CHECK (state <> 'requested' OR deadline_at IS NOT NULL);
CREATE INDEX allocations_waiting ON allocations (region_code, project_id) WHERE state = 'requested';

-- The operator's word on how a project's waiting requests are ordered; none: normal.
CREATE TABLE project_priorities (
    project_id uuid        PRIMARY KEY,
    priority   text        NOT NULL CHECK (priority IN ('low', 'normal', 'high')),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE queued_allocations (
    allocation_id uuid  PRIMARY KEY REFERENCES allocations (id),
    -- allocations of one request share it; they are served together
    ticket        uuid  NOT NULL,
    -- with the region: the line it stands in
    slot_class    text  NOT NULL CHECK (slot_class IN ('h200_sxm', 'lab')),
    -- where it may be placed
    constraints   jsonb NOT NULL CHECK (jsonb_typeof(constraints) = 'object'),
    -- name of an ErrorReason without prefix: why it was not served when it was last looked at
    reason        text  NOT NULL CHECK (reason <> '')
);
CREATE INDEX queued_allocations_batch ON queued_allocations (ticket);

-- The ring of the projects of a line: the lowest turn is next, and goes to the end when it was served or joins.
CREATE SEQUENCE fair_share_sequence AS bigint;
CREATE TABLE fair_share (
    region_code text   NOT NULL REFERENCES regions (code),
    slot_class  text   NOT NULL,
    project_id  uuid   NOT NULL,
    turn        bigint NOT NULL,
    PRIMARY KEY (region_code, slot_class, project_id)
);

-- Nodes that are kept for the first of a line that does not fit now: nothing behind it is placed there.
CREATE TABLE backfill_reservations (
    region_code text NOT NULL REFERENCES regions (code),
    slot_class  text NOT NULL,
    node_id     uuid NOT NULL REFERENCES nodes (id),
    ticket      uuid NOT NULL,
    PRIMARY KEY (region_code, slot_class, node_id)
);

GRANT SELECT ON project_priorities, queued_allocations, fair_share, backfill_reservations TO gpuaas_scheduler, gpuaas_allocation;
GRANT INSERT, UPDATE ON project_priorities, fair_share TO gpuaas_scheduler;
GRANT INSERT, UPDATE (reason) ON queued_allocations TO gpuaas_scheduler;
GRANT INSERT, DELETE ON backfill_reservations TO gpuaas_scheduler;
GRANT USAGE ON SEQUENCE fair_share_sequence TO gpuaas_scheduler;

-- Takes an allocation out of its line: placed on a node, before its deadline, or failed. False when it has left it
-- already. The scheduler may move an allocation in no other way.
CREATE FUNCTION dequeue(allocation uuid, to_state text, node uuid, why jsonb, window_seconds double precision)
    RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH gone AS (
        UPDATE allocations SET state = to_state, node_id = node, failure = why, revision = revision + 1,
               updated_at = greatest(clock_timestamp(), updated_at),
               ended_at = CASE WHEN to_state = 'failed' THEN greatest(clock_timestamp(), updated_at) END,
               deadline_at = CASE WHEN to_state = 'reserved' THEN clock_timestamp() + make_interval(secs => window_seconds) END
         WHERE id = allocation AND state = 'requested'
           AND (to_state = 'failed' OR to_state = 'reserved' AND deadline_at > clock_timestamp())
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM gone)
$$;
REVOKE ALL ON FUNCTION dequeue(uuid, text, uuid, jsonb, double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dequeue(uuid, text, uuid, jsonb, double precision) TO gpuaas_scheduler;
