-- A visit that fails after the start of an agent is tried again soon, and not with the next round alone (D-82).
ALTER TABLE node_visits
    -- visits that failed one after the other since the agent was started
    ADD COLUMN failures integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    -- when the next one is due, ahead of the round
    ADD COLUMN retry_at timestamptz,
    -- begin of the last visit that came to its end
    ADD COLUMN compared_at timestamptz;
