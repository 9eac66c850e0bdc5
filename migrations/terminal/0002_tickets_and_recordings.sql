-- Tickets that open sessions, who carries a session, and what was recorded of it.

ALTER TABLE sessions
    -- of the connections that may carry it; empty for programs
    ADD COLUMN origin          text        NOT NULL DEFAULT '',
    -- the process that carries it, and when that was last seen to do so
    ADD COLUMN replica         text        NOT NULL DEFAULT '',
    ADD COLUMN seen_time       timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN recording       text        NOT NULL DEFAULT 'off' CHECK (recording IN ('off', 'kept', 'expired')),
    ADD COLUMN recording_bytes bigint      NOT NULL DEFAULT 0 CHECK (recording_bytes >= 0);
CREATE INDEX sessions_open ON sessions (principal) WHERE close_time IS NULL;
CREATE INDEX sessions_open_seen ON sessions (seen_time) WHERE close_time IS NULL;
CREATE INDEX sessions_recorded ON sessions (close_time) WHERE recording = 'kept';

-- A ticket is burnt by being shown, whether or not it fits what it is shown for.
CREATE TABLE tickets (
    -- SHA-256 of the ticket; the ticket itself is nowhere
    hash          bytea       PRIMARY KEY CHECK (octet_length(hash) = 32),
    session_id    uuid        NOT NULL UNIQUE,
    allocation_id uuid        NOT NULL,
    project_id    uuid        NOT NULL,
    principal     text        NOT NULL CHECK (principal <> ''),
    origin        text        NOT NULL,
    create_time   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expire_time   timestamptz NOT NULL CHECK (expire_time > create_time),
    consume_time  timestamptz
);
CREATE INDEX tickets_expire_time ON tickets (expire_time);
CREATE INDEX tickets_principal ON tickets (principal);

-- Consecutive parts of a recording in asciicast v3.
CREATE TABLE recording_chunks (
    session_id uuid    NOT NULL REFERENCES sessions (id),
    seq        integer NOT NULL CHECK (seq >= 0),
    data       text    NOT NULL CHECK (data <> ''),
    PRIMARY KEY (session_id, seq)
);

GRANT INSERT ON sessions TO gpuaas_terminal;
GRANT UPDATE (close_time, close_reason, seen_time, recording, recording_bytes) ON sessions TO gpuaas_terminal;
GRANT SELECT, INSERT, DELETE ON tickets TO gpuaas_terminal;
GRANT UPDATE (consume_time) ON tickets TO gpuaas_terminal;
GRANT SELECT, INSERT, DELETE ON recording_chunks TO gpuaas_terminal;
