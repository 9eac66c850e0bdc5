-- Sign-ins that have ended at their issuer while tokens of them are still valid. Such tokens are refused.
CREATE TABLE logouts (
    issuer      text        NOT NULL CHECK (issuer <> ''),
    -- The issuer's id of the message: each counts once.
    jti         text        NOT NULL CHECK (jti <> ''),
    -- Whose sign-in; of a message that names only the sign-in, unknown.
    subject     text        CHECK (subject <> ''),
    -- Which sign-in; all of the subject when it is null.
    sid         text        CHECK (sid <> ''),
    -- By the issuer's clock: tokens that name no sign-in end when they were issued until then.
    issue_time  timestamptz NOT NULL,
    create_time timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When the last of the tokens has expired.
    expire_time timestamptz NOT NULL,
    PRIMARY KEY (issuer, jti),
    CHECK (subject IS NOT NULL OR sid IS NOT NULL)
);
CREATE INDEX logouts_sid ON logouts (issuer, sid) WHERE sid IS NOT NULL;
CREATE INDEX logouts_subject ON logouts (issuer, subject, issue_time) WHERE subject IS NOT NULL;
CREATE INDEX logouts_expire ON logouts (expire_time);
GRANT SELECT, INSERT, DELETE ON logouts TO gpuaas_edge;

CREATE TRIGGER logouts_access AFTER INSERT ON logouts
    FOR EACH STATEMENT EXECUTE FUNCTION notify_access();
