-- From where a row was caused, and the hash chain of the rows: the digest of each covers the digest before it (P10). A row
-- is sealed after its transaction, by one sealer at a time, so that no transaction waits for another's audit row.

ALTER TABLE audit
    -- Of the client that caused it; all empty for work of the system itself.
    ADD COLUMN address    text NOT NULL DEFAULT '',
    ADD COLUMN user_agent text NOT NULL DEFAULT '' CHECK (char_length(user_agent) <= 200),
    ADD COLUMN region     text NOT NULL DEFAULT '',
    -- Both NULL until the row is sealed.
    ADD COLUMN position   bigint CHECK (position > 0),
    ADD COLUMN digest     bytea CHECK (octet_length(digest) = 32),
    ADD CONSTRAINT audit_position UNIQUE (position),
    ADD CONSTRAINT audit_sealed_whole CHECK ((position IS NULL) = (digest IS NULL));
-- What the sealer has to do.
CREATE INDEX audit_unsealed ON audit (seq) WHERE position IS NULL;
CREATE INDEX audit_principal ON audit (principal, id);

-- What the oldest row that is kept follows. Rows up to here were removed when their retention was over.
CREATE TABLE audit_checkpoint (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    position bigint  NOT NULL DEFAULT 0,
    digest   bytea   NOT NULL DEFAULT decode(repeat('00', 32), 'hex') CHECK (octet_length(digest) = 32)
);
INSERT INTO audit_checkpoint DEFAULT VALUES;

-- A row changes once, when it is sealed, and is removed only behind the checkpoint.
CREATE FUNCTION guard_audit() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF OLD.position IS NULL AND NEW.position IS NOT NULL
           AND to_jsonb(NEW) - 'position' - 'digest' = to_jsonb(OLD) - 'position' - 'digest' THEN
            RETURN NEW;
        END IF;
    ELSIF OLD.position <= (SELECT position FROM audit_checkpoint) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% of % is refused: its rows never change', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
DROP TRIGGER audit_immutable ON audit;
CREATE TRIGGER audit_immutable BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION guard_audit();

-- Removes the oldest sealed rows that are older than so many days, at most so many, and moves the checkpoint to the last of
-- them. Returns how many. Services may call it, and may remove rows in no other way; rows of the last 30 days nobody removes.
CREATE FUNCTION retire_audit(keep_days integer, most integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    last bigint;
    gone bigint;
BEGIN
    IF keep_days IS NULL OR keep_days < 30 THEN
        RAISE EXCEPTION 'audit rows are kept for 30 days at least' USING ERRCODE = 'check_violation';
    END IF;
    -- the sealer's lock: it reads the checkpoint where there is no row
    PERFORM pg_advisory_xact_lock(hashtextextended('audit of ' || current_schema(), 0));
    -- rows from the oldest on, up to the first that is kept
    SELECT max(oldest.position) INTO last
      FROM (SELECT position, bool_and(at < now() - make_interval(days => keep_days)) OVER (ORDER BY position) AS old
              FROM (SELECT position, at FROM audit WHERE position IS NOT NULL ORDER BY position LIMIT most) AS first) AS oldest
     WHERE oldest.old;
    IF last IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE audit_checkpoint SET position = audit.position, digest = audit.digest FROM audit WHERE audit.position = last;
    DELETE FROM audit WHERE position <= last;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
REVOKE EXECUTE ON FUNCTION retire_audit(integer, integer) FROM PUBLIC;
