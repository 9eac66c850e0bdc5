-- Why a discovery failed, for programs: a name of ErrorReason. Empty: it did not fail, or did before this release.
ALTER TABLE node_tasks
    ADD COLUMN error_reason text NOT NULL DEFAULT '',
    ADD CONSTRAINT node_tasks_reason_of_failure CHECK (error_reason = '' OR state = 'failed');
GRANT UPDATE (error_reason) ON node_tasks TO gpuaas_inventory;

-- A host is moved to another rack.
GRANT UPDATE (rack) ON nodes TO gpuaas_inventory;
