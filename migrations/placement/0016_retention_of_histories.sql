-- The histories of nodes and slots are retained for a while, then they go; what they were last stays with each of them.
-- Claims, evidence, break-fix records, findings and the audit trail stay.
DROP TRIGGER node_history_immutable ON node_history;
DROP TRIGGER slot_history_immutable ON slot_history;
CREATE TRIGGER node_history_immutable BEFORE UPDATE ON node_history FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER slot_history_immutable BEFORE UPDATE ON slot_history FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Nobody erases what happened this month, whoever may delete.
CREATE FUNCTION guard_young_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'histories are retained at least 30 days' USING ERRCODE = 'check_violation';
END $$;
CREATE TRIGGER node_history_young BEFORE DELETE ON node_history FOR EACH ROW
    WHEN (OLD.at > clock_timestamp() - interval '30 days') EXECUTE FUNCTION guard_young_history();
CREATE TRIGGER slot_history_young BEFORE DELETE ON slot_history FOR EACH ROW
    WHEN (OLD.at > clock_timestamp() - interval '30 days') EXECUTE FUNCTION guard_young_history();
CREATE TRIGGER slot_health_events_young BEFORE DELETE ON slot_health_events FOR EACH ROW
    WHEN (OLD.ended_at IS NULL OR OLD.ended_at > clock_timestamp() - interval '30 days')
    EXECUTE FUNCTION guard_young_history();

CREATE INDEX node_history_at ON node_history (at);
CREATE INDEX slot_history_at ON slot_history (at);
CREATE INDEX slot_health_events_ended ON slot_health_events (ended_at) WHERE ended_at IS NOT NULL;

-- Removes entries that are so old, at most so many of each history, and returns how many went. The latest entry of a node and
-- of a slot stays, and so does a time of bad health that lasts. Shorter retentions than 30 days are refused.
CREATE FUNCTION sweep_histories(retention interval, most integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT AS $$
DECLARE
    before timestamptz := clock_timestamp() - retention;
    gone   bigint;
    total  bigint := 0;
BEGIN
    IF retention < interval '30 days' THEN
        RAISE EXCEPTION 'histories are retained at least 30 days' USING ERRCODE = 'check_violation';
    END IF;
    DELETE FROM node_history WHERE seq IN (
        SELECT h.seq FROM node_history h
         WHERE h.at < before AND EXISTS (SELECT FROM node_history later WHERE later.node_id = h.node_id AND later.seq > h.seq)
         ORDER BY h.at LIMIT most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS gone = ROW_COUNT;
    total := total + gone;
    DELETE FROM slot_history WHERE seq IN (
        SELECT h.seq FROM slot_history h
         WHERE h.at < before AND EXISTS (SELECT FROM slot_history later WHERE later.slot_id = h.slot_id AND later.seq > h.seq)
         ORDER BY h.at LIMIT most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS gone = ROW_COUNT;
    total := total + gone;
    DELETE FROM slot_health_events WHERE id IN (
        SELECT id FROM slot_health_events WHERE ended_at < before ORDER BY ended_at LIMIT most FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN total + gone;
END $$;
REVOKE ALL ON FUNCTION sweep_histories(interval, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sweep_histories(interval, integer) TO gpuaas_allocation;

-- Whether a tenant had the whole node is asked for every slot that waits for a wipe.
CREATE INDEX claims_exclusive_node ON claims (node_id) WHERE kind = 'node_exclusive';
