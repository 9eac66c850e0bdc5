-- What must pass in a guest of an image before its allocation is active (D-69, INC-24): a list of objects with the fields of
-- gpuaas.common.v1.ReadinessCheck. A registered image never changes, so nobody may update it.
ALTER TABLE os_images
    ADD COLUMN readiness_checks jsonb NOT NULL DEFAULT '[]'
        CHECK (jsonb_typeof(readiness_checks) = 'array' AND jsonb_array_length(readiness_checks) <= 8);
