-- Rollouts of the agent: which version each node is brought to, wave by wave.
CREATE TABLE agent_rollouts (
    id                   uuid        PRIMARY KEY,
    -- Empty for a rollback: each node has its own.
    version              text        NOT NULL,
    digest               text        NOT NULL,
    size_bytes           bigint      NOT NULL,
    rollback_of          uuid        REFERENCES agent_rollouts (id),
    state                text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'paused', 'completed', 'aborted')),
    state_reason         text        NOT NULL DEFAULT '',
    max_failures         integer     NOT NULL CHECK (max_failures >= 0),
    max_parallel         integer     NOT NULL CHECK (max_parallel > 0),
    node_timeout_seconds integer     NOT NULL CHECK (node_timeout_seconds > 0),
    current_wave         integer     NOT NULL DEFAULT 1 CHECK (current_wave > 0),
    principal            text        NOT NULL,
    reason               text        NOT NULL,
    revision             bigint      NOT NULL DEFAULT 1,
    create_time          timestamptz NOT NULL DEFAULT clock_timestamp(),
    end_time             timestamptz,
    CONSTRAINT agent_rollouts_ended_has_time CHECK ((state IN ('completed', 'aborted')) = (end_time IS NOT NULL)),
    CONSTRAINT agent_rollouts_update_has_package CHECK (
        (rollback_of IS NULL) = (version <> '' AND digest ~ '^sha256:[0-9a-f]{64}$' AND size_bytes > 0))
);
-- One at a time: two would undo each other.
CREATE UNIQUE INDEX agent_rollouts_one_live ON agent_rollouts ((true)) WHERE end_time IS NULL;

CREATE TABLE agent_rollout_nodes (
    rollout_id      uuid        NOT NULL REFERENCES agent_rollouts (id),
    node_id         uuid        NOT NULL REFERENCES nodes (id),
    wave            integer     NOT NULL CHECK (wave > 0),
    -- What it is brought to.
    version         text        NOT NULL CHECK (version <> ''),
    -- What it was before its turn.
    from_version    text        NOT NULL DEFAULT '',
    state           text        NOT NULL DEFAULT 'pending'
                                CHECK (state IN ('pending', 'updating', 'succeeded', 'failed', 'skipped')),
    reason          text        NOT NULL DEFAULT '',
    -- Its readiness was green before its turn, so it must be afterwards.
    was_ready       boolean     NOT NULL DEFAULT false,
    -- Failed before an operator went on: it counts against the limit no more.
    accepted        boolean     NOT NULL DEFAULT false,
    -- What the host last said of this attempt: a name of AgentUpdateState.
    attempt         integer     NOT NULL DEFAULT 0,
    reported_state  text        NOT NULL DEFAULT '',
    reported_reason text        NOT NULL DEFAULT '',
    start_time      timestamptz,
    end_time        timestamptz,
    PRIMARY KEY (rollout_id, node_id),
    CONSTRAINT agent_rollout_nodes_updating_has_start CHECK (state <> 'updating' OR (start_time IS NOT NULL AND from_version <> '')),
    CONSTRAINT agent_rollout_nodes_ended_has_time CHECK ((state IN ('succeeded', 'failed', 'skipped')) = (end_time IS NOT NULL))
);
-- A node is brought to one version at a time; heartbeats are answered by it.
CREATE UNIQUE INDEX agent_rollout_nodes_updating ON agent_rollout_nodes (node_id) WHERE state = 'updating';

GRANT SELECT, INSERT ON agent_rollouts, agent_rollout_nodes TO gpuaas_inventory;
GRANT UPDATE (state, state_reason, current_wave, revision, end_time) ON agent_rollouts TO gpuaas_inventory;
GRANT UPDATE (from_version, state, reason, was_ready, accepted, attempt, reported_state, reported_reason, start_time, end_time)
    ON agent_rollout_nodes TO gpuaas_inventory;
-- An agent that was updated reports when it was built.
GRANT UPDATE (agent_built_time) ON host_instances TO gpuaas_inventory;
