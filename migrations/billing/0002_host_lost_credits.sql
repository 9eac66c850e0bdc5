-- Time of a usage interval that is not charged: the host of the allocation was lost, and the policy credits that (P3).
-- The interval itself stays whole: what an allocation used and what is charged of it are two things.
CREATE TABLE usage_credits (
    id              uuid        PRIMARY KEY,
    interval_id     uuid        NOT NULL REFERENCES usage_intervals (id),
    reason          text        NOT NULL CHECK (reason IN ('host_lost')),
    started_at      timestamptz NOT NULL,
    ended_at        timestamptz,
    -- positions of the events that opened and closed it: each event has at most one effect
    opened_position bigint      NOT NULL UNIQUE,
    closed_position bigint      UNIQUE,
    CHECK ((ended_at IS NULL) = (closed_position IS NULL)),
    CHECK ((ended_at IS NULL OR ended_at >= started_at) IS TRUE),
    CHECK ((closed_position IS NULL OR closed_position > opened_position) IS TRUE),
    -- nothing is credited twice
    CONSTRAINT usage_credits_no_overlap
        EXCLUDE USING gist (interval_id WITH =, tstzrange(started_at, ended_at) WITH &&)
);
CREATE INDEX usage_credits_interval ON usage_credits (interval_id);
CREATE UNIQUE INDEX usage_credits_one_open ON usage_credits (interval_id) WHERE ended_at IS NULL;

-- A credit is written once and closed once; nothing is ever changed after that.
CREATE FUNCTION usage_credits_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL
       AND (NEW.id, NEW.interval_id, NEW.reason, NEW.started_at, NEW.opened_position)
           IS NOT DISTINCT FROM (OLD.id, OLD.interval_id, OLD.reason, OLD.started_at, OLD.opened_position) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'usage credit % is written once and closed once', OLD.id
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER usage_credits_append_only BEFORE UPDATE OR DELETE ON usage_credits
    FOR EACH ROW EXECUTE FUNCTION usage_credits_append_only();

-- Microseconds of an interval up to `upto` that are not charged.
CREATE FUNCTION credited_microseconds(usage_interval uuid, started timestamptz, upto timestamptz) RETURNS bigint
    LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce(sum(interval_microseconds(greatest(c.started_at, started), least(coalesce(c.ended_at, upto), upto))), 0)::bigint
      FROM usage_credits c WHERE c.interval_id = usage_interval
$$;

GRANT SELECT, INSERT ON usage_credits TO gpuaas_billing;
GRANT UPDATE (ended_at, closed_position) ON usage_credits TO gpuaas_billing;
