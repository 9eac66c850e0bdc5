-- What happened in a project, newest first, as its members read it. An id begins with the time.
CREATE INDEX audit_project ON audit ((detail->>'project_id'), id) WHERE detail->>'project_id' IS NOT NULL;
