-- A SKU that an operator has taken off sale: allocations keep what they have, nobody gets more of it.
ALTER TABLE skus
    ADD COLUMN disabled boolean NOT NULL DEFAULT false;
