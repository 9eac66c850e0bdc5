-- Prices, usage intervals and the position in the ledger's event log (P3).

-- trusted: the owner of the database may create it; gives "=" on uuid to the exclusion constraint
CREATE EXTENSION IF NOT EXISTS btree_gist;

-- What a GPU-hour of a SKU costs from a moment on.
CREATE TABLE price_versions (
    id           uuid PRIMARY KEY,
    sku          text NOT NULL CHECK (sku <> ''),
    currency     text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    -- nano-units per GPU-hour; the bound keeps every product of the product's life inside 128 bits
    price_nanos  bigint NOT NULL CHECK (price_nanos BETWEEN 0 AND 1000000000000000),
    effective_at timestamptz NOT NULL,
    -- when the ledger acknowledged it
    published_at timestamptz,
    UNIQUE (sku, effective_at)
);
CREATE INDEX price_versions_newest ON price_versions (effective_at DESC, id DESC);
CREATE INDEX price_versions_unpublished ON price_versions (sku, effective_at) WHERE published_at IS NULL;

-- A price version is immutable; only its publication is noted, once.
CREATE FUNCTION price_versions_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.published_at IS NULL
       AND (NEW.id, NEW.sku, NEW.currency, NEW.price_nanos, NEW.effective_at)
           IS NOT DISTINCT FROM (OLD.id, OLD.sku, OLD.currency, OLD.price_nanos, OLD.effective_at) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'price version % is immutable', OLD.id USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER price_versions_immutable BEFORE UPDATE OR DELETE ON price_versions
    FOR EACH ROW EXECUTE FUNCTION price_versions_immutable();

-- Time in which an allocation was billable (G-01). Opened and closed by ledger events only.
CREATE TABLE usage_intervals (
    id               uuid PRIMARY KEY,
    allocation_id    uuid NOT NULL,
    project_id       uuid NOT NULL,
    sku              text NOT NULL CHECK (sku <> ''),
    gpu_count        integer NOT NULL CHECK (gpu_count BETWEEN 1 AND 1024),
    price_version_id uuid NOT NULL REFERENCES price_versions (id),
    -- the immutable claim snapshot that explains this record (G-05, G-06, G-09)
    claims           jsonb NOT NULL CHECK (jsonb_typeof(claims) = 'array'),
    started_at       timestamptz NOT NULL,
    ended_at         timestamptz,
    -- positions of the events that opened and closed it: each event has at most one effect
    opened_position  bigint NOT NULL UNIQUE,
    closed_position  bigint UNIQUE,
    CHECK ((ended_at IS NULL) = (closed_position IS NULL)),
    CHECK ((ended_at IS NULL OR ended_at >= started_at) IS TRUE),
    CHECK ((closed_position IS NULL OR closed_position > opened_position) IS TRUE),
    -- an open interval reaches to infinity, so this also allows one open interval per allocation
    CONSTRAINT usage_intervals_no_overlap
        EXCLUDE USING gist (allocation_id WITH =, tstzrange(started_at, ended_at) WITH &&)
);
CREATE UNIQUE INDEX usage_intervals_one_open ON usage_intervals (allocation_id) WHERE ended_at IS NULL;
CREATE INDEX usage_intervals_allocation ON usage_intervals (allocation_id, started_at DESC);
CREATE INDEX usage_intervals_project ON usage_intervals (project_id, started_at DESC, id DESC);

-- An interval is written once and closed once; nothing is ever changed after that.
CREATE FUNCTION usage_intervals_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL
       AND (NEW.id, NEW.allocation_id, NEW.project_id, NEW.sku, NEW.gpu_count, NEW.price_version_id,
            NEW.claims, NEW.started_at, NEW.opened_position)
           IS NOT DISTINCT FROM
           (OLD.id, OLD.allocation_id, OLD.project_id, OLD.sku, OLD.gpu_count, OLD.price_version_id,
            OLD.claims, OLD.started_at, OLD.opened_position) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'usage interval % is written once and closed once', OLD.id
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER usage_intervals_append_only BEFORE UPDATE OR DELETE ON usage_intervals
    FOR EACH ROW EXECUTE FUNCTION usage_intervals_append_only();

-- Microseconds of an interval up to `upto`, never negative.
CREATE FUNCTION interval_microseconds(started timestamptz, upto timestamptz) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN greatest(0, extract(epoch FROM upto - started) * 1000000)::bigint;

-- One statement line: GPUs x microseconds x nano-units per GPU-hour, rounded once, half-even,
-- to nano-units. `round()` rounds halves away from zero, hence the integer arithmetic.
CREATE FUNCTION line_amount_nanos(gpu_count integer, microseconds bigint, price_nanos bigint) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT whole + CASE WHEN 2 * rest > 3600000000 OR (2 * rest = 3600000000 AND whole % 2 = 1) THEN 1 ELSE 0 END
    FROM (SELECT div(product, 3600000000) AS whole, mod(product, 3600000000) AS rest
          FROM (SELECT gpu_count::numeric * microseconds::numeric * price_nanos::numeric AS product) p) d
$$;

-- Up to which event of the ledger's log the effects above are complete.
CREATE TABLE consumer_position (
    consumer   text PRIMARY KEY,
    position   bigint NOT NULL CHECK (position >= 0),
    updated_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO consumer_position (consumer, position) VALUES ('usage', 0);

GRANT SELECT, INSERT ON price_versions TO gpuaas_billing;
GRANT UPDATE (published_at) ON price_versions TO gpuaas_billing;
GRANT SELECT, INSERT ON usage_intervals TO gpuaas_billing;
GRANT UPDATE (ended_at, closed_position) ON usage_intervals TO gpuaas_billing;
GRANT SELECT ON consumer_position TO gpuaas_billing;
GRANT UPDATE (position, updated_at) ON consumer_position TO gpuaas_billing;
