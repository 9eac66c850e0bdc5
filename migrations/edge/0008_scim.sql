-- People and groups that an organisation's identity provider keeps here by SCIM 2.0 (RFC 7643, RFC 7644).

-- Which issuer an organisation's people come from: what its SCIM registers are identities of that one. Set by administrators of
-- the platform, for who says who somebody is may call as that one.
CREATE TABLE scim_settings (
    organisation_id   uuid        PRIMARY KEY REFERENCES organisations (id),
    issuer            text        NOT NULL CHECK (issuer <> ''),
    -- The attribute of a SCIM user that is the subject in the issuer's tokens.
    subject_attribute text        NOT NULL CHECK (subject_attribute IN ('user_name', 'external_id')),
    create_time       timestamptz NOT NULL DEFAULT clock_timestamp(),
    update_time       timestamptz NOT NULL DEFAULT clock_timestamp(),
    version           bigint      NOT NULL DEFAULT 1
);

-- Registered by the SCIM of this organisation, which may disable it and enable it again; of others it only ends memberships.
ALTER TABLE principals ADD COLUMN scim_organisation_id uuid REFERENCES organisations (id);

CREATE TABLE scim_users (
    id              uuid        PRIMARY KEY,
    organisation_id uuid        NOT NULL REFERENCES organisations (id),
    principal_id    uuid        NOT NULL REFERENCES principals (id),
    user_name       text        NOT NULL CHECK (length(user_name) BETWEEN 1 AND 256),
    external_id     text        CHECK (length(external_id) BETWEEN 1 AND 256),
    -- Null: not said; who is not said to be active is not.
    active          boolean,
    -- What else the schema has, as it was sent: name, displayName, emails.
    attributes      jsonb       NOT NULL CHECK (jsonb_typeof(attributes) = 'object'),
    create_time     timestamptz NOT NULL DEFAULT clock_timestamp(),
    update_time     timestamptz NOT NULL DEFAULT clock_timestamp(),
    version         bigint      NOT NULL DEFAULT 1,
    UNIQUE (organisation_id, principal_id)
);
CREATE UNIQUE INDEX scim_users_user_name ON scim_users (organisation_id, lower(user_name));
CREATE INDEX scim_users_external_id ON scim_users (organisation_id, external_id);
CREATE INDEX scim_users_page ON scim_users (organisation_id, id);
CREATE INDEX scim_users_principal ON scim_users (principal_id);

CREATE TABLE scim_groups (
    id              uuid        PRIMARY KEY,
    organisation_id uuid        NOT NULL REFERENCES organisations (id),
    display_name    text        NOT NULL CHECK (length(display_name) BETWEEN 1 AND 256),
    external_id     text        CHECK (length(external_id) BETWEEN 1 AND 256),
    create_time     timestamptz NOT NULL DEFAULT clock_timestamp(),
    update_time     timestamptz NOT NULL DEFAULT clock_timestamp(),
    version         bigint      NOT NULL DEFAULT 1
);
CREATE UNIQUE INDEX scim_groups_display_name ON scim_groups (organisation_id, lower(display_name));
CREATE INDEX scim_groups_page ON scim_groups (organisation_id, id);

CREATE TABLE scim_group_members (
    group_id uuid NOT NULL REFERENCES scim_groups (id) ON DELETE CASCADE,
    user_id  uuid NOT NULL REFERENCES scim_users (id) ON DELETE CASCADE,
    PRIMARY KEY (group_id, user_id)
);
CREATE INDEX scim_group_members_user ON scim_group_members (user_id);

-- What a group is good for: its members have the role in the project. Without a mapping a group gives nothing.
CREATE TABLE scim_group_mappings (
    id          uuid        PRIMARY KEY,
    group_id    uuid        NOT NULL REFERENCES scim_groups (id) ON DELETE CASCADE,
    project_id  uuid        NOT NULL REFERENCES projects (id),
    role        text        NOT NULL CHECK (role IN ('owner', 'member', 'viewer', 'billing')),
    -- Principal who made it.
    creator     text        NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (group_id, project_id)
);
CREATE INDEX scim_group_mappings_project ON scim_group_mappings (project_id);

-- A membership that mappings of groups give: it ends with them, and no hand changes it. One that a hand gave stays.
ALTER TABLE memberships ADD COLUMN scim boolean NOT NULL DEFAULT false;

-- What the key's account may do for the organisation that its project is of: keep people and groups.
ALTER TABLE api_keys DROP CONSTRAINT api_keys_scopes_check;
ALTER TABLE api_keys ADD CONSTRAINT api_keys_scopes_check
    CHECK (cardinality(scopes) > 0 AND scopes <@ ARRAY['read', 'billing', 'write', 'terminal', 'manage', 'scim']);

