-- Terminals into allocations: who opened which, when, and why it ended (F-09).

CREATE TABLE sessions (
    id            uuid        PRIMARY KEY,
    allocation_id uuid        NOT NULL,
    project_id    uuid        NOT NULL,
    principal     text        NOT NULL CHECK (principal <> ''),
    open_time     timestamptz NOT NULL DEFAULT clock_timestamp(),
    close_time    timestamptz CHECK (close_time >= open_time),
    close_reason  text        NOT NULL DEFAULT '',
    CHECK (close_reason = '' OR (close_time IS NOT NULL) IS TRUE)
);
CREATE INDEX sessions_newest ON sessions (open_time DESC, id DESC);
CREATE INDEX sessions_of_allocation ON sessions (allocation_id, open_time DESC, id DESC);

GRANT SELECT ON sessions TO gpuaas_terminal;
