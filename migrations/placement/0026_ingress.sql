-- Ingress mappings (J-13, L-16): ports of VMs that are reached from outside.

-- What of its public addresses the operator of a host gave to the platform, as the host last reported it. No row: nothing, so there
-- is no ingress to its VMs.
CREATE TABLE ingress_owners (
    node_id    uuid        PRIMARY KEY REFERENCES nodes (id),
    address    inet        NOT NULL CHECK (family(address) = 4 AND masklen(address) = 32),
    first_port integer     NOT NULL CHECK (first_port BETWEEN 1 AND 65535),
    last_port  integer     NOT NULL CHECK (last_port BETWEEN 1 AND 65535),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT ingress_owners_range CHECK (first_port <= last_port)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON ingress_owners TO gpuaas_allocation;

-- Ports of VMs that are reached from outside, each by a port of its host that it has alone. It goes with its allocation.
CREATE TABLE ingress_mappings (
    id               uuid           PRIMARY KEY,
    project_id       uuid           NOT NULL,
    allocation_id    uuid           NOT NULL,
    node_id          uuid           NOT NULL,
    protocol         text           NOT NULL CHECK (protocol IN ('tcp', 'udp')),
    vm_port          integer        NOT NULL CHECK (vm_port BETWEEN 1 AND 65535),
    -- 0: the platform chose it
    requested_port   integer        NOT NULL CHECK (requested_port BETWEEN 0 AND 65535),
    external_address inet           NOT NULL,
    external_port    integer        NOT NULL CHECK (external_port BETWEEN 1 AND 65535),
    -- networks that may connect; none: everybody
    sources          text[]         NOT NULL CHECK (cardinality(sources) <= 16),
    -- NULL: with its allocation
    expires_at       timestamptz,
    -- deleting: it has ended, and its host has not closed the port yet
    state            text           NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'active', 'failed', 'deleting')),
    -- why it failed, for its owner
    failure          text           NOT NULL DEFAULT '',
    creator          non_empty_text NOT NULL,
    revision         bigint         NOT NULL DEFAULT 1,
    created_at       timestamptz    NOT NULL DEFAULT clock_timestamp(),
    updated_at       timestamptz    NOT NULL DEFAULT clock_timestamp(),
    -- when its host is called for it again
    retry_at         timestamptz    NOT NULL DEFAULT clock_timestamp(),
    FOREIGN KEY (allocation_id, node_id) REFERENCES allocations (id, node_id),
    CONSTRAINT ingress_mappings_one_per_port UNIQUE (node_id, protocol, external_port),
    CONSTRAINT ingress_mappings_failed_has_failure CHECK ((state = 'failed') = (failure <> ''))
);
CREATE INDEX ingress_mappings_allocation ON ingress_mappings (allocation_id);
CREATE INDEX ingress_mappings_project ON ingress_mappings (project_id);
CREATE INDEX ingress_mappings_due ON ingress_mappings (retry_at) WHERE state <> 'active';
CREATE INDEX ingress_mappings_expiry ON ingress_mappings (expires_at) WHERE expires_at IS NOT NULL;
GRANT SELECT, INSERT, DELETE ON ingress_mappings TO gpuaas_allocation;
GRANT UPDATE (state, failure, revision, updated_at, retry_at) ON ingress_mappings TO gpuaas_allocation;

-- Orders what hosts are told about ingress.
CREATE SEQUENCE ingress_versions;
GRANT USAGE ON SEQUENCE ingress_versions TO gpuaas_allocation;
-- for the fencing tokens that a host is shown
GRANT SELECT ON SEQUENCE workflow_epochs TO gpuaas_allocation;

-- No mapping outlives the allocation that it leads to, whoever ends it.
CREATE FUNCTION end_ingress_mappings() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.state = 'releasing' THEN
        -- in the order in which everybody locks several of them
        PERFORM FROM ingress_mappings WHERE allocation_id = NEW.id ORDER BY id FOR UPDATE;
        -- its host closes the ports before it gives the VM's address to another
        UPDATE ingress_mappings
           SET state = 'deleting', failure = '', revision = revision + 1, updated_at = greatest(clock_timestamp(), updated_at)
         WHERE allocation_id = NEW.id AND state <> 'deleting';
    ELSE
        DELETE FROM ingress_mappings WHERE allocation_id = NEW.id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER allocations_end_ingress_mappings AFTER UPDATE OF state ON allocations FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND NEW.state IN ('releasing', 'released', 'failed'))
    EXECUTE FUNCTION end_ingress_mappings();

-- Nothing is opened but to the VM of an allocation that runs.
CREATE FUNCTION check_ingress_mapping() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM allocations a
                    WHERE a.id = NEW.allocation_id AND a.project_id = NEW.project_id AND a.state = 'active'
                      AND a.capacity_shape = 'gpu_slice') THEN
        RAISE EXCEPTION 'allocation % is no active slice of project %', NEW.allocation_id, NEW.project_id
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER ingress_mappings_of_active_slices BEFORE INSERT ON ingress_mappings FOR EACH ROW
    EXECUTE FUNCTION check_ingress_mapping();
