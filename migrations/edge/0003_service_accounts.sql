-- Programs that call: service accounts of projects, and the keys by which they do.

-- A service account is a principal of kind 'service' whose issuer is this cell; its role in the project is its membership.
CREATE TABLE service_accounts (
    principal_id uuid        PRIMARY KEY REFERENCES principals (id),
    project_id   uuid        NOT NULL REFERENCES projects (id),
    slug         text        NOT NULL CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    description  text        NOT NULL CHECK (length(description) <= 500),
    -- Principal who made it.
    creator      text        NOT NULL,
    create_time  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Its row stays, for the audit trail names it.
    delete_time  timestamptz
);
CREATE UNIQUE INDEX service_accounts_slug ON service_accounts (project_id, slug) WHERE delete_time IS NULL;
CREATE INDEX service_accounts_page ON service_accounts (project_id, principal_id) WHERE delete_time IS NULL;

-- A key is shown once. What is kept does not give it back.
CREATE TABLE api_keys (
    id             uuid        PRIMARY KEY,
    principal_id   uuid        NOT NULL REFERENCES service_accounts (principal_id),
    display_name   text        NOT NULL CHECK (length(display_name) <= 200),
    -- SHA-256 of the whole key.
    hash           bytea       NOT NULL CHECK (octet_length(hash) = 32),
    scopes         text[]      NOT NULL CHECK (cardinality(scopes) > 0
                                               AND scopes <@ ARRAY['read', 'billing', 'write', 'terminal', 'manage']),
    -- Principal who made it.
    creator        text        NOT NULL,
    create_time    timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Never, when absent.
    expire_time    timestamptz,
    disable_time   timestamptz,
    -- To the minute: a call costs no write of its own.
    last_used_time timestamptz,
    -- The key in whose place it came.
    replaces       uuid        UNIQUE REFERENCES api_keys (id)
);
CREATE INDEX api_keys_page ON api_keys (principal_id, id);

-- A key that is disabled stays so: who found it may not use it when somebody thinks better of it.
CREATE TRIGGER api_keys_disabled BEFORE UPDATE OF disable_time ON api_keys
    FOR EACH ROW WHEN (OLD.disable_time IS NOT NULL) EXECUTE FUNCTION refuse_change();

-- Gateways drop what they keep of callers; not for each use of a key.
CREATE TRIGGER api_keys_access AFTER INSERT OR DELETE OR UPDATE OF disable_time, expire_time ON api_keys
    FOR EACH STATEMENT EXECUTE FUNCTION notify_access();

GRANT SELECT, INSERT ON service_accounts TO gpuaas_edge;
GRANT UPDATE (delete_time) ON service_accounts TO gpuaas_edge;
GRANT SELECT, INSERT ON api_keys TO gpuaas_edge;
GRANT UPDATE (expire_time, disable_time, last_used_time) ON api_keys TO gpuaas_edge;
