-- How members read of who invited is noted when it is done, like all else that edge/0012 speaks of: somebody who ran the platform
-- then, and does not any more or is a member by now, has no name there either. And what a gateway of a release before edge/0012
-- writes while it is rolled out is put right by the database, which knows who writes as a member.
CREATE FUNCTION name_for_members(of_name text, of_project uuid, of_organisation uuid) RETURNS text
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT CASE WHEN EXISTS (
        SELECT FROM principals p
         WHERE p.name = of_name AND p.platform_role IS NOT NULL
           AND NOT EXISTS (SELECT FROM memberships m WHERE m.principal_id = p.id AND m.project_id = of_project)
           AND NOT EXISTS (
                SELECT FROM organisation_memberships m
                 WHERE m.principal_id = p.id
                   AND m.organisation_id = coalesce(of_organisation, (SELECT j.organisation_id FROM projects j WHERE j.id = of_project))))
    THEN 'operator' ELSE of_name END
$$;

-- What was made before shows the name of who was a member then, is one now, and is not on record as an operator. Of who is no
-- member now, nothing says whether he was one or ran the platform, so it shows none.
ALTER TABLE invitations ADD COLUMN shown_inviter text;
ALTER TABLE invitations DISABLE TRIGGER invitations_used;
UPDATE invitations SET shown_inviter = 'operator';
UPDATE invitations i SET shown_inviter = i.inviter
  FROM principals p
 WHERE p.name = i.inviter
   AND (EXISTS (SELECT FROM memberships m WHERE m.principal_id = p.id AND m.project_id = i.project_id AND m.create_time <= i.create_time)
        OR EXISTS (
            SELECT FROM organisation_memberships m
             WHERE m.principal_id = p.id AND m.create_time <= i.create_time
               AND m.organisation_id = coalesce(i.organisation_id, (SELECT j.organisation_id FROM projects j WHERE j.id = i.project_id))))
   AND i.id::text NOT IN (
        SELECT a.detail ->> 'invitation_id' FROM audit a
         WHERE a.action = 'invitation.create' AND a.detail ->> 'by_operator' = 'true' AND a.detail ->> 'invitation_id' IS NOT NULL);
ALTER TABLE invitations ENABLE TRIGGER invitations_used;
ALTER TABLE invitations ALTER COLUMN shown_inviter SET NOT NULL;

CREATE FUNCTION note_shown_inviter() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.shown_inviter := coalesce(NEW.shown_inviter, name_for_members(NEW.inviter, NEW.project_id, NEW.organisation_id));
    RETURN NEW;
END $$;
CREATE TRIGGER invitations_shown_inviter BEFORE INSERT ON invitations FOR EACH ROW EXECUTE FUNCTION note_shown_inviter();

-- The creators, of what belongs to a project,
CREATE FUNCTION hide_operator() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.creator := name_for_members(NEW.creator, NEW.project_id, NULL);
    RETURN NEW;
END $$;
CREATE TRIGGER service_accounts_operator BEFORE INSERT ON service_accounts FOR EACH ROW EXECUTE FUNCTION hide_operator();
CREATE TRIGGER allocation_grants_operator BEFORE INSERT ON allocation_grants FOR EACH ROW EXECUTE FUNCTION hide_operator();
CREATE TRIGGER scim_group_mappings_operator BEFORE INSERT ON scim_group_mappings FOR EACH ROW EXECUTE FUNCTION hide_operator();
-- to a service account of one,
CREATE FUNCTION hide_operator_of_key() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.creator := name_for_members(
        NEW.creator, (SELECT a.project_id FROM service_accounts a WHERE a.principal_id = NEW.principal_id), NULL);
    RETURN NEW;
END $$;
CREATE TRIGGER api_keys_operator BEFORE INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION hide_operator_of_key();
-- or to a project or an organisation, where the reason of a disabled one names somebody, too.
CREATE FUNCTION hide_operator_of_webhook() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    says CONSTANT text := ' disabled it.';
    who  CONSTANT text := left(NEW.disable_reason, -length(says));
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.creator := name_for_members(NEW.creator, NEW.project_id, NEW.organisation_id);
    ELSIF NEW.disable_reason LIKE '%' || says AND name_for_members(who, NEW.project_id, NEW.organisation_id) <> who THEN
        NEW.disable_reason := 'An operator disabled it.';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER webhooks_operator BEFORE INSERT OR UPDATE OF disable_reason ON webhooks
    FOR EACH ROW EXECUTE FUNCTION hide_operator_of_webhook();

-- What such a gateway has written since edge/0012.
UPDATE webhooks SET creator = name_for_members(creator, project_id, organisation_id)
 WHERE creator <> name_for_members(creator, project_id, organisation_id);
UPDATE webhooks SET disable_reason = 'An operator disabled it.'
 WHERE disable_reason LIKE '% disabled it.'
   AND name_for_members(left(disable_reason, -length(' disabled it.')), project_id, organisation_id)
       <> left(disable_reason, -length(' disabled it.'));
UPDATE service_accounts SET creator = 'operator' WHERE creator <> name_for_members(creator, project_id, NULL);
UPDATE api_keys k SET creator = 'operator' FROM service_accounts a
 WHERE a.principal_id = k.principal_id AND k.creator <> name_for_members(k.creator, a.project_id, NULL);
UPDATE allocation_grants SET creator = 'operator' WHERE creator <> name_for_members(creator, project_id, NULL);
UPDATE scim_group_mappings SET creator = 'operator' WHERE creator <> name_for_members(creator, project_id, NULL);
