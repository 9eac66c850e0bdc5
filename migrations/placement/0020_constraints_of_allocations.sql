-- Where an allocation may be placed is kept with the allocation, as its launch asked for it: until now only `waits` had it,
-- of those that waited. NULL: not known, since a release made it that kept none. Of those that wait the release before
-- reads it in `waits`, so it is written there, too, as long as that release may run beside this one.
--
-- The column's type writes the table anew, under a lock for as long as that takes.
ALTER TABLE allocations ADD COLUMN constraints json_object;

-- a launch never changes what it asked for; this only writes down where it belongs what was known elsewhere
ALTER TABLE allocations DISABLE TRIGGER allocations_guard;
UPDATE allocations a SET constraints = w.constraints FROM queued_allocations w WHERE w.allocation_id = a.id;
ALTER TABLE allocations ENABLE TRIGGER allocations_guard;
