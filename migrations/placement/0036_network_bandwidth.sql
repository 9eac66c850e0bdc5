-- What a VM of a SKU may send and receive (D-60, J-22); none: what the setting of its host says.
ALTER TABLE skus
    -- megabits per second, in each direction
    ADD COLUMN network_mbps integer CHECK (network_mbps > 0),
    -- kilobytes that may pass at once before the limit
    ADD COLUMN network_burst_kb integer CHECK (network_burst_kb > 0),
    ADD CONSTRAINT skus_burst_has_a_limit CHECK (network_burst_kb IS NULL OR network_mbps IS NOT NULL);
