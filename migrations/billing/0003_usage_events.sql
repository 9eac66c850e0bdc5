-- When the end of an interval or a credit was put on record: webhooks are told of it. NULL: it is open, or it ended before there
-- were such events. The position that closed it is its place in their order: positions move one after the other, under one lock,
-- so none becomes visible before an earlier one.
ALTER TABLE usage_intervals ADD COLUMN completed_at timestamptz;
ALTER TABLE usage_credits ADD COLUMN completed_at timestamptz;
CREATE INDEX usage_intervals_completed ON usage_intervals (closed_position) WHERE completed_at IS NOT NULL;
CREATE INDEX usage_credits_completed ON usage_credits (closed_position) WHERE completed_at IS NOT NULL;

-- The database notes it, whatever release closes it.
CREATE OR REPLACE FUNCTION usage_intervals_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL
       AND (NEW.id, NEW.allocation_id, NEW.project_id, NEW.sku, NEW.gpu_count, NEW.price_version_id,
            NEW.claims, NEW.started_at, NEW.opened_position)
           IS NOT DISTINCT FROM
           (OLD.id, OLD.allocation_id, OLD.project_id, OLD.sku, OLD.gpu_count, OLD.price_version_id,
            OLD.claims, OLD.started_at, OLD.opened_position) THEN
        NEW.completed_at := clock_timestamp();
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'usage interval % is written once and closed once', OLD.id
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE OR REPLACE FUNCTION usage_credits_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL
       AND (NEW.id, NEW.interval_id, NEW.reason, NEW.started_at, NEW.opened_position)
           IS NOT DISTINCT FROM (OLD.id, OLD.interval_id, OLD.reason, OLD.started_at, OLD.opened_position) THEN
        NEW.completed_at := clock_timestamp();
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'usage credit % is written once and closed once', OLD.id
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
