-- A stop or reboot that does not ask the guest to shut down, because that one hangs.
ALTER TABLE workflows ADD COLUMN forced boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT workflows_forced_power CHECK (NOT forced OR kind IN ('stop', 'reboot'));
GRANT INSERT (forced) ON workflows TO gpuaas_scheduler, gpuaas_allocation;
