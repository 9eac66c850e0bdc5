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

-- Whoever comes back to a project is let into its allocations anew, or not at all.
CREATE FUNCTION end_allocation_grants() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM allocation_grants g USING projects j
     WHERE g.principal_id = OLD.principal_id AND j.id = g.project_id
       AND NOT EXISTS (SELECT FROM memberships m WHERE m.project_id = j.id AND m.principal_id = g.principal_id)
       AND NOT EXISTS (SELECT FROM organisation_memberships m
                        WHERE m.organisation_id = j.organisation_id AND m.principal_id = g.principal_id);
    RETURN NULL;
END $$;
CREATE TRIGGER memberships_end_allocation_grants AFTER DELETE ON memberships
    FOR EACH ROW EXECUTE FUNCTION end_allocation_grants();
CREATE TRIGGER organisation_memberships_end_allocation_grants AFTER DELETE ON organisation_memberships
    FOR EACH ROW EXECUTE FUNCTION end_allocation_grants();
