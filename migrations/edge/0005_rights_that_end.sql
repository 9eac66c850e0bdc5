-- Rights that end with what they came from: accounts that the platform disabled, terminals of a sign-in or a key, launches into
-- a project that is being closed; and notifications that say whom a change concerns.

-- An administrator of the platform disabled it: the owners of its project do not enable it.
ALTER TABLE principals ADD COLUMN disabled_by_platform boolean NOT NULL DEFAULT false;
-- Nobody but the platform disables people; of service accounts the audit trail says it.
UPDATE principals p SET disabled_by_platform = true
 WHERE p.disable_time IS NOT NULL
   AND (p.kind = 'user'
        OR (SELECT a.action FROM audit a
             WHERE (a.action IN ('principal.disable', 'principal.enable') AND a.resource_id = p.id::text
                    OR a.action IN ('service_account.disable', 'service_account.enable') AND a.detail ->> 'service_account' = p.name)
               AND a.detail ->> 'outcome' IS NULL
             ORDER BY a.seq DESC LIMIT 1) = 'principal.disable');
ALTER TABLE principals ADD CHECK (disable_time IS NOT NULL OR NOT disabled_by_platform);

-- Gateways of the release before enable without knowing of the column.
CREATE FUNCTION forget_who_disabled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.disabled_by_platform := false;
    RETURN NEW;
END $$;
CREATE TRIGGER principals_enabled BEFORE UPDATE OF disable_time ON principals
    FOR EACH ROW WHEN (NEW.disable_time IS NULL) EXECUTE FUNCTION forget_who_disabled();
GRANT UPDATE (disabled_by_platform) ON principals TO gpuaas_edge;

-- Launches that a gateway has handed to a service and that have no answer yet. A project is closed when there are none.
CREATE TABLE project_launches (
    id          uuid        PRIMARY KEY,
    project_id  uuid        NOT NULL REFERENCES projects (id),
    -- The service has ended it by then, whatever became of the gateway.
    expire_time timestamptz NOT NULL
);
CREATE INDEX project_launches_project ON project_launches (project_id);

-- Calls that are closing a project; while there is one nothing begins in it. Its state is not touched.
CREATE TABLE project_closings (
    id          uuid        PRIMARY KEY,
    project_id  uuid        NOT NULL REFERENCES projects (id),
    -- A gateway that was killed closes nothing any more.
    expire_time timestamptz NOT NULL
);
CREATE INDEX project_closings_project ON project_closings (project_id);
GRANT SELECT, INSERT, DELETE ON project_launches TO gpuaas_edge;
GRANT SELECT, INSERT, DELETE ON project_closings TO gpuaas_edge;

-- Notes a launch unless the project takes none, and answers the project's state: 'active', 'suspended', 'closing', 'closed', or
-- null when there is no such project. Who closes or suspends a project holds its row: a launch is noted before, and counts, or
-- comes after, and sees it.
CREATE FUNCTION begin_launch(launch uuid, project uuid, seconds double precision, even_suspended boolean)
RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    now_is text;
BEGIN
    PERFORM 1 FROM projects WHERE id = project FOR KEY SHARE;
    -- a statement of its own: it sees what was committed while the one before waited
    SELECT CASE WHEN 'closed' IN (j.state, o.state) THEN 'closed'
                WHEN EXISTS (SELECT FROM project_closings c
                              WHERE c.project_id = j.id AND c.expire_time > clock_timestamp()) THEN 'closing'
                WHEN 'suspended' IN (j.state, o.state) THEN 'suspended' ELSE 'active' END
      INTO now_is FROM projects j JOIN organisations o ON o.id = j.organisation_id WHERE j.id = project;
    IF now_is = 'active' OR now_is = 'suspended' AND even_suspended THEN
        INSERT INTO project_launches (id, project_id, expire_time)
        VALUES (launch, project, clock_timestamp() + make_interval(secs => seconds));
    END IF;
    RETURN now_is;
END $$;

-- By which sign-in or key a terminal was opened: it ends with that one.
CREATE TABLE terminal_credentials (
    -- Of the terminal gateway.
    session_id  uuid        PRIMARY KEY,
    issuer      text        NOT NULL CHECK (issuer <> ''),
    subject     text        NOT NULL CHECK (subject <> ''),
    sid         text,
    -- By the issuer's clock; 1970 when the token did not say.
    issue_time  timestamptz NOT NULL,
    api_key_id  uuid        REFERENCES api_keys (id),
    create_time timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX terminal_credentials_create_time ON terminal_credentials (create_time);
GRANT SELECT, INSERT, DELETE ON terminal_credentials TO gpuaas_edge;

-- A change of an organisation or of its projects concerns who is in it; a name concerns nobody. A gateway of the release before
-- takes what it cannot read for everybody's change.
CREATE FUNCTION notify_access_in() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('edge_access',
        'organisation:' || ((CASE TG_OP WHEN 'DELETE' THEN to_jsonb(OLD) ELSE to_jsonb(NEW) END) ->> TG_ARGV[0]));
    RETURN NULL;
END $$;
DROP TRIGGER organisations_access ON organisations;
CREATE TRIGGER organisations_access AFTER INSERT OR DELETE OR UPDATE OF state ON organisations
    FOR EACH ROW EXECUTE FUNCTION notify_access_in('id');
DROP TRIGGER projects_access ON projects;
CREATE TRIGGER projects_access AFTER INSERT OR DELETE OR UPDATE OF state ON projects
    FOR EACH ROW EXECUTE FUNCTION notify_access_in('organisation_id');
DROP TRIGGER api_keys_access ON api_keys;
CREATE TRIGGER api_keys_access AFTER INSERT OR DELETE OR UPDATE OF disable_time, expire_time ON api_keys
    FOR EACH ROW EXECUTE FUNCTION notify_access_of('principal_id');

-- A logout concerns its subject, when it names one that is registered; otherwise it may be anybody's.
CREATE FUNCTION notify_logout() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pg_notify('edge_access', coalesce(
        (SELECT p.id::text FROM principals p WHERE p.issuer = NEW.issuer AND p.subject = NEW.subject), ''));
    RETURN NULL;
END $$;
DROP TRIGGER logouts_access ON logouts;
CREATE TRIGGER logouts_access AFTER INSERT ON logouts
    FOR EACH ROW EXECUTE FUNCTION notify_logout();
