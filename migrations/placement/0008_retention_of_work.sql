-- Durable work is retained for a while after it has ended, then it goes: workflows with their steps and calls to hosts, and
-- the timelines of allocations that are over. What was billed (allocation_periods), what proves (clean_evidence), who had
-- what (allocations, claims) and the audit trail stay.
CREATE INDEX workflows_ended ON workflows (ended_at) WHERE ended_at IS NOT NULL;

-- Removes work that ended so long ago, at most so many workflows and so many timelines, and returns how many of both went.
-- An allocation's work goes when the allocation has ended that long ago and no claim of it is left; of a slot, the
-- latest repair stays. No service erases what happened this month: shorter retentions are refused.
CREATE FUNCTION sweep_work(retention interval, most integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT AS $$
DECLARE
    before timestamptz := clock_timestamp() - retention;
    old    uuid[];
    over   uuid[];
BEGIN
    IF retention < interval '30 days' THEN
        RAISE EXCEPTION 'work is retained at least 30 days' USING ERRCODE = 'check_violation';
    END IF;
    old := ARRAY (
        SELECT w.id FROM workflows w LEFT JOIN allocations a ON a.id = w.allocation_id
         WHERE w.ended_at < before AND (w.allocation_id IS NULL OR a.ended_at < before AND NOT EXISTS
                   (SELECT FROM claims c WHERE c.allocation_id = a.id AND c.state <> 'released'))
           AND (w.slot_id IS NULL OR EXISTS
                   (SELECT FROM workflows later WHERE later.slot_id = w.slot_id AND later.created_at > w.created_at))
         ORDER BY w.ended_at LIMIT most FOR UPDATE OF w SKIP LOCKED);
    DELETE FROM node_tasks WHERE workflow_id = ANY (old);
    DELETE FROM workflow_steps WHERE workflow_id = ANY (old);
    DELETE FROM workflows WHERE id = ANY (old);
    over := ARRAY (
        SELECT h.allocation_id FROM timeline_heads h JOIN allocations a ON a.id = h.allocation_id
         WHERE a.ended_at < before AND NOT EXISTS
               (SELECT FROM workflows w WHERE w.allocation_id = h.allocation_id AND (w.slot_id IS NULL OR w.state = 'running'))
         LIMIT most FOR UPDATE OF h SKIP LOCKED);
    DELETE FROM timeline WHERE allocation_id = ANY (over);
    DELETE FROM timeline_heads WHERE allocation_id = ANY (over);
    RETURN cardinality(old) + cardinality(over);
END $$;
REVOKE ALL ON FUNCTION sweep_work(interval, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sweep_work(interval, integer) TO gpuaas_allocation;
