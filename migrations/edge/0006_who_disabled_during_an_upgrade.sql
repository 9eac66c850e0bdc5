-- Gateways of a release before edge/0005 run on while it is rolled out, and disable without knowing of disabled_by_platform.
-- What they did since is read from the audit trail, as edge/0005 did; what they do from now on is noted as it happens.
UPDATE principals p SET disabled_by_platform = true
 WHERE p.disable_time IS NOT NULL AND NOT p.disabled_by_platform
   AND (p.kind = 'user'
        OR (SELECT a.action FROM audit a
             WHERE (a.action IN ('principal.disable', 'principal.enable') AND a.resource_id = p.id::text
                    OR a.action IN ('service_account.disable', 'service_account.enable') AND a.detail ->> 'service_account' = p.name)
               AND a.detail ->> 'outcome' IS NULL
             ORDER BY a.seq DESC LIMIT 1) = 'principal.disable');

-- The row of the audit trail is written in the transaction of the change, by every release. One that was refused has an outcome.
CREATE FUNCTION note_who_disabled() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE principals SET disabled_by_platform = true
     WHERE id::text = NEW.resource_id AND disable_time IS NOT NULL AND NOT disabled_by_platform;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_disabled AFTER INSERT ON audit
    FOR EACH ROW WHEN (NEW.action = 'principal.disable' AND NEW.detail ->> 'outcome' IS NULL)
    EXECUTE FUNCTION note_who_disabled();
