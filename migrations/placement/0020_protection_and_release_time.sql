-- What keeps an allocation from its owner's own mistake, and what ends it when it is forgotten.
ALTER TABLE allocations
    -- A release by its project is refused.
    ADD COLUMN termination_protection boolean NOT NULL DEFAULT false,
    -- When the platform releases it; NULL: never.
    ADD COLUMN auto_release_at timestamptz,
    ADD CONSTRAINT allocations_protected_or_ends CHECK (NOT termination_protection OR auto_release_at IS NULL);
GRANT UPDATE (termination_protection, auto_release_at) ON allocations TO gpuaas_allocation;
CREATE INDEX allocations_due ON allocations (auto_release_at)
    WHERE auto_release_at IS NOT NULL AND state NOT IN ('releasing', 'released', 'failed');
