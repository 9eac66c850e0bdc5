-- A slot that nobody has by the ledger and that its host still holds: for whom, and since when that is known. The repair of the
-- slot works under that id, which the ledger need not know any more.
ALTER TABLE slots
    ADD COLUMN host_holder uuid,
    ADD COLUMN host_held_since timestamptz,
    ADD CONSTRAINT slots_host_hold_is_whole CHECK ((host_holder IS NULL) = (host_held_since IS NULL));
GRANT UPDATE (host_holder, host_held_since) ON slots TO gpuaas_allocation;
