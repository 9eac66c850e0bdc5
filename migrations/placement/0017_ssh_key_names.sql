-- Names by which a launch gave its SSH keys: those of ssh_public_keys in their order, empty for a key that the launch gave
-- itself; no names at all where none has one.
ALTER TABLE allocations
    ADD COLUMN ssh_key_names text[] NOT NULL DEFAULT '{}'
        CHECK (cardinality(ssh_key_names) IN (0, cardinality(ssh_public_keys)));
