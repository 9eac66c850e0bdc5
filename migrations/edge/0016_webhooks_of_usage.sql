-- How far billing's log of usage is read for webhooks. One row.
CREATE TABLE webhook_usage_head (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    position bigint  NOT NULL DEFAULT 0
);
INSERT INTO webhook_usage_head DEFAULT VALUES;

GRANT SELECT ON webhook_usage_head TO gpuaas_edge;
GRANT UPDATE (position) ON webhook_usage_head TO gpuaas_edge;
