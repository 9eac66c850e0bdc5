-- Hosts that are silent or gone: the condition `host_lost` of what is on them, and its forced release by an administrator.

-- The last proof of life of a host that is silent now; NULL: it is heard.
ALTER TABLE nodes ADD COLUMN host_lost_since timestamptz;

ALTER TABLE allocations
    -- Condition: since when its host is silent, or installed anew; NULL: its host is there.
    ADD COLUMN host_lost_since timestamptz,
    -- End of the billable time when that is not the acceptance of the release: a forced release ends it earlier.
    ADD COLUMN billed_until timestamptz,
    ADD CONSTRAINT allocations_lost_is_placed CHECK (host_lost_since IS NULL OR state IN ('provisioning', 'active', 'releasing')),
    ADD CONSTRAINT allocations_billed_until_end
        CHECK ((billed_until >= active_at AND billed_until <= releasing_at) IS NOT FALSE
               AND (billed_until IS NULL OR releasing_at IS NOT NULL AND active_at IS NOT NULL));

CREATE DOMAIN host_fate AS text CHECK (VALUE IN ('powered_off', 'disks_destroyed', 'reinstalled', 'written_off'));

-- What an administrator attested when ending an allocation whose host is lost. Never changes.
CREATE TABLE force_releases (
    allocation_id uuid           PRIMARY KEY REFERENCES allocations (id),
    node_id       uuid           NOT NULL REFERENCES nodes (id),
    -- the instance that the allocation was on
    instance_id   uuid           NOT NULL,
    principal     non_empty_text NOT NULL,
    host_fate     host_fate      NOT NULL,
    reason        text           NOT NULL CHECK (reason <> '' AND length(reason) <= 500),
    -- the last proof of life of that instance, as far as it is known
    last_seen_at  timestamptz,
    at            timestamptz    NOT NULL DEFAULT clock_timestamp()
);
CREATE TRIGGER force_releases_immutable BEFORE UPDATE OR DELETE ON force_releases
    FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Which replica compares which node with its host now, and when that was done last.
CREATE TABLE node_visits (
    node_id    uuid        PRIMARY KEY REFERENCES nodes (id),
    owner      text        NOT NULL,
    -- grows with every visit: a late visitor ends no visit of the next one
    epoch      bigint      NOT NULL DEFAULT 1,
    -- NULL: nobody is there
    expires_at timestamptz,
    visited_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- who takes a node in notes the condition of what is on it
GRANT UPDATE (host_lost_since, revision, updated_at) ON allocations TO gpuaas_scheduler;
GRANT UPDATE (host_lost_since, billed_until) ON allocations TO gpuaas_allocation;
GRANT SELECT, INSERT ON force_releases TO gpuaas_allocation;
GRANT SELECT ON force_releases TO gpuaas_scheduler;
GRANT SELECT, INSERT, UPDATE ON node_visits TO gpuaas_allocation;
-- fences that a host gets back begin above every epoch that was ever given out
GRANT SELECT ON SEQUENCE workflow_epochs TO gpuaas_scheduler;
