-- The image catalog: what a slice can boot (E-01, E-02) and what nodes have (E-03, E-04).

-- Images that slices can boot.
CREATE TABLE os_images (
    slug                 text PRIMARY KEY CHECK (slug ~ '^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$'),
    display_name         text NOT NULL CHECK (char_length(display_name) BETWEEN 1 AND 120),
    status               text NOT NULL CHECK (status IN ('disabled', 'active')),
    driver_strategy      text NOT NULL CHECK (driver_strategy IN ('none', 'cloud_init', 'preinstalled')),
    -- as published; pinned to the manifest's digest once the artifact was resolved (E-15, E-16)
    source_uri           text NOT NULL CHECK (source_uri LIKE 'oci://%'),
    -- digest of the raw disk image; absent while the row is a placeholder (E-07)
    digest_sha256        text CHECK (digest_sha256 ~ '^sha256:[0-9a-f]{64}$'),
    size_bytes           bigint CHECK (size_bytes > 0),
    compatible_skus      text[] NOT NULL CHECK (cardinality(compatible_skus) BETWEEN 1 AND 32),
    boot_timeout_seconds integer NOT NULL CHECK (boot_timeout_seconds BETWEEN 1 AND 3600),
    -- keys image_path and artifact_ref (E-02)
    metadata             jsonb NOT NULL CHECK (jsonb_typeof(metadata) = 'object'),
    revision             bigint NOT NULL DEFAULT 1,
    created_at           timestamptz NOT NULL DEFAULT now(),
    updated_at           timestamptz NOT NULL DEFAULT now(),
    UNIQUE (slug, digest_sha256),
    CHECK ((digest_sha256 IS NULL) = (size_bytes IS NULL)),
    -- active means published with a known digest (CON-10)
    CHECK ((status <> 'active' OR digest_sha256 IS NOT NULL) IS TRUE),
    CHECK ((digest_sha256 IS NULL OR source_uri ~ '@sha256:[0-9a-f]{64}$') IS TRUE)
);

-- A materialised digest is never removed or replaced, whatever a seed or a release does (INC-38).
CREATE FUNCTION os_images_keep_digest() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.digest_sha256 IS NOT NULL
       AND (NEW.digest_sha256, NEW.size_bytes, NEW.source_uri)
           IS DISTINCT FROM (OLD.digest_sha256, OLD.size_bytes, OLD.source_uri) THEN
        RAISE EXCEPTION 'image % has a materialised digest, which never changes', OLD.slug
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER os_images_keep_digest BEFORE UPDATE ON os_images
    FOR EACH ROW EXECUTE FUNCTION os_images_keep_digest();

-- Which images nodes have in their caches, as they last reported.
CREATE TABLE node_image_cache (
    node_id         uuid NOT NULL,
    image_slug      text NOT NULL REFERENCES os_images (slug),
    status          text NOT NULL CHECK (status IN ('verified', 'absent')),
    -- as computed by the node from its file
    digest_sha256   text NOT NULL CHECK (digest_sha256 ~ '^sha256:[0-9a-f]{64}$'),
    local_path      text NOT NULL,
    verified_at     timestamptz,
    updated_at      timestamptz NOT NULL DEFAULT now(),
    -- the database itself refuses to record another digest as verified (E-06)
    verified_digest text GENERATED ALWAYS AS (CASE WHEN status = 'verified' THEN digest_sha256 END) STORED,
    PRIMARY KEY (node_id, image_slug),
    FOREIGN KEY (image_slug, verified_digest) REFERENCES os_images (slug, digest_sha256),
    CHECK ((status = 'verified') = (verified_at IS NOT NULL))
);

GRANT SELECT, INSERT ON os_images TO gpuaas_images;
GRANT UPDATE (status, source_uri, digest_sha256, size_bytes, metadata, revision, updated_at)
    ON os_images TO gpuaas_images;
GRANT SELECT, INSERT ON node_image_cache TO gpuaas_images;
GRANT UPDATE (status, digest_sha256, local_path, verified_at, updated_at)
    ON node_image_cache TO gpuaas_images;
