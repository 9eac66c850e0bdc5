-- How many allocations a project may hold, of all SKUs together; NULL: the service's default. The row is the first lock of
-- whatever counts against a quota of the project: launches of different SKUs count one after the other.
CREATE TABLE project_quotas (
    project_id      uuid                 PRIMARY KEY,
    max_allocations non_negative_integer,
    updated_at      timestamptz          NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO project_quotas (project_id) SELECT DISTINCT project_id FROM quotas;

GRANT SELECT, INSERT, UPDATE ON project_quotas TO gpuaas_scheduler;
