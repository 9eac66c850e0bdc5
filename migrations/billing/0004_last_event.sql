-- Which event the position is of: a ledger that was restored, and went on, has another one there.
ALTER TABLE consumer_position
    -- its position, aggregate, revision and time; of an earlier position, or NULL: a release before this one moved on
    ADD COLUMN last_event text;
GRANT UPDATE (last_event) ON consumer_position TO gpuaas_billing;
