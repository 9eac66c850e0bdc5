-- A region that was made by mistake leaves the ledger. The foreign keys refuse it for one that anything was ever in.
GRANT DELETE ON regions TO gpuaas_scheduler;
