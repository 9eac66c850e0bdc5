-- What watchers of hosts go by: every host and slot with a digest of how it was last seen, under a number that grows
-- with every difference that was seen. A host's own clock and sign of life are not part of the digest.

CREATE TABLE watch_head (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    position bigint  NOT NULL DEFAULT 0
);
INSERT INTO watch_head DEFAULT VALUES;

CREATE TABLE watched (
    kind           text   NOT NULL CHECK (kind IN ('node', 'slot')),
    id             uuid   NOT NULL,
    digest         bytea  NOT NULL CHECK (octet_length(digest) = 32),
    -- of the last difference, and of the first sight
    position       bigint NOT NULL UNIQUE,
    first_position bigint NOT NULL CHECK (first_position <= position),
    PRIMARY KEY (kind, id)
);

GRANT SELECT ON watch_head, watched TO gpuaas_inventory;
GRANT UPDATE (position) ON watch_head TO gpuaas_inventory;
GRANT INSERT ON watched TO gpuaas_inventory;
GRANT UPDATE (digest, position) ON watched TO gpuaas_inventory;