-- The memberships that the active SCIM users of an organisation have by the mappings of their groups: of several roles in one
-- project the strongest.
CREATE FUNCTION scim_wanted(organisation uuid, principals uuid[])
RETURNS TABLE (principal_id uuid, project_id uuid, role text) LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT u.principal_id, g.project_id,
           (ARRAY['billing', 'viewer', 'member', 'owner'])
               [max(array_position(ARRAY['billing', 'viewer', 'member', 'owner'], g.role))]
      FROM scim_users u
      JOIN scim_group_members m ON m.user_id = u.id
      JOIN scim_group_mappings g ON g.group_id = m.group_id
      JOIN projects j ON j.id = g.project_id AND j.state <> 'closed'
     WHERE u.organisation_id = organisation AND u.active AND u.principal_id = ANY (principals)
     GROUP BY u.principal_id, g.project_id
$$;

-- Brings the memberships of these principals in the projects of an organisation to what is wanted, and answers what that changed.
-- What a hand gave is left alone.
CREATE FUNCTION sync_scim_memberships(organisation uuid, principals uuid[])
RETURNS TABLE (principal text, project uuid, before text, after text) LANGUAGE sql SET search_path FROM CURRENT AS $$
    WITH wanted AS (SELECT * FROM scim_wanted(organisation, principals)),
    held AS (
        SELECT m.principal_id, m.project_id, m.role FROM memberships m JOIN projects j ON j.id = m.project_id
         WHERE j.organisation_id = organisation AND m.scim AND m.principal_id = ANY (principals)),
    ended AS (
        DELETE FROM memberships m USING held h
         WHERE m.principal_id = h.principal_id AND m.project_id = h.project_id
           AND NOT EXISTS (SELECT FROM wanted w WHERE w.principal_id = h.principal_id AND w.project_id = h.project_id)
        RETURNING m.principal_id, m.project_id, h.role AS before, NULL::text AS after),
    changed AS (
        UPDATE memberships m SET role = w.role FROM wanted w JOIN held h USING (principal_id, project_id)
         WHERE m.principal_id = w.principal_id AND m.project_id = w.project_id AND h.role <> w.role
        RETURNING m.principal_id, m.project_id, h.role, m.role),
    begun AS (
        INSERT INTO memberships (principal_id, project_id, role, scim)
        SELECT w.principal_id, w.project_id, w.role, true FROM wanted w
        ON CONFLICT (principal_id, project_id) DO NOTHING
        RETURNING principal_id, project_id, NULL::text, role)
    SELECT p.name, c.project_id, c.before, c.after
      FROM (SELECT * FROM ended UNION ALL SELECT * FROM changed UNION ALL SELECT * FROM begun) c
      JOIN principals p ON p.id = c.principal_id
     ORDER BY p.name, c.project_id
$$;

CREATE TRIGGER scim_settings_version BEFORE UPDATE ON scim_settings FOR EACH ROW EXECUTE FUNCTION next_version();
CREATE TRIGGER scim_users_version BEFORE UPDATE ON scim_users FOR EACH ROW EXECUTE FUNCTION next_version();
CREATE TRIGGER scim_groups_version BEFORE UPDATE ON scim_groups FOR EACH ROW EXECUTE FUNCTION next_version();

GRANT SELECT, INSERT ON scim_settings TO gpuaas_edge;
GRANT UPDATE (issuer, subject_attribute) ON scim_settings TO gpuaas_edge;
GRANT SELECT, INSERT, DELETE ON scim_users TO gpuaas_edge;
GRANT UPDATE (user_name, external_id, active, attributes) ON scim_users TO gpuaas_edge;
GRANT SELECT, INSERT, DELETE ON scim_groups TO gpuaas_edge;
GRANT UPDATE (display_name, external_id) ON scim_groups TO gpuaas_edge;
GRANT SELECT, INSERT, DELETE ON scim_group_members TO gpuaas_edge;
GRANT SELECT, INSERT, DELETE ON scim_group_mappings TO gpuaas_edge;
-- A person that SCIM registered may get another name at the issuer; who else somebody is, nobody changes.
GRANT UPDATE (subject, email) ON principals TO gpuaas_edge;
CREATE TRIGGER principals_subject BEFORE UPDATE OF subject ON principals
    FOR EACH ROW WHEN (OLD.subject <> NEW.subject AND (OLD.scim_organisation_id IS NULL OR OLD.platform_role IS NOT NULL))
    EXECUTE FUNCTION refuse_change();
GRANT UPDATE (scim) ON memberships TO gpuaas_edge;
