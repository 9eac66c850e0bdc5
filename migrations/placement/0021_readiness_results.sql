-- What the readiness checks of an allocation's image gave in its guest, as its host reported it (D-45, INC-24): a list of
-- objects with the fields of gpuaas.common.v1.ReadinessResult.
ALTER TABLE allocations
    ADD COLUMN readiness jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(readiness) = 'array');
GRANT UPDATE (readiness) ON allocations TO gpuaas_allocation;
