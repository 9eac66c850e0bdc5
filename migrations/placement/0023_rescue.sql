-- Rescue: the VM runs from a rescue image, with its own disks beside it, and is billed like one that runs.
ALTER DOMAIN power DROP CONSTRAINT power_check;
ALTER DOMAIN power ADD CONSTRAINT power_check CHECK (VALUE IN ('running', 'stopping', 'stopped', 'starting', 'rebooting',
                                                               'rescuing', 'rescued', 'unrescuing'));
INSERT INTO power_transitions VALUES
    ('running', 'rescuing'), ('stopped', 'rescuing'), ('rescuing', 'rescued'),
    ('rescued', 'unrescuing'), ('unrescuing', 'running'),
    ('rescued', 'stopping'),
    -- it failed, and the host reported what is
    ('starting', 'rescued'), ('rescuing', 'running'), ('rescuing', 'stopped'), ('unrescuing', 'rescued'), ('unrescuing', 'stopped'),
    ('stopping', 'rescued'),
    -- unexpected shutdown
    ('rescued', 'stopped');

ALTER DOMAIN workflow_kind DROP CONSTRAINT workflow_kind_check;
ALTER DOMAIN workflow_kind ADD CONSTRAINT workflow_kind_check
    CHECK (VALUE IN ('provision', 'provision_node', 'release', 'release_node', 'repair', 'clean_up', 'stop', 'start', 'reboot',
                     'rescue', 'unrescue'));
ALTER TABLE workflows DROP CONSTRAINT workflows_forced_power;
ALTER TABLE workflows ADD CONSTRAINT workflows_forced_power
    CHECK (NOT forced OR kind IN ('stop', 'reboot', 'rescue', 'unrescue'));
ALTER TABLE node_tasks DROP CONSTRAINT node_tasks_type_check;
ALTER TABLE node_tasks ADD CONSTRAINT node_tasks_type_check
    CHECK (type IN ('slice.vm_provision', 'slice.vm_release', 'slice.vm_clean_up', 'slice.slot_repair', 'slice.vm_stop',
                    'slice.vm_start', 'slice.vm_reboot', 'slice.vm_rescue'));

-- From which image, what the power was before, and the host keys of the rescue image: {image, from, ssh_host_keys}. It counts
-- while the power is one of a rescue, and while a VM is stopped out of one.
ALTER TABLE allocations ADD COLUMN rescue jsonb;
GRANT UPDATE (rescue) ON allocations TO gpuaas_allocation;
