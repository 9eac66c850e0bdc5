-- The default limit on the allocations of a project came after projects had some. One that holds more than the default as it
-- was shipped (256) has what it holds as a limit of its own, so that it goes on as it is: what it releases it may launch
-- again. A limit that an operator has set stays.
INSERT INTO project_quotas (project_id, max_allocations)
SELECT project_id, count(*) FROM allocations WHERE state NOT IN ('requested', 'released', 'failed')
 GROUP BY project_id HAVING count(*) > 256
ON CONFLICT (project_id) DO UPDATE SET max_allocations = excluded.max_allocations, updated_at = clock_timestamp()
 WHERE project_quotas.max_allocations IS NULL;
