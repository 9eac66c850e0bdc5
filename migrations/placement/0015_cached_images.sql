-- Which images a host has verified in its cache, as it last reported: what placement ranks by, and filters by when a
-- launch asks for it (CON-10, E-05).

-- The first eight bytes of each digest: enough to tell images apart, and short where thousands of nodes are read. What
-- is started is proven by its whole digest on the host, whatever placement believed.
CREATE FUNCTION image_keys(digests text[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE
    RETURN ARRAY (SELECT ('x' || substr(digest, 8, 16))::bit(64)::bigint FROM unnest(digests) AS d (digest));

ALTER TABLE nodes ADD COLUMN image_digests text[] NOT NULL DEFAULT '{}',
    ADD COLUMN image_keys bigint[] NOT NULL GENERATED ALWAYS AS (image_keys(image_digests)) STORED,
    ADD CONSTRAINT nodes_image_digests CHECK ((cardinality(image_digests) = 0
        OR cardinality(image_digests) <= 1000 AND array_position(image_digests, NULL) IS NULL
           AND array_to_string(image_digests, ',') ~ '^sha256:[0-9a-f]{64}(,sha256:[0-9a-f]{64})*$') IS TRUE);

-- a copy in the memory of a process learns of it as of everything else that placement sees of a node
DROP TRIGGER nodes_changed ON nodes;
CREATE TRIGGER nodes_changed BEFORE UPDATE ON nodes FOR EACH ROW
    WHEN ((OLD.region_code, OLD.mode, OLD.admin_state, OLD.schedulable, OLD.hugepages_1g_free, OLD.max_vms, OLD.legal_groups,
           OLD.image_digests)
          IS DISTINCT FROM
          (NEW.region_code, NEW.mode, NEW.admin_state, NEW.schedulable, NEW.hugepages_1g_free, NEW.max_vms, NEW.legal_groups,
           NEW.image_digests))
    EXECUTE FUNCTION mark_node();
