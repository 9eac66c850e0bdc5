-- What organisations and projects are besides names: a state, members with roles, invitations, SSH keys; and roles on the whole
-- platform. Who could do something keeps it: members of projects own them, administrators stay administrators.

-- Each change of a row is a new version of it, which its etag says.
CREATE FUNCTION next_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    NEW.update_time := clock_timestamp();
    RETURN NEW;
END $$;

-- What is closed stays closed.
CREATE FUNCTION keep_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a closed % stays closed', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END $$;

ALTER TABLE organisations
    ADD COLUMN state        text        NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suspended', 'closed')),
    ADD COLUMN state_reason text        NOT NULL DEFAULT '',
    ADD COLUMN update_time  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN version      bigint      NOT NULL DEFAULT 1;

ALTER TABLE projects
    ADD COLUMN state                 text        NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suspended', 'closed')),
    ADD COLUMN state_reason          text        NOT NULL DEFAULT '',
    -- Suspended by an administrator of the platform: its owners do not resume it.
    ADD COLUMN suspended_by_platform boolean     NOT NULL DEFAULT false,
    ADD COLUMN update_time           timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN version               bigint      NOT NULL DEFAULT 1,
    ADD CHECK (state <> 'active' OR NOT suspended_by_platform);

ALTER TABLE memberships
    ADD COLUMN role        text        NOT NULL DEFAULT 'owner' CHECK (role IN ('owner', 'member', 'viewer', 'billing')),
    ADD COLUMN update_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN version     bigint      NOT NULL DEFAULT 1;
-- From now on whoever adds a member says its role.
ALTER TABLE memberships ALTER COLUMN role DROP DEFAULT;
-- Pages of a project's members, however many.
CREATE INDEX memberships_project_page ON memberships (project_id, principal_id);
DROP INDEX memberships_project;

ALTER TABLE principals
    ADD COLUMN kind          text        NOT NULL DEFAULT 'user' CHECK (kind IN ('user', 'service')),
    ADD COLUMN platform_role text        CHECK (platform_role IN ('admin', 'operator', 'auditor')),
    -- As the issuer has verified it; empty: it has not.
    ADD COLUMN email         text        NOT NULL DEFAULT '' CHECK (length(email) <= 254),
    ADD COLUMN update_time   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN version       bigint      NOT NULL DEFAULT 1;
UPDATE principals SET kind = split_part(name, ':', 1), platform_role = CASE WHEN platform_admin THEN 'admin' END;
ALTER TABLE principals DROP COLUMN platform_admin;
ALTER TABLE principals
    -- For gateways of the release before, as long as some run.
    ADD COLUMN platform_admin boolean NOT NULL GENERATED ALWAYS AS (coalesce(platform_role = 'admin', false)) STORED,
    ADD CHECK (kind = split_part(name, ':', 1)),
    ADD CHECK (kind = 'user' OR platform_role IS DISTINCT FROM 'admin');
CREATE INDEX principals_platform_role ON principals (platform_role, id) WHERE platform_role IS NOT NULL;

-- A role here counts in all projects of the organisation.
CREATE TABLE organisation_memberships (
    organisation_id uuid        NOT NULL REFERENCES organisations (id),
    principal_id    uuid        NOT NULL REFERENCES principals (id),
    role            text        NOT NULL CHECK (role IN ('owner', 'member', 'viewer', 'billing')),
    create_time     timestamptz NOT NULL DEFAULT clock_timestamp(),
    update_time     timestamptz NOT NULL DEFAULT clock_timestamp(),
    version         bigint      NOT NULL DEFAULT 1,
    PRIMARY KEY (organisation_id, principal_id)
);
CREATE INDEX organisation_memberships_principal ON organisation_memberships (principal_id);

-- For people who are not registered yet. The token itself is nowhere.
CREATE TABLE invitations (
    id              uuid        PRIMARY KEY,
    organisation_id uuid        REFERENCES organisations (id),
    project_id      uuid        REFERENCES projects (id),
    email           text        NOT NULL CHECK (length(email) BETWEEN 3 AND 254),
    role            text        NOT NULL CHECK (role IN ('owner', 'member', 'viewer', 'billing')),
    -- SHA-256 of the token.
    token_hash      bytea       NOT NULL UNIQUE CHECK (octet_length(token_hash) = 32),
    -- Principal who invited.
    inviter         text        NOT NULL,
    create_time     timestamptz NOT NULL DEFAULT clock_timestamp(),
    expire_time     timestamptz NOT NULL,
    revoke_time     timestamptz,
    accept_time     timestamptz,
    accepted_by     uuid        REFERENCES principals (id),
    CHECK (num_nonnulls(organisation_id, project_id) = 1),
    CHECK ((accept_time IS NULL) = (accepted_by IS NULL)),
    CHECK (num_nonnulls(revoke_time, accept_time) <= 1)
);
CREATE INDEX invitations_organisation ON invitations (organisation_id, id);
CREATE INDEX invitations_project ON invitations (project_id, id);
-- It is good once.
CREATE TRIGGER invitations_used BEFORE UPDATE ON invitations
    FOR EACH ROW WHEN (num_nonnulls(OLD.revoke_time, OLD.accept_time) > 0) EXECUTE FUNCTION refuse_change();

