-- Inspections of hosts hold whole reports: those that nothing rests on go after a while.
CREATE INDEX node_tasks_ended ON node_tasks (end_time) WHERE end_time IS NOT NULL;
CREATE INDEX slot_approvals_discovery ON slot_approvals (discovery_id);

-- Removes inspections that ended so long ago, at most so many, and returns how many went. What an approval names stays, and
-- so does what is not older than the latest completed inspection of its node. Shorter retentions than a day are refused.
CREATE FUNCTION sweep_discoveries(retention interval, most integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT AS $$
DECLARE
    gone bigint;
BEGIN
    IF retention < interval '1 day' THEN
        RAISE EXCEPTION 'inspections are retained at least a day' USING ERRCODE = 'check_violation';
    END IF;
    DELETE FROM node_tasks WHERE id IN (
        SELECT t.id FROM node_tasks t
         WHERE t.end_time < clock_timestamp() - retention
           AND NOT EXISTS (SELECT FROM slot_approvals a WHERE a.discovery_id = t.id)
           AND EXISTS (SELECT FROM node_tasks later WHERE later.node_id = t.node_id AND later.state = 'completed'
                          AND (later.create_time, later.id) > (t.create_time, t.id))
         ORDER BY t.end_time LIMIT most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
REVOKE ALL ON FUNCTION sweep_discoveries(interval, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sweep_discoveries(interval, integer) TO gpuaas_inventory;
