-- The operator's word on a node, whole nodes beside slices, and the end of rows that nobody needs any more.

-- why a node is cordoned or draining, and since when
ALTER TABLE nodes
    ADD COLUMN admin_reason text NOT NULL DEFAULT '' CHECK (length(admin_reason) <= 500),
    ADD COLUMN admin_at     timestamptz,
    -- what inventory wants the node to be; `mode` is what its live claims make of it. NULL: the mode it has.
    ADD COLUMN intended_mode text CHECK ((intended_mode IN ('slice', 'baremetal')) IS NOT FALSE);

-- A whole node that ends its allocation goes back to what it is meant to be, in the transaction of the release.
GRANT UPDATE (mode, generation) ON nodes TO gpuaas_allocation;
-- A reinstalled host has nothing left of a blocked allocation of the whole node.
GRANT UPDATE (released_at) ON claims TO gpuaas_scheduler;

-- Allocations of a project by label, for placement constraints.
CREATE INDEX allocations_live_labels ON allocations USING gin (labels) WHERE state NOT IN ('released', 'failed');

-- Events are kept 90 days. The role that reads and stamps them may not delete them but through this function, which
-- takes only the oldest of the order, as long as they are old enough, and never the last one: what is kept has no gap.
CREATE FUNCTION sweep_outbox(most integer) RETURNS bigint LANGUAGE sql SECURITY DEFINER
    SET search_path FROM CURRENT AS $$
    WITH front AS (
        SELECT seq, position, at < clock_timestamp() - interval '90 days' AS old
          FROM outbox WHERE position IS NOT NULL ORDER BY position LIMIT most
    ), gone AS (
        DELETE FROM outbox o USING front f
         WHERE o.seq = f.seq AND f.old AND f.position < (SELECT position FROM outbox_head)
           AND f.position < coalesce((SELECT min(position) FROM front WHERE NOT old), f.position + 1)
        RETURNING 1
    )
    SELECT count(*) FROM gone
$$;
REVOKE ALL ON FUNCTION sweep_outbox(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sweep_outbox(integer) TO gpuaas_allocation;
