-- Who may call: organisations, their projects, principals, and which principal belongs to which project.
-- Denials are recorded in the table audit of this schema.

-- Owners of projects.
CREATE TABLE organisations (
    id           uuid        PRIMARY KEY,
    slug         text        NOT NULL UNIQUE CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    display_name text        NOT NULL,
    create_time  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What allocations belong to.
CREATE TABLE projects (
    id              uuid        PRIMARY KEY,
    organisation_id uuid        NOT NULL REFERENCES organisations (id),
    slug            text        NOT NULL CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    display_name    text        NOT NULL,
    create_time     timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (organisation_id, slug)
);

-- Users and services that may call.
CREATE TABLE principals (
    id             uuid        PRIMARY KEY,
    -- Stable name in audit trails and internal tokens, for example "user:alice".
    name           text        NOT NULL UNIQUE CHECK (name ~ '^(user|service):[A-Za-z0-9._@-]{1,128}$'),
    -- The issuer's name for the principal; a subject means nothing without its issuer.
    issuer         text        NOT NULL CHECK (issuer <> ''),
    subject        text        NOT NULL CHECK (subject <> ''),
    display_name   text        NOT NULL,
    platform_admin boolean     NOT NULL,
    -- A disabled principal's tokens are refused, however long they are valid.
    disable_time   timestamptz,
    create_time    timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (issuer, subject)
);

-- Which principal may work in which project.
CREATE TABLE memberships (
    principal_id uuid        NOT NULL REFERENCES principals (id),
    project_id   uuid        NOT NULL REFERENCES projects (id),
    create_time  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (principal_id, project_id)
);
CREATE INDEX memberships_project ON memberships (project_id);

GRANT SELECT, INSERT ON organisations TO gpuaas_edge;
GRANT SELECT, INSERT ON projects TO gpuaas_edge;
GRANT SELECT, INSERT ON principals TO gpuaas_edge;
-- Whether someone administers the platform is decided once, at registration: no statement of the edge changes it.
GRANT UPDATE (display_name, disable_time) ON principals TO gpuaas_edge;
GRANT SELECT, INSERT, DELETE ON memberships TO gpuaas_edge;

-- Gateways cache callers for seconds. Each change of a caller's access notifies them to drop the entry.
CREATE FUNCTION notify_access() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('edge_access', '');
    RETURN NULL;
END $$;
CREATE TRIGGER principals_access AFTER INSERT OR UPDATE OR DELETE ON principals
    FOR EACH STATEMENT EXECUTE FUNCTION notify_access();
CREATE TRIGGER memberships_access AFTER INSERT OR UPDATE OR DELETE ON memberships
    FOR EACH STATEMENT EXECUTE FUNCTION notify_access();
