-- Requests of one moment look at different ones of many equal nodes: each begins at a place of its own in an order that
-- has nothing to do with age or name.
ALTER TABLE node_capacity ADD COLUMN place integer GENERATED ALWAYS AS (uuid_hash(node_id)) STORED;
DROP INDEX node_capacity_fit;
CREATE INDEX node_capacity_fit ON node_capacity (region_code, slot_class, clean, free, place) WHERE free > 0;
