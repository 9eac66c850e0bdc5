-- A session is a shell, or a connection to the SSH server of a VM that its user logs in to. A process of the release before
-- writes shells and nothing else.
ALTER TABLE sessions ADD COLUMN kind text NOT NULL DEFAULT 'shell' CHECK (kind IN ('shell', 'ssh_tunnel'));
ALTER TABLE tickets ADD COLUMN kind text NOT NULL DEFAULT 'shell' CHECK (kind IN ('shell', 'ssh_tunnel'));
