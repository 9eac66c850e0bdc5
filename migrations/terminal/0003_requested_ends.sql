-- A session ends soon after its user or an operator has requested it; the process that serves it sees it here.
ALTER TABLE sessions
    ADD COLUMN end_request_time timestamptz,
    -- why an operator requested it; empty when its user did
    ADD COLUMN end_reason text NOT NULL DEFAULT '',
    ADD CONSTRAINT sessions_end_reason_has_time CHECK (end_reason = '' OR (end_request_time IS NOT NULL) IS TRUE);

GRANT UPDATE (end_request_time, end_reason) ON sessions TO gpuaas_terminal;
