-- How often limits of a project were changed: the revision of the event that says so.
ALTER TABLE project_quotas ADD COLUMN revision bigint NOT NULL DEFAULT 0;
