-- The time of a node's turn stands still while its host waits for operations, and runs on after that.
ALTER TABLE agent_rollout_nodes
    -- Since when the host has said that it waits; null when it does not.
    ADD COLUMN wait_time timestamptz;
-- of a host that waits during the upgrade the time begins after its wait, as before
UPDATE agent_rollout_nodes SET wait_time = start_time WHERE state = 'updating' AND reported_state = 'waiting';
GRANT UPDATE (wait_time) ON agent_rollout_nodes TO gpuaas_inventory;
