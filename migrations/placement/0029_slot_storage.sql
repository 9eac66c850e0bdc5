-- The rest of a slot's capacity_metadata (A-101): whose its disk is, and by which record it came to be.
ALTER TABLE slots
    -- an approved slot's disk belongs to slices, and to nothing of its host (A-102, A-103)
    ADD COLUMN storage_ownership text NOT NULL DEFAULT 'slice' CHECK (storage_ownership = 'slice'),
    ADD COLUMN storage_mode text NOT NULL DEFAULT 'slice' CHECK (storage_mode = 'slice'),
    -- the host's record of the transition that took the disk over (A-105); empty: it was raw, or approved before this
    ADD COLUMN storage_transition_manifest text NOT NULL DEFAULT ''
        CHECK (storage_transition_manifest ~ '^(/[[:alnum:]._/-]{1,255})?$');

GRANT INSERT (storage_transition_manifest) ON slots TO gpuaas_scheduler;
