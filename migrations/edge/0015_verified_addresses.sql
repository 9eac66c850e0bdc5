-- The address that a person's issuer has verified is stored at sign-in, of people whom SCIM registered, too.

-- When the token was issued that had the address; null: none has said it. An older token does not change the address.
ALTER TABLE principals ADD COLUMN email_issue_time timestamptz;

-- Of a person whom SCIM registered, only a token changes the address, and never without its time: what a gateway of the release
-- before writes of what a provider has sent is left out. Another subject is another person at the issuer, whose address no token
-- has said yet.
CREATE OR REPLACE FUNCTION leave_out_address() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.email := '';
    ELSIF NEW.subject <> OLD.subject THEN
        NEW.email := '';
        NEW.email_issue_time := NULL;
    ELSIF NEW.email_issue_time IS NOT DISTINCT FROM OLD.email_issue_time THEN
        NEW.email := OLD.email;
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER principals_address ON principals;
CREATE TRIGGER principals_address BEFORE INSERT OR UPDATE ON principals
    FOR EACH ROW WHEN (NEW.scim_organisation_id IS NOT NULL) EXECUTE FUNCTION leave_out_address();

GRANT UPDATE (email_issue_time) ON principals TO gpuaas_edge;
