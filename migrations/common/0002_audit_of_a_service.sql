-- Which service wrote a row, by the role that its session logged in with. Roles may not write this column, nor the time: the
-- database says both (P10). Empty: a row of a release before this one.
ALTER TABLE audit ADD COLUMN service text NOT NULL DEFAULT '';
ALTER TABLE audit ALTER COLUMN service SET DEFAULT replace(session_user, 'gpuaas_', '');
