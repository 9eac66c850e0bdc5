-- An address that an organisation's identity provider sent by SCIM is not one that the person's issuer has verified: it stays
-- with the SCIM user alone. SCIM was all that gave these people one.
UPDATE principals SET email = '' WHERE scim_organisation_id IS NOT NULL AND email <> '';
