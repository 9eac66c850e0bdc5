-- Projects of which nothing starts that is queued or reserved for later: those that are suspended, by themselves or with their
-- organisation, as the gateway says it. Of what it says in disorder the highest version counts, so the row of a project stays
-- when it is resumed.
CREATE TABLE project_suspensions (
    project_id uuid PRIMARY KEY,
    suspended boolean NOT NULL,
    version bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
GRANT SELECT ON project_suspensions TO gpuaas_scheduler, gpuaas_allocation;
GRANT INSERT, UPDATE ON project_suspensions TO gpuaas_scheduler;
