-- The boot and the time since its start at which the last report was observed, in nanoseconds: a report that was observed
-- before it changes nothing, whatever the clocks say. NULL: the agent is of a release that does not tell.
ALTER TABLE host_beats ADD COLUMN boot_id text, ADD COLUMN observed_uptime bigint CHECK (observed_uptime >= 0);
GRANT UPDATE (boot_id, observed_uptime) ON host_beats TO gpuaas_inventory;
