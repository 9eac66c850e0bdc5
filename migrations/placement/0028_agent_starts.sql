-- The last start of the agent of each node: the host is compared with the ledger at once then (D-82). No row: no agent has said it.
CREATE TABLE agent_starts (
    node_id    uuid        PRIMARY KEY REFERENCES nodes (id),
    -- by the clock of the host: it tells one run of the agent from another, and nothing else
    started_at timestamptz NOT NULL,
    -- when the ledger learned of it: an earlier visit has not seen it
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT, UPDATE ON agent_starts TO gpuaas_scheduler;
GRANT SELECT ON agent_starts TO gpuaas_allocation;
