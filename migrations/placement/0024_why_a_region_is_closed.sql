-- What whoever launches in a closed region is told (H-28): the operator's reason, as inventory has it.
ALTER TABLE regions
    ADD COLUMN unavailable_reason text NOT NULL DEFAULT '';
