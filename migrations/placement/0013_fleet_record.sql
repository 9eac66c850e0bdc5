-- The fleet record: where a node stands, and since when a slot was not healthy.

-- The rack or failure domain that an operator named; empty: unknown.
ALTER TABLE nodes ADD COLUMN rack text NOT NULL DEFAULT '' CHECK (length(rack) <= 63);

-- Times in which a slot was not healthy: what a project reads of the repairs of what it has.
CREATE TABLE slot_health_events (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slot_id    uuid        NOT NULL REFERENCES slots (id),
    node_id    uuid        NOT NULL,
    health     health      NOT NULL CHECK (health <> 'healthy'),
    -- one time for all slots of one statement: they are one event
    started_at timestamptz NOT NULL,
    -- NULL: it lasts
    ended_at   timestamptz,
    FOREIGN KEY (slot_id, node_id) REFERENCES slots (id, node_id),
    CONSTRAINT slot_health_events_end_after_start CHECK ((ended_at >= started_at) IS NOT FALSE)
);
CREATE UNIQUE INDEX slot_health_events_one_open ON slot_health_events (slot_id) WHERE ended_at IS NULL;
CREATE INDEX slot_health_events_slot ON slot_health_events (slot_id, started_at);
CREATE INDEX slot_health_events_node ON slot_health_events (node_id, started_at);

-- A service can change a slot's health, but not what is on record of it.
CREATE FUNCTION record_slot_health() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE slot_health_events SET ended_at = greatest(statement_timestamp(), started_at)
     WHERE slot_id = NEW.id AND ended_at IS NULL;
    IF NEW.health_state <> 'healthy' AND NEW.status <> 'retired' THEN
        INSERT INTO slot_health_events (slot_id, node_id, health, started_at)
        VALUES (NEW.id, NEW.node_id, NEW.health_state, statement_timestamp());
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION record_slot_health() FROM PUBLIC;
CREATE TRIGGER slots_health AFTER UPDATE OF status, host_health, cleanup_health ON slots FOR EACH ROW
    WHEN (OLD.health_state <> NEW.health_state OR OLD.status <> NEW.status AND NEW.status = 'retired')
    EXECUTE FUNCTION record_slot_health();

-- What is not healthy now; since when is not on record, so it counts from its last change on.
INSERT INTO slot_health_events (slot_id, node_id, health, started_at)
SELECT id, node_id, health_state, updated_at FROM slots WHERE health_state <> 'healthy' AND status <> 'retired';

GRANT SELECT ON slot_health_events TO gpuaas_scheduler;
