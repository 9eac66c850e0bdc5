-- Reports of validate-host that operators attached to nodes: proof of what was tried on a host, by whom and when. The latest
-- ten of a node stay.
CREATE TABLE host_reports (
    id          uuid        PRIMARY KEY,
    node_id     uuid        NOT NULL REFERENCES nodes (id),
    -- gpuaas.inventory.v1.HostReport.
    report      bytea       NOT NULL CHECK (octet_length(report) BETWEEN 1 AND 262144),
    principal   text        NOT NULL CHECK (principal <> ''),
    attach_time timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX host_reports_node ON host_reports (node_id, attach_time DESC, id DESC);
GRANT SELECT, INSERT, DELETE ON host_reports TO gpuaas_inventory;
