-- A visit that fails right after the start of an agent is tried again soon, and not with the next round alone (D-82).
ALTER TABLE node_visits
    -- comparisons that failed one after the other since the agent was started
    ADD COLUMN failures integer NOT NULL DEFAULT 0 CHECK (failures >= 0);