-- Public keys by name, of a principal or of a project.
CREATE TABLE ssh_keys (
    id           uuid        PRIMARY KEY,
    principal_id uuid        REFERENCES principals (id),
    project_id   uuid        REFERENCES projects (id),
    name         text        NOT NULL CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),
    -- One line of OpenSSH: type, base64, comment.
    public_key   text        NOT NULL CHECK (length(public_key) <= 8192 AND public_key !~ '[[:cntrl:]]'),
    -- "SHA256:…".
    fingerprint  text        NOT NULL,
    create_time  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (num_nonnulls(principal_id, project_id) = 1),
    UNIQUE (principal_id, name),
    UNIQUE (project_id, name)
);

-- The projects of a principal, each with its strongest role there, by membership of the project or of its organisation, and with
-- the state that allows less of both. A function and no view, so that each read of one principal touches its own rows only.
CREATE FUNCTION access_of(principal uuid)
RETURNS TABLE (project_id uuid, role text, since timestamptz, state text) LANGUAGE sql STABLE AS $$
    SELECT j.id,
           (ARRAY['billing', 'viewer', 'member', 'owner'])[max(array_position(ARRAY['billing', 'viewer', 'member', 'owner'], g.role))],
           min(g.since),
           CASE WHEN 'closed' IN (j.state, o.state) THEN 'closed'
                WHEN 'suspended' IN (j.state, o.state) THEN 'suspended' ELSE 'active' END
      FROM (SELECT m.project_id, m.role, m.create_time AS since FROM memberships m WHERE m.principal_id = principal
            UNION ALL
            SELECT p.id, m.role, greatest(m.create_time, p.create_time)
              FROM organisation_memberships m JOIN projects p ON p.organisation_id = m.organisation_id
             WHERE m.principal_id = principal) g
      JOIN projects j ON j.id = g.project_id
      JOIN organisations o ON o.id = j.organisation_id
     GROUP BY j.id, o.id
$$;

CREATE TRIGGER organisations_version BEFORE UPDATE ON organisations FOR EACH ROW EXECUTE FUNCTION next_version();
CREATE TRIGGER projects_version BEFORE UPDATE ON projects FOR EACH ROW EXECUTE FUNCTION next_version();
CREATE TRIGGER principals_version BEFORE UPDATE ON principals FOR EACH ROW EXECUTE FUNCTION next_version();
CREATE TRIGGER memberships_version BEFORE UPDATE ON memberships FOR EACH ROW EXECUTE FUNCTION next_version();
CREATE TRIGGER organisation_memberships_version BEFORE UPDATE ON organisation_memberships
    FOR EACH ROW EXECUTE FUNCTION next_version();

CREATE TRIGGER organisations_closed BEFORE UPDATE OF state ON organisations
    FOR EACH ROW WHEN (OLD.state = 'closed' AND NEW.state <> 'closed') EXECUTE FUNCTION keep_closed('organisation');
CREATE TRIGGER projects_closed BEFORE UPDATE OF state ON projects
    FOR EACH ROW WHEN (OLD.state = 'closed' AND NEW.state <> 'closed') EXECUTE FUNCTION keep_closed('project');

-- What gateways cache of callers says which projects they have, with roles and states. A notification says whose access has
-- changed, so that the open streams of that principal alone are checked at once; an empty one means everybody's.
CREATE FUNCTION notify_access_of() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('edge_access', (CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END) ->> TG_ARGV[0]);
    RETURN NULL;
END $$;
DROP TRIGGER principals_access ON principals;
CREATE TRIGGER principals_access AFTER INSERT OR UPDATE OR DELETE ON principals
    FOR EACH ROW EXECUTE FUNCTION notify_access_of('id');
DROP TRIGGER memberships_access ON memberships;
CREATE TRIGGER memberships_access AFTER INSERT OR UPDATE OR DELETE ON memberships
    FOR EACH ROW EXECUTE FUNCTION notify_access_of('principal_id');
CREATE TRIGGER organisation_memberships_access AFTER INSERT OR UPDATE OR DELETE ON organisation_memberships
    FOR EACH ROW EXECUTE FUNCTION notify_access_of('principal_id');
CREATE TRIGGER organisations_access AFTER INSERT OR UPDATE OR DELETE ON organisations
    FOR EACH STATEMENT EXECUTE FUNCTION notify_access();
CREATE TRIGGER projects_access AFTER INSERT OR UPDATE OR DELETE ON projects
    FOR EACH STATEMENT EXECUTE FUNCTION notify_access();

GRANT UPDATE (display_name, state, state_reason) ON organisations TO gpuaas_edge;
GRANT UPDATE (display_name, state, state_reason, suspended_by_platform) ON projects TO gpuaas_edge;
GRANT UPDATE (platform_role) ON principals TO gpuaas_edge;
GRANT UPDATE (role) ON memberships TO gpuaas_edge;
GRANT SELECT, INSERT, DELETE ON organisation_memberships TO gpuaas_edge;
GRANT UPDATE (role) ON organisation_memberships TO gpuaas_edge;
GRANT SELECT, INSERT ON invitations TO gpuaas_edge;
GRANT UPDATE (revoke_time, accept_time, accepted_by) ON invitations TO gpuaas_edge;
GRANT SELECT, INSERT, DELETE ON ssh_keys TO gpuaas_edge;
