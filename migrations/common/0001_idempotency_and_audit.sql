-- Common tables, present in every schema: written in the same transaction as the effect.

-- A caller's key with what it led to. A second call with the key returns the resource, another body is refused.
CREATE TABLE idempotency (
    principal    text        NOT NULL,
    method       text        NOT NULL,
    key          text        NOT NULL,
    -- SHA-256 of the canonical request.
    request_hash bytea       NOT NULL CHECK (octet_length(request_hash) = 32),
    resource_id  text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (principal, method, key)
);
-- Rows are retained seven days; the sweep finds them by age.
CREATE INDEX idempotency_created_at ON idempotency (created_at);

-- Who did what to which resource (P10). Append only.
CREATE TABLE audit (
    seq         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          uuid        NOT NULL UNIQUE,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    principal   text        NOT NULL,
    action      text        NOT NULL,
    resource    text        NOT NULL,
    resource_id text        NOT NULL,
    request_id  text        NOT NULL,
    detail      jsonb       NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_resource ON audit (resource, resource_id, seq);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: its rows never change', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER audit_immutable BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_not_truncated BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
