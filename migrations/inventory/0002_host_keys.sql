-- Certificates of hosts are renewed: an instance is known by its key from one certificate to the next.

-- SHA-256 of the public key (SubjectPublicKeyInfo in DER) of the latest certificate. An instance of before this
-- script has none until its next renewal; it cannot renew by its key alone.
ALTER TABLE host_instances ADD COLUMN public_key_digest bytea
    CHECK ((octet_length(public_key_digest) = 32) IS NOT FALSE);

GRANT UPDATE (certificate_digest, certificate_expire_time, public_key_digest) ON host_instances TO gpuaas_inventory;
