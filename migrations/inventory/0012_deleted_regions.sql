-- A region that was made by mistake and deleted is shown nowhere. Its row stays for nodes that were deleted before it, and for
-- the day that its code is used again.
ALTER TABLE regions
    ADD COLUMN delete_time timestamptz;
GRANT UPDATE (create_time, delete_time) ON regions TO gpuaas_inventory;
