-- Whole nodes are brought up and erased by workflows of their own kinds: a program that does not know them leaves them to
-- one that does, instead of asking a host for a VM.
ALTER DOMAIN workflow_kind DROP CONSTRAINT workflow_kind_check;
ALTER DOMAIN workflow_kind ADD CONSTRAINT workflow_kind_check
    CHECK (VALUE IN ('provision', 'provision_node', 'release', 'release_node', 'repair', 'clean_up', 'stop', 'start', 'reboot'));
