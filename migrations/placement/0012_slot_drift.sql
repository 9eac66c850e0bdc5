-- Drift: what was approved for a slot against what its host has now (D-80).

-- As the host last reported it, gpuaas.agent.v1.HostDevices; NULL: it does not. A slot that is approved is compared at once.
ALTER TABLE nodes ADD COLUMN host_devices bytea;

-- Differences that stand, each with the time since when. A slot that has one is never healthier than degraded, so it is not
-- offered.
ALTER TABLE slots ADD COLUMN drift jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(drift) = 'array');
CREATE INDEX slots_drifted ON slots (node_id) WHERE drift <> '[]';

ALTER TABLE allocations
    -- Condition: since when a slot of it is not as it was approved; NULL: all are.
    ADD COLUMN device_drift_since timestamptz,
    -- The same, for its owner.
    ADD COLUMN device_drift text NOT NULL DEFAULT '',
    ADD CONSTRAINT allocations_drift_is_placed
        CHECK (device_drift_since IS NULL OR state IN ('provisioning', 'active', 'releasing')),
    ADD CONSTRAINT allocations_drift_is_told CHECK ((device_drift_since IS NULL) = (device_drift = ''));

GRANT UPDATE (drift) ON slots TO gpuaas_scheduler;
-- who takes a node in notes the condition of what is on it; who ends an allocation ends its condition
GRANT UPDATE (device_drift_since, device_drift) ON allocations TO gpuaas_scheduler, gpuaas_allocation;
