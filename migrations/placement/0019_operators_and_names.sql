-- What an operator does to somebody's allocation, who did what in its timeline, and a name for people.
ALTER TABLE allocations
    -- Name for people; empty: its name.
    ADD COLUMN display_name text NOT NULL DEFAULT '' CHECK (char_length(display_name) <= 200),
    -- Condition: what an operator last did to it, why and when. The owner's next start ends that of a stop.
    ADD COLUMN operator_action text CHECK (operator_action IN ('stop', 'release')),
    ADD COLUMN operator_reason text NOT NULL DEFAULT '',
    ADD COLUMN operator_at timestamptz,
    ADD CONSTRAINT allocations_operator_gives_reason
        CHECK ((operator_action IS NULL) = (operator_reason = '') AND (operator_action IS NULL) = (operator_at IS NULL));
GRANT UPDATE (display_name, operator_action, operator_reason, operator_at) ON allocations TO gpuaas_allocation;

-- for operators, who list those of all projects, or of one node
CREATE INDEX allocations_newest_of_all ON allocations (created_at DESC, id DESC);
CREATE INDEX allocations_of_node ON allocations (node_id, created_at DESC, id DESC) WHERE node_id IS NOT NULL;

ALTER TABLE timeline
    -- Principal at whose request it happened, 'operator' for an operator; empty: the platform itself.
    ADD COLUMN actor text NOT NULL DEFAULT '',
    -- The operator's.
    ADD COLUMN reason text NOT NULL DEFAULT '';
