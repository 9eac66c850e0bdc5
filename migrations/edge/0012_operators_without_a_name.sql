-- Who makes something for members by a role on the platform, and is none of them, has no name there from now on: the gateway writes
-- "operator", as the activities of a project show it. The same for what was made before, by who has such a role now. The audit trail
-- has the name. An invitation keeps it: it is void once its sender may not give the role.
CREATE FUNCTION acted_as_operator(of_name text, of_project uuid, of_organisation uuid) RETURNS boolean
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT EXISTS (
        SELECT FROM principals p
         WHERE p.name = of_name AND p.platform_role IS NOT NULL
           AND NOT EXISTS (SELECT FROM memberships m WHERE m.principal_id = p.id AND m.project_id = of_project)
           AND NOT EXISTS (
                SELECT FROM organisation_memberships m
                 WHERE m.principal_id = p.id
                   AND m.organisation_id = coalesce(of_organisation, (SELECT j.organisation_id FROM projects j WHERE j.id = of_project))))
$$;
UPDATE webhooks SET creator = 'operator' WHERE acted_as_operator(creator, project_id, organisation_id);
UPDATE webhooks SET disable_reason = 'An operator disabled it.'
 WHERE disable_reason LIKE '% disabled it.'
   AND acted_as_operator(left(disable_reason, -length(' disabled it.')), project_id, organisation_id);
UPDATE service_accounts SET creator = 'operator' WHERE acted_as_operator(creator, project_id, NULL);
UPDATE api_keys k SET creator = 'operator' FROM service_accounts a
 WHERE a.principal_id = k.principal_id AND acted_as_operator(k.creator, a.project_id, NULL);
UPDATE allocation_grants SET creator = 'operator' WHERE acted_as_operator(creator, project_id, NULL);
UPDATE scim_group_mappings SET creator = 'operator' WHERE acted_as_operator(creator, project_id, NULL);
DROP FUNCTION acted_as_operator;
