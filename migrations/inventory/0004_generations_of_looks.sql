-- The generation of each slot, by index, before the host was looked at: what was seen proves nothing of a slot whose generation
-- is another by the time it is approved, for it had a tenant meanwhile (P2).
ALTER TABLE node_tasks ADD COLUMN slot_generations jsonb NOT NULL DEFAULT '{}'
    CHECK (jsonb_typeof(slot_generations) = 'object');
GRANT UPDATE (slot_generations) ON node_tasks TO gpuaas_inventory;
