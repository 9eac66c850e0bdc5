-- Capacity reservations: GPUs of a SKU that only one project may draw on for a while. What is reserved is held slot by
-- slot, so nobody else can have it, and what is not held yet is not promised.

-- How many GPUs a project may reserve without asking an operator; no row: none.
CREATE TABLE reservation_limits (
    project_id uuid        PRIMARY KEY,
    max_gpus   integer     NOT NULL CHECK (max_gpus >= 0),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE capacity_reservations (
    id                   uuid        PRIMARY KEY,
    -- whose allocations may draw on it
    project_id           uuid        NOT NULL,
    name                 text        NOT NULL CHECK (name ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'),
    region_code          text        NOT NULL REFERENCES regions (code),
    sku                  text        NOT NULL REFERENCES skus (code),
    gpu_count            integer     NOT NULL CHECK (gpu_count > 0),
    -- GPUs given back because nobody used them
    released_gpus        integer     NOT NULL DEFAULT 0,
    starts_at            timestamptz NOT NULL,
    ends_at              timestamptz NOT NULL,
    -- seconds that a held GPU may be unused; NULL: as long as the window
    release_unused_after integer     CHECK (release_unused_after > 0 IS NOT FALSE),
    state                text        NOT NULL CHECK (state IN ('scheduled', 'active', 'ended', 'canceled')),
    -- counts against the project's limit; else an operator made it
    made_by_project      boolean     NOT NULL,
    principal            text        NOT NULL CHECK (principal <> ''),
    -- what last became of it, in words
    reason               text        NOT NULL DEFAULT '',
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at             timestamptz,
    UNIQUE (id, project_id),
    CHECK (released_gpus BETWEEN 0 AND gpu_count),
    CHECK (ends_at > starts_at),
    CHECK ((state IN ('ended', 'canceled')) = (ended_at IS NOT NULL))
);
CREATE UNIQUE INDEX capacity_reservations_name ON capacity_reservations (project_id, name)
    WHERE state IN ('scheduled', 'active');
CREATE INDEX capacity_reservations_live ON capacity_reservations (project_id) WHERE state IN ('scheduled', 'active');

-- A slot that only allocations of one project may claim.
CREATE TABLE reserved_slots (
    slot_id        uuid        PRIMARY KEY,
    node_id        uuid        NOT NULL,
    reservation_id uuid        NOT NULL,
    project_id     uuid        NOT NULL,
    -- free hugepages of 1 GiB that a VM needs for this GPU, by the SKU as it was
    hugepages_1g   integer     NOT NULL CHECK (hugepages_1g >= 0),
    reserved_since     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- since when nobody uses it; NULL: a live claim is on it. Kept by triggers.
    idle_since     timestamptz DEFAULT clock_timestamp(),
    FOREIGN KEY (slot_id, node_id) REFERENCES slots (id, node_id),
    FOREIGN KEY (reservation_id, project_id) REFERENCES capacity_reservations (id, project_id)
);
CREATE INDEX reserved_slots_reservation ON reserved_slots (reservation_id);
CREATE INDEX reserved_slots_node ON reserved_slots (node_id);

-- States go forward only, and never is more held than is reserved.
CREATE FUNCTION guard_reservation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state NOT IN ('scheduled', 'active') THEN
            RAISE EXCEPTION 'capacity reservation % cannot begin as %', NEW.id, NEW.state USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.ended_at IS NOT NULL OR OLD.state = 'active' AND NEW.state = 'scheduled'
       OR NEW.released_gpus < OLD.released_gpus THEN
        RAISE EXCEPTION 'capacity reservation % cannot go back, and does not change once it is over', NEW.id
            USING ERRCODE = 'check_violation';
    END IF;
    IF (SELECT count(*) FROM reserved_slots WHERE reservation_id = NEW.id)
       > (CASE NEW.state WHEN 'active' THEN NEW.gpu_count - NEW.released_gpus ELSE 0 END) THEN
        RAISE EXCEPTION 'capacity reservation % holds more than it would reserve', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER capacity_reservations_guard BEFORE INSERT OR UPDATE ON capacity_reservations
    FOR EACH ROW EXECUTE FUNCTION guard_reservation();

-- Only a free slot of the right region and class is held, for a reservation that has begun and lacks it. Whoever holds
-- or claims has the rows locked that the other one looks at, so one of the two sees the other.
CREATE FUNCTION guard_reserved_slot() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    reserved capacity_reservations;
BEGIN
    SELECT * INTO reserved FROM capacity_reservations WHERE id = NEW.reservation_id FOR NO KEY UPDATE;
    IF reserved.state IS DISTINCT FROM 'active' THEN
        RAISE EXCEPTION 'capacity reservation % is not active', NEW.reservation_id USING ERRCODE = 'check_violation';
    END IF;
    IF (SELECT count(*) FROM reserved_slots WHERE reservation_id = NEW.reservation_id)
       >= reserved.gpu_count - reserved.released_gpus THEN
        RAISE EXCEPTION 'capacity reservation % holds all that it reserves', NEW.reservation_id
            USING ERRCODE = 'check_violation';
    END IF;
    PERFORM FROM nodes WHERE id = NEW.node_id AND region_code = reserved.region_code FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % is not in region %', NEW.node_id, reserved.region_code USING ERRCODE = 'check_violation';
    END IF;
    PERFORM FROM slots s WHERE s.id = NEW.slot_id AND s.status = 'available'
        AND s.class = (SELECT slot_class FROM skus WHERE code = reserved.sku) FOR NO KEY UPDATE;
    IF NOT FOUND OR EXISTS (SELECT FROM claims WHERE node_id = NEW.node_id AND kind = 'node_exclusive'
                               AND state <> 'released') THEN
        RAISE EXCEPTION 'slot % is not a free slot that % sells', NEW.slot_id, reserved.sku USING ERRCODE = 'check_violation';
    END IF;
    NEW.idle_since := NEW.reserved_since;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION guard_reserved_slot() FROM PUBLIC;
CREATE TRIGGER reserved_slots_guard BEFORE INSERT ON reserved_slots FOR EACH ROW EXECUTE FUNCTION guard_reserved_slot();

-- A held slot, and a node with one, is claimed for its project only. The claim makes it used.
CREATE FUNCTION guard_claim_of_reserved_slot() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    mine uuid;
BEGIN
    IF NEW.kind = 'node_exclusive' THEN
        PERFORM FROM nodes WHERE id = NEW.node_id FOR NO KEY UPDATE;
    END IF;
    IF NOT EXISTS (SELECT FROM reserved_slots WHERE node_id = NEW.node_id) THEN
        RETURN NEW;
    END IF;
    SELECT project_id INTO mine FROM allocations WHERE id = NEW.allocation_id;
    IF EXISTS (SELECT FROM reserved_slots WHERE node_id = NEW.node_id AND (NEW.kind = 'node_exclusive' OR slot_id = NEW.slot_id)
                  AND project_id IS DISTINCT FROM mine) THEN
        RAISE EXCEPTION 'claim %: reserved for another project', NEW.id USING ERRCODE = 'check_violation';
    END IF;
    UPDATE reserved_slots SET idle_since = NULL
     WHERE node_id = NEW.node_id AND (NEW.kind = 'node_exclusive' OR slot_id = NEW.slot_id);
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION guard_claim_of_reserved_slot() FROM PUBLIC;
CREATE TRIGGER claims_reserved_slots BEFORE INSERT ON claims FOR EACH ROW EXECUTE FUNCTION guard_claim_of_reserved_slot();

CREATE OR REPLACE FUNCTION mark_node_capacity() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE node_capacity SET changed_by = pg_current_xact_id()
     WHERE node_id = NEW.node_id AND changed_by <> pg_current_xact_id();
    IF NEW.state = 'released' THEN
        UPDATE reserved_slots SET idle_since = clock_timestamp()
         WHERE node_id = NEW.node_id AND (NEW.kind = 'node_exclusive' OR slot_id = NEW.slot_id) AND idle_since IS NULL;
    END IF;
    RETURN NULL;
END $$;

-- What is held is not free to placement, and its node is not clean.
CREATE FUNCTION capacity_of(status text, held boolean, OUT free integer, OUT used integer) LANGUAGE sql IMMUTABLE
    RETURN ((status = 'available' AND NOT held)::integer,
            (status NOT IN ('available', 'disabled', 'retired') OR status = 'available' AND held)::integer);

CREATE OR REPLACE FUNCTION count_node_capacity() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    held     boolean;
    now_capacity record;
    was_capacity record;
BEGIN
    IF TG_OP = 'INSERT' THEN
        SELECT * INTO now_capacity FROM capacity_of(NEW.status, false);
        INSERT INTO node_capacity (node_id, slot_class, region_code, free, used)
        SELECT n.id, NEW.class, n.region_code, now_capacity.free, now_capacity.used FROM nodes n WHERE n.id = NEW.node_id
        ON CONFLICT (node_id, slot_class) DO UPDATE
           SET free = node_capacity.free + excluded.free, used = node_capacity.used + excluded.used,
               changed_by = excluded.changed_by;
        RETURN NULL;
    END IF;
    held := EXISTS (SELECT FROM reserved_slots WHERE slot_id = NEW.id);
    SELECT * INTO now_capacity FROM capacity_of(NEW.status, held);
    SELECT * INTO was_capacity FROM capacity_of(OLD.status, held);
    UPDATE node_capacity SET free = free + now_capacity.free - was_capacity.free, used = used + now_capacity.used - was_capacity.used,
           changed_by = pg_current_xact_id()
     WHERE node_id = NEW.node_id AND slot_class = NEW.class;
    IF held AND NEW.status = 'retired' THEN
        DELETE FROM reserved_slots WHERE slot_id = NEW.id;
    END IF;
    RETURN NULL;
END $$;
DROP FUNCTION capacity_of(text);

CREATE FUNCTION count_reserved_slot() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    slot     slots;
    now_capacity record;
    was_capacity record;
BEGIN
    SELECT * INTO slot FROM slots WHERE id = coalesce(NEW.slot_id, OLD.slot_id) FOR NO KEY UPDATE;
    SELECT * INTO now_capacity FROM capacity_of(slot.status, TG_OP = 'INSERT');
    SELECT * INTO was_capacity FROM capacity_of(slot.status, TG_OP <> 'INSERT');
    UPDATE node_capacity SET free = free + now_capacity.free - was_capacity.free, used = used + now_capacity.used - was_capacity.used,
           changed_by = pg_current_xact_id()
     WHERE node_id = slot.node_id AND slot_class = slot.class;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION count_reserved_slot() FROM PUBLIC;
CREATE TRIGGER reserved_slots_room AFTER INSERT OR DELETE ON reserved_slots FOR EACH ROW EXECUTE FUNCTION count_reserved_slot();

GRANT SELECT ON reservation_limits, capacity_reservations, reserved_slots TO gpuaas_scheduler, gpuaas_allocation;
GRANT INSERT, UPDATE ON reservation_limits TO gpuaas_scheduler;
GRANT INSERT, UPDATE (state, released_gpus, reason, updated_at, ended_at) ON capacity_reservations TO gpuaas_scheduler;
GRANT INSERT (slot_id, node_id, reservation_id, project_id, hugepages_1g), DELETE ON reserved_slots TO gpuaas_scheduler;
