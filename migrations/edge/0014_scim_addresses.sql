-- An address that an organisation's identity provider sent by SCIM is not one that the person's issuer has verified: it stays
-- with the SCIM user alone. SCIM was all that gave these people one. A gateway of the release before writes one again while this
-- is rolled out, and the database leaves it out.
CREATE FUNCTION leave_out_address() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    NEW.email := '';
    RETURN NEW;
END $$;
CREATE TRIGGER principals_address BEFORE INSERT OR UPDATE ON principals
    FOR EACH ROW WHEN (NEW.scim_organisation_id IS NOT NULL AND NEW.email <> '') EXECUTE FUNCTION leave_out_address();
UPDATE principals SET email = '' WHERE scim_organisation_id IS NOT NULL AND email <> '';
