-- Who was let into one allocation of a project, whatever their role there. Worth nothing to who is not in the project.
CREATE TABLE allocation_grants (
    id            uuid        PRIMARY KEY,
    project_id    uuid        NOT NULL REFERENCES projects (id),
    -- Of the ledger. It finds the allocation in this project, or not at all.
    allocation_id uuid        NOT NULL,
    principal_id  uuid        NOT NULL REFERENCES principals (id),
    permission    text        NOT NULL CHECK (permission IN ('terminal', 'serial_log')),
    -- Principal who granted it.
    creator       text        NOT NULL CHECK (creator <> ''),
    create_time   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expire_time   timestamptz NOT NULL,
    UNIQUE (principal_id, allocation_id, permission)
);
CREATE INDEX allocation_grants_project ON allocation_grants (project_id, id);
CREATE TRIGGER allocation_grants_access AFTER INSERT OR DELETE ON allocation_grants
    FOR EACH ROW EXECUTE FUNCTION notify_access_of('principal_id');
GRANT SELECT, INSERT, DELETE ON allocation_grants TO gpuaas_edge;
