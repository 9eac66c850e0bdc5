-- Fleet capacity over time: one row per minute, region and SKU. A history for operators; nothing is decided by it.
CREATE TABLE capacity_samples (
    -- start of the minute
    at          timestamptz NOT NULL CHECK (at = date_trunc('minute', at, 'UTC')),
    region_code text        NOT NULL REFERENCES regions (code),
    sku         text        NOT NULL REFERENCES skus (code),
    -- nodes that have slots of the SKU's class
    nodes       integer     NOT NULL CHECK (nodes >= 0),
    gpus        integer     NOT NULL CHECK (gpus >= 0),
    -- allocations of this SKU have them, or a repair owes them
    gpus_in_use   integer     NOT NULL CHECK (gpus_in_use >= 0),
    -- could be sold as this SKU, each alone
    gpus_free   integer     NOT NULL CHECK (gpus_free >= 0),
    PRIMARY KEY (region_code, sku, at),
    CHECK (gpus_in_use + gpus_free <= gpus)
);
CREATE INDEX capacity_samples_age ON capacity_samples (at);
GRANT SELECT, INSERT, DELETE ON capacity_samples TO gpuaas_scheduler;
