-- Endpoints that events are delivered to, and what is delivered to them.

CREATE TABLE webhooks (
    id                     uuid        PRIMARY KEY,
    -- Whose events it gets: a project's, or those of all projects of an organisation.
    project_id             uuid        REFERENCES projects (id),
    organisation_id        uuid        REFERENCES organisations (id),
    url                    text        NOT NULL CHECK (url <> '' AND octet_length(url) <= 2000),
    -- Empty: all.
    event_types            text[]      NOT NULL,
    description            text        NOT NULL CHECK (length(description) <= 500),
    state                  text        NOT NULL DEFAULT 'enabled' CHECK (state IN ('enabled', 'disabled')),
    disable_reason         text        NOT NULL DEFAULT '',
    disable_time           timestamptz,
    -- Since when no delivery has succeeded.
    failing_time           timestamptz,
    -- Sealed by the gateways' key: the database alone signs nothing.
    secret                 bytea       NOT NULL,
    previous_secret        bytea,
    previous_expire_time   timestamptz,
    -- Principal who made it.
    creator                text        NOT NULL,
    create_time            timestamptz NOT NULL DEFAULT clock_timestamp(),
    update_time            timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Since when it is enabled: it gets the events from then on.
    enable_time            timestamptz NOT NULL DEFAULT clock_timestamp(),
    version                bigint      NOT NULL DEFAULT 1,
    CHECK ((project_id IS NULL) <> (organisation_id IS NULL)),
    CHECK ((state = 'disabled') = (disable_time IS NOT NULL)),
    CHECK ((previous_secret IS NULL) = (previous_expire_time IS NULL))
);
CREATE INDEX webhooks_project ON webhooks (project_id, id) WHERE project_id IS NOT NULL;
CREATE INDEX webhooks_organisation ON webhooks (organisation_id, id) WHERE organisation_id IS NOT NULL;

CREATE TABLE webhook_deliveries (
    id                uuid        PRIMARY KEY,
    -- The order in which deliveries of one object are made.
    seq               bigint      GENERATED ALWAYS AS IDENTITY,
    webhook_id        uuid        NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    event_type        text        NOT NULL,
    object_id         uuid        NOT NULL,
    -- Of the event in the ledger's log; null for a ping.
    position          bigint,
    -- The body, as it is signed.
    body              text        NOT NULL,
    state             text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    -- Of its whole life: a result counts for the attempt that it is of.
    attempts          integer     NOT NULL DEFAULT 0,
    -- Since it was last queued: the pauses grow with them.
    tries             integer     NOT NULL DEFAULT 0,
    response_status   integer     NOT NULL DEFAULT 0,
    error             text        NOT NULL DEFAULT '',
    create_time       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Since when it is pending: it fails when that is too long ago.
    queue_time        timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_attempt_time timestamptz,
    next_attempt_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    deliver_time      timestamptz,
    -- A gateway has it until then; one that was killed leaves it to the others.
    lease_expire_time timestamptz,
    UNIQUE (webhook_id, position)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_attempt_time) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_order ON webhook_deliveries (webhook_id, object_id, seq) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_in_hand ON webhook_deliveries (webhook_id) WHERE lease_expire_time IS NOT NULL;
CREATE INDEX webhook_deliveries_page ON webhook_deliveries (webhook_id, id DESC);
CREATE INDEX webhook_deliveries_old ON webhook_deliveries (create_time) WHERE state <> 'pending';

-- How far the ledger's log is read. One row.
CREATE TABLE webhook_head (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    position bigint  NOT NULL DEFAULT 0
);
INSERT INTO webhook_head DEFAULT VALUES;

GRANT SELECT, INSERT, UPDATE, DELETE ON webhooks, webhook_deliveries TO gpuaas_edge;
GRANT SELECT ON webhook_head TO gpuaas_edge;
GRANT UPDATE (position) ON webhook_head TO gpuaas_edge;
