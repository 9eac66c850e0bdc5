-- People sign in with their own SSH keys where the gateway shows serial logs by SSH: a key is looked for by its fingerprint, and
-- what it opened ends with it. A project's keys are nobody's, and sign nobody in.
CREATE INDEX ssh_keys_fingerprint ON ssh_keys (fingerprint) WHERE principal_id IS NOT NULL;
CREATE TRIGGER ssh_keys_access AFTER DELETE ON ssh_keys
    FOR EACH ROW WHEN (OLD.principal_id IS NOT NULL) EXECUTE FUNCTION notify_access_of('principal_id');
