-- Terminals into allocations: who opened which, when, and why it ended (F-09); tickets and recordings.

-- A terminal from its opening to its end.
CREATE TABLE sessions (
    id              uuid        PRIMARY KEY,
    allocation_id   uuid        NOT NULL,
    project_id      uuid        NOT NULL,
    principal       text        NOT NULL CHECK (principal <> ''),
    -- of the connections that may use it; empty for programs
    origin          text        NOT NULL DEFAULT '',
    -- the process that serves it, and when that was last observed to do so
    replica         text        NOT NULL DEFAULT '',
    seen_time       timestamptz NOT NULL DEFAULT clock_timestamp(),
    recording       text        NOT NULL DEFAULT 'off' CHECK (recording IN ('off', 'kept', 'expired')),
    recording_bytes bigint      NOT NULL DEFAULT 0 CHECK (recording_bytes >= 0),
    open_time       timestamptz NOT NULL DEFAULT clock_timestamp(),
    close_time      timestamptz,
    close_reason    text        NOT NULL DEFAULT '',
    CONSTRAINT sessions_close_after_open CHECK (close_time >= open_time),
    CONSTRAINT sessions_reason_has_time CHECK (close_reason = '' OR (close_time IS NOT NULL) IS TRUE)
);
CREATE INDEX sessions_newest ON sessions (open_time DESC, id DESC);
CREATE INDEX sessions_of_allocation ON sessions (allocation_id, open_time DESC, id DESC);
CREATE INDEX sessions_open ON sessions (principal) WHERE close_time IS NULL;
CREATE INDEX sessions_open_seen ON sessions (seen_time) WHERE close_time IS NULL;
CREATE INDEX sessions_recorded ON sessions (close_time) WHERE recording = 'kept';

-- A ticket opens a session once. It is spent by being shown, whether or not it fits what it is shown for.
CREATE TABLE tickets (
    -- SHA-256 of the ticket; the ticket itself is nowhere
    hash          bytea       PRIMARY KEY CHECK (octet_length(hash) = 32),
    session_id    uuid        NOT NULL UNIQUE,
    allocation_id uuid        NOT NULL,
    project_id    uuid        NOT NULL,
    principal     text        NOT NULL CHECK (principal <> ''),
    origin        text        NOT NULL,
    create_time   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expire_time   timestamptz NOT NULL,
    consume_time  timestamptz,
    CONSTRAINT tickets_expire_after_create CHECK (expire_time > create_time)
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

GRANT SELECT, INSERT ON sessions TO gpuaas_terminal;
GRANT UPDATE (close_time, close_reason, seen_time, recording, recording_bytes) ON sessions TO gpuaas_terminal;
GRANT SELECT, INSERT, DELETE ON tickets, recording_chunks TO gpuaas_terminal;
GRANT UPDATE (consume_time) ON tickets TO gpuaas_terminal;
