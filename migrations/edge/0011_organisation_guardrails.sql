-- What the owners of an organisation forbid in all of its projects. An organisation without a row forbids nothing.
CREATE TABLE organisation_guardrails (
    organisation_id           uuid        PRIMARY KEY REFERENCES organisations (id),
    terminals_disabled        boolean     NOT NULL,
    serial_logs_disabled      boolean     NOT NULL,
    ingress_mappings_disabled boolean     NOT NULL,
    webhooks_disabled         boolean     NOT NULL,
    api_keys_disabled         boolean     NOT NULL,
    -- 0: no limit.
    max_api_key_days          integer     NOT NULL CHECK (max_api_key_days BETWEEN 0 AND 3650),
    -- Empty: all.
    allowed_regions           text[]      NOT NULL CHECK (cardinality(allowed_regions) <= 100),
    allowed_skus              text[]      NOT NULL CHECK (cardinality(allowed_skus) <= 100),
    update_time               timestamptz NOT NULL DEFAULT clock_timestamp(),
    version                   bigint      NOT NULL DEFAULT 1
);
CREATE TRIGGER organisation_guardrails_version BEFORE UPDATE ON organisation_guardrails
    FOR EACH ROW EXECUTE FUNCTION next_version();
-- Gateways keep them with the callers whom they bind.
CREATE TRIGGER organisation_guardrails_access AFTER INSERT OR UPDATE OR DELETE ON organisation_guardrails
    FOR EACH ROW EXECUTE FUNCTION notify_access_in('organisation_id');
GRANT SELECT, INSERT ON organisation_guardrails TO gpuaas_edge;
GRANT UPDATE (terminals_disabled, serial_logs_disabled, ingress_mappings_disabled, webhooks_disabled, api_keys_disabled,
              max_api_key_days, allowed_regions, allowed_skus) ON organisation_guardrails TO gpuaas_edge;
