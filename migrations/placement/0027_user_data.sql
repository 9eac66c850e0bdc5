-- User data that a launch carries, for the cloud-init of its VM, and what is shown of it. It may hold secrets, so it is in a
-- table of its own, which no list reads, and is deleted as soon as no host can need it any more: the host of an active VM
-- has it.
ALTER TABLE allocations
    -- "sha256:" and 64 hex digits; empty: it has none.
    ADD COLUMN user_data_digest text NOT NULL DEFAULT '',
    ADD COLUMN user_data_bytes integer NOT NULL DEFAULT 0 CHECK (user_data_bytes BETWEEN 0 AND 16384),
    ADD CONSTRAINT allocations_user_data CHECK ((user_data_digest = '') = (user_data_bytes = 0));

-- User data of launches that are not over.
CREATE TABLE allocation_user_data (
    allocation_id uuid PRIMARY KEY REFERENCES allocations (id) ON DELETE CASCADE,
    user_data     text NOT NULL CHECK (octet_length(user_data) BETWEEN 1 AND 16384)
);
GRANT INSERT ON allocation_user_data TO gpuaas_scheduler;
GRANT SELECT ON allocation_user_data TO gpuaas_allocation;

-- Whoever ends a launch, well or not, forgets its user data in the same transaction.
CREATE FUNCTION forget_user_data() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM allocation_user_data WHERE allocation_id = NEW.id;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION forget_user_data() FROM PUBLIC;
CREATE TRIGGER allocations_forget_user_data AFTER UPDATE OF state ON allocations FOR EACH ROW
    WHEN (NEW.user_data_bytes > 0 AND NEW.state NOT IN ('requested', 'reserved', 'provisioning'))
    EXECUTE FUNCTION forget_user_data();
