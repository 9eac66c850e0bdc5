-- The last sign of life of every host, and the digest of the report it came with. A report that says what is known changes
-- this one narrow row and nothing else: a fleet that is well writes a hundred bytes per host and interval.
CREATE TABLE host_beats (
    node_id       uuid        PRIMARY KEY REFERENCES nodes (id) ON DELETE CASCADE,
    -- The node's current instance; an enrolment replaces it.
    instance_id   uuid        NOT NULL,
    beat_time     timestamptz NOT NULL,
    -- When the host observed what it last reported, never later than when the report arrived.
    observed_time timestamptz,
    -- SHA-256 of the last report that was taken in full, times left out; NULL: the next one is taken in full.
    known_digest  bytea       CHECK ((octet_length(known_digest) = 32) IS NOT FALSE),
    -- When that report was taken in full. It is done again now and then, whatever the digest says.
    known_time    timestamptz,
    CONSTRAINT host_beats_known CHECK (known_digest IS NULL OR (known_time IS NOT NULL AND observed_time IS NOT NULL) IS TRUE)
-- Nothing but the key is indexed and half of every page is free, so that a beat replaces its row on its page.
) WITH (fillfactor = 50);

INSERT INTO host_beats (node_id, instance_id, beat_time, observed_time)
SELECT n.id, n.current_instance_id, n.last_heartbeat_time, e.observed_time
  FROM nodes n LEFT JOIN node_evidence e ON e.node_id = n.id AND e.instance_id = n.current_instance_id
 WHERE n.current_instance_id IS NOT NULL;

-- The heartbeat monitor reads host_beats. nodes.last_heartbeat_time is as of the enrolment, the last return or the loss of the
-- current instance.
DROP INDEX nodes_heartbeat;

-- The rack or failure domain that an operator names; empty: unknown.
ALTER TABLE nodes ADD COLUMN rack text NOT NULL DEFAULT ''
    CONSTRAINT nodes_rack CHECK (rack = '' OR rack ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$');

GRANT UPDATE (rack) ON nodes TO gpuaas_inventory;
GRANT SELECT, INSERT ON host_beats TO gpuaas_inventory;
GRANT UPDATE (instance_id, beat_time, observed_time, known_digest, known_time) ON host_beats TO gpuaas_inventory;
