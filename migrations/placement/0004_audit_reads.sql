-- The audit of the ledger compares every state with the events that explain it and with the billable periods. The
-- scheduler, which answers it, reads the order of events and the times of periods, not what events carry.
GRANT SELECT (seq, position, type, aggregate_id, revision, at) ON outbox TO gpuaas_scheduler;
GRANT SELECT (position) ON outbox_head TO gpuaas_scheduler;
GRANT SELECT (id, allocation_id, started_at, ended_at) ON allocation_periods TO gpuaas_scheduler;
