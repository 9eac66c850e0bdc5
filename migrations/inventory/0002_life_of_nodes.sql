-- The life of a node: its labels, and its end. What became of it on the way is in the audit trail; what operators say of it,
-- and what its host proves, is in the ledger.
ALTER TABLE nodes
    ADD COLUMN labels      jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    -- Out of service for good. A deleted one was registered by mistake and is shown nowhere.
    ADD COLUMN removed     text CHECK ((removed IN ('retired', 'deleted')) IS NOT FALSE),
    ADD COLUMN remove_time timestamptz,
    ADD CONSTRAINT nodes_removed_has_time CHECK ((removed IS NULL) = (remove_time IS NULL));

-- The name of a node that is gone is free.
ALTER TABLE nodes DROP CONSTRAINT nodes_hostname_key;
CREATE UNIQUE INDEX nodes_hostname ON nodes (hostname) WHERE removed IS NULL;
CREATE INDEX nodes_by_hostname ON nodes (hostname, id);

-- The end is the end, and a node that is gone is as it was.
CREATE FUNCTION guard_removed_node() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'node % is %', OLD.id, OLD.removed USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER nodes_removed BEFORE UPDATE ON nodes FOR EACH ROW
    WHEN (OLD.removed IS NOT NULL) EXECUTE FUNCTION guard_removed_node();

GRANT UPDATE (mode, max_vms_per_node, labels, removed, remove_time) ON nodes TO gpuaas_inventory;
