-- What the members of a project decided about the network of its VMs. No row: each VM is alone.
CREATE TABLE project_networks (
    project_id           uuid        PRIMARY KEY,
    -- VMs of the project that are on one host reach each other
    vms_reach_each_other boolean     NOT NULL,
    updated_at           timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT, INSERT ON project_networks TO gpuaas_allocation;
GRANT UPDATE (vms_reach_each_other, updated_at) ON project_networks TO gpuaas_allocation;
