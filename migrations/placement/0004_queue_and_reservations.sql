-- The ledger, part 4 of 5: the queue for capacity, reserved capacity, and what placement reads of changes.

-- The operator's priority for a project's queued requests; none: normal.
CREATE TABLE project_priorities (
    project_id uuid        PRIMARY KEY,
    priority   text        NOT NULL CHECK (priority IN ('low', 'normal', 'high')),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Data of an allocation in state `requested` besides its own row. The order of the queue follows from these
-- rows, so a restart of the scheduler loses nothing.
CREATE TABLE queued_allocations (
    allocation_id uuid PRIMARY KEY REFERENCES allocations (id),
    -- shared by the allocations of one request, which are served together
    batch_id      uuid NOT NULL,
    -- with the region: the queue
    slot_class    text NOT NULL CHECK (slot_class IN ('h200_sxm', 'lab')),
    -- why it was not served at the last attempt: name of an ErrorReason without prefix
    reason        text NOT NULL CHECK (reason <> '')
);
CREATE INDEX queued_allocations_batch ON queued_allocations (batch_id);

-- Fair share of a queue, round robin by project: the project with the lowest number is next. A project gets the next
-- number of the sequence when it joins the queue and when it is served.
CREATE TABLE fair_share (
    region_code text   NOT NULL REFERENCES regions (code),
    slot_class  text   NOT NULL,
    project_id  uuid   NOT NULL,
    last_served bigint NOT NULL,
    PRIMARY KEY (region_code, slot_class, project_id)
);
CREATE SEQUENCE fair_share_sequence AS bigint;

-- Backfill reservations: nodes reserved for the first batch of a queue that does not fit now.
CREATE TABLE backfill_reservations (
    region_code text NOT NULL REFERENCES regions (code),
    slot_class  text NOT NULL,
    node_id     uuid NOT NULL REFERENCES nodes (id),
    batch_id    uuid NOT NULL,
    PRIMARY KEY (region_code, slot_class, node_id)
);

-- Takes an allocation out of its queue: placed on a node before its deadline, or failed. False: it has left the queue
-- already. The scheduler may move an allocation in no other way.
CREATE FUNCTION dequeue(allocation uuid, to_state text, node uuid, why jsonb, window_seconds double precision)
    RETURNS boolean LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH gone AS (
        UPDATE allocations SET state = to_state, node_id = node, failure = why, revision = revision + 1,
               updated_at = greatest(clock_timestamp(), updated_at),
               ended_at = CASE WHEN to_state = 'failed' THEN greatest(clock_timestamp(), updated_at) END,
               deadline_at = CASE WHEN to_state = 'reserved' THEN clock_timestamp() + make_interval(secs => window_seconds) END
         WHERE id = allocation AND state = 'requested'
           AND (to_state = 'failed' OR to_state = 'reserved' AND deadline_at > clock_timestamp())
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM gone)
$$;
REVOKE ALL ON FUNCTION dequeue(uuid, text, uuid, jsonb, double precision) FROM PUBLIC;

-- How many GPUs a project may reserve itself, without an operator; no row: none.
CREATE TABLE reservation_limits (
    project_id uuid        PRIMARY KEY,
    max_gpus   integer     NOT NULL CHECK (max_gpus >= 0),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- GPUs of a SKU that only one project may use for a while. They are reserved slot by slot, so no other project can use them;
-- what has no reserved slot yet is not promised.
CREATE TABLE capacity_reservations (
    id                   uuid        PRIMARY KEY,
    -- whose allocations may use it
    project_id           uuid        NOT NULL,
    name                 text        NOT NULL CHECK (name ~ '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'),
    region_code          text        NOT NULL REFERENCES regions (code),
    sku                  text        NOT NULL REFERENCES skus (code),
    gpu_count            integer     NOT NULL CHECK (gpu_count > 0),
    -- GPUs that it yielded because they were unused
    released_gpus        integer     NOT NULL DEFAULT 0,
    starts_at            timestamptz NOT NULL,
    ends_at              timestamptz NOT NULL,
    -- seconds that a reserved GPU may be unused; NULL: as long as the window
    release_unused_after integer     CHECK (release_unused_after > 0 IS NOT FALSE),
    state                text        NOT NULL CHECK (state IN ('scheduled', 'active', 'ended', 'canceled')),
    -- counts against the project's limit; else an operator made it
    made_by_project      boolean     NOT NULL,
    principal            text        NOT NULL CHECK (principal <> ''),
    -- why it is as it is, as a sentence
    reason               text        NOT NULL DEFAULT '',
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at             timestamptz,
    UNIQUE (id, project_id),
    CONSTRAINT capacity_reservations_released_gpus CHECK (released_gpus BETWEEN 0 AND gpu_count),
    CONSTRAINT capacity_reservations_end_after_start CHECK (ends_at > starts_at),
    CONSTRAINT capacity_reservations_ended_has_time CHECK ((state IN ('ended', 'canceled')) = (ended_at IS NOT NULL))
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
    reserved_since timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- since when it is unused; NULL: it has a live claim. Written by triggers.
    idle_since     timestamptz DEFAULT clock_timestamp(),
    FOREIGN KEY (slot_id, node_id) REFERENCES slots (id, node_id),
    FOREIGN KEY (reservation_id, project_id) REFERENCES capacity_reservations (id, project_id)
);
CREATE INDEX reserved_slots_reservation ON reserved_slots (reservation_id);
CREATE INDEX reserved_slots_node ON reserved_slots (node_id);

-- States go forward only, and no more slots are reserved than the reservation has GPUs.
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
        RAISE EXCEPTION 'capacity reservation % cannot go back, and does not change after its end', NEW.id
            USING ERRCODE = 'check_violation';
    END IF;
    IF (SELECT count(*) FROM reserved_slots WHERE reservation_id = NEW.id)
       > (CASE NEW.state WHEN 'active' THEN NEW.gpu_count - NEW.released_gpus ELSE 0 END) THEN
        RAISE EXCEPTION 'capacity reservation % would have more reserved slots than GPUs', NEW.id
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER capacity_reservations_guard BEFORE INSERT OR UPDATE ON capacity_reservations
    FOR EACH ROW EXECUTE FUNCTION guard_reservation();

-- Only a free slot of the right region and class is reserved, for a reservation that is active and lacks it. Whoever
-- reserves or claims a slot locks the rows that the other one reads, so one of the two sees the other.
CREATE FUNCTION guard_reserved_slot() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    reservation capacity_reservations;
BEGIN
    SELECT * INTO reservation FROM capacity_reservations WHERE id = NEW.reservation_id FOR NO KEY UPDATE;
    IF reservation.state IS DISTINCT FROM 'active' THEN
        RAISE EXCEPTION 'capacity reservation % is not active', NEW.reservation_id USING ERRCODE = 'check_violation';
    END IF;
    IF (SELECT count(*) FROM reserved_slots WHERE reservation_id = NEW.reservation_id)
       >= reservation.gpu_count - reservation.released_gpus THEN
        RAISE EXCEPTION 'capacity reservation % has all its slots', NEW.reservation_id USING ERRCODE = 'check_violation';
    END IF;
    PERFORM FROM nodes WHERE id = NEW.node_id AND region_code = reservation.region_code FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'node % is not in region %', NEW.node_id, reservation.region_code USING ERRCODE = 'check_violation';
    END IF;
    PERFORM FROM slots s WHERE s.id = NEW.slot_id AND s.status = 'available'
        AND s.class = (SELECT slot_class FROM skus WHERE code = reservation.sku) FOR NO KEY UPDATE;
    IF NOT FOUND OR EXISTS (SELECT FROM claims WHERE node_id = NEW.node_id AND kind = 'node_exclusive'
                               AND state <> 'released') THEN
        RAISE EXCEPTION 'slot % is not free, or not of the class of SKU %', NEW.slot_id, reservation.sku
            USING ERRCODE = 'check_violation';
    END IF;
    NEW.idle_since := NEW.reserved_since;
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION guard_reserved_slot() FROM PUBLIC;
CREATE TRIGGER reserved_slots_guard BEFORE INSERT ON reserved_slots FOR EACH ROW EXECUTE FUNCTION guard_reserved_slot();

-- A reserved slot, and a node with one, is claimed for its project only. The claim ends the slot's idle time.
CREATE FUNCTION guard_claim_of_reserved_slot() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    project uuid;
BEGIN
    IF NEW.kind = 'node_exclusive' THEN
        PERFORM FROM nodes WHERE id = NEW.node_id FOR NO KEY UPDATE;
    END IF;
    IF NOT EXISTS (SELECT FROM reserved_slots WHERE node_id = NEW.node_id) THEN
        RETURN NEW;
    END IF;
    SELECT project_id INTO project FROM allocations WHERE id = NEW.allocation_id;
    IF EXISTS (SELECT FROM reserved_slots WHERE node_id = NEW.node_id AND (NEW.kind = 'node_exclusive' OR slot_id = NEW.slot_id)
                  AND project_id IS DISTINCT FROM project) THEN
        RAISE EXCEPTION 'claim % is on capacity that is reserved for another project', NEW.id
            USING ERRCODE = 'check_violation';
    END IF;
    UPDATE reserved_slots SET idle_since = NULL
     WHERE node_id = NEW.node_id AND (NEW.kind = 'node_exclusive' OR slot_id = NEW.slot_id);
    RETURN NEW;
END $$;
REVOKE ALL ON FUNCTION guard_claim_of_reserved_slot() FROM PUBLIC;
CREATE TRIGGER claims_reserved_slots BEFORE INSERT ON claims FOR EACH ROW EXECUTE FUNCTION guard_claim_of_reserved_slot();

-- Fleet capacity over time: one row per minute, region and SKU. A history for operators; nothing is decided by it.
CREATE TABLE capacity_samples (
    -- start of the minute
    at          timestamptz NOT NULL CHECK (at = date_trunc('minute', at, 'UTC')),
    region_code text        NOT NULL REFERENCES regions (code),
    sku         text        NOT NULL REFERENCES skus (code),
    -- nodes that have slots of the SKU's class
    nodes       integer     NOT NULL CHECK (nodes >= 0),
    gpus        integer     NOT NULL CHECK (gpus >= 0),
    -- GPUs of allocations of this SKU, those in cleanup included
    gpus_in_use integer     NOT NULL CHECK (gpus_in_use >= 0),
    -- GPUs that could be launched as this SKU, each alone
    gpus_free   integer     NOT NULL CHECK (gpus_free >= 0),
    PRIMARY KEY (region_code, sku, at),
    CONSTRAINT capacity_samples_sum CHECK (gpus_in_use + gpus_free <= gpus)
);
CREATE INDEX capacity_samples_age ON capacity_samples (at);

-- Which transaction last changed what placement sees of the slots of a node; for the node itself that is
-- `nodes.changed_by`. A process that has a copy of the fleet in memory reads only the nodes whose last transaction its last
-- snapshot could not see. Neither times nor numbers from a sequence could show that, because transactions do not commit in
-- the order in which they write.
CREATE TABLE node_slot_changes (
    node_id    uuid PRIMARY KEY REFERENCES nodes (id),
    changed_by xid8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX node_slot_changes_changed ON node_slot_changes (changed_by);

-- Nodes whose last change a snapshot could not see. Planned once for all snapshots, and always by index: few change.
CREATE FUNCTION nodes_changed_since(since pg_snapshot) RETURNS uuid[] LANGUAGE plpgsql STABLE
    SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN ARRAY (SELECT id FROM nodes WHERE changed_by >= pg_snapshot_xmin(since) AND NOT pg_visible_in_snapshot(changed_by, since)
                  UNION
                  SELECT node_id FROM node_slot_changes
                   WHERE changed_by >= pg_snapshot_xmin(since) AND NOT pg_visible_in_snapshot(changed_by, since));
END $$;

CREATE FUNCTION mark_changed_node() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed_by := pg_current_xact_id();
    RETURN NEW;
END $$;
CREATE TRIGGER nodes_changed BEFORE UPDATE ON nodes FOR EACH ROW
    WHEN ((OLD.region_code, OLD.mode, OLD.admin_state, OLD.schedulable, OLD.hugepages_1g_free, OLD.max_vms, OLD.legal_groups,
           OLD.image_digests, OLD.hugepages_allocated_to)
          IS DISTINCT FROM
          (NEW.region_code, NEW.mode, NEW.admin_state, NEW.schedulable, NEW.hugepages_1g_free, NEW.max_vms, NEW.legal_groups,
           NEW.image_digests, NEW.hugepages_allocated_to))
    EXECUTE FUNCTION mark_changed_node();

CREATE FUNCTION mark_new_slot() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO node_slot_changes (node_id) VALUES (NEW.node_id)
        ON CONFLICT (node_id) DO UPDATE SET changed_by = excluded.changed_by;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION mark_new_slot() FROM PUBLIC;
CREATE TRIGGER slots_added AFTER INSERT ON slots FOR EACH ROW EXECUTE FUNCTION mark_new_slot();

-- A slot whose status or health differs for placement. In use is in use: the way of an allocation from reserved to its
-- wipe is no change. A slot that is retired is no longer reserved.
CREATE FUNCTION mark_slot_status() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF OLD.health_state = NEW.health_state
       AND (OLD.status = NEW.status OR OLD.status NOT IN ('available', 'cleanup_blocked', 'disabled', 'retired')
                                       AND NEW.status NOT IN ('available', 'cleanup_blocked', 'disabled', 'retired')) THEN
        RETURN NULL;
    END IF;
    UPDATE node_slot_changes SET changed_by = pg_current_xact_id()
     WHERE node_id = NEW.node_id AND changed_by <> pg_current_xact_id();
    IF NEW.status = 'retired' THEN
        DELETE FROM reserved_slots WHERE slot_id = NEW.id;
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION mark_slot_status() FROM PUBLIC;
CREATE TRIGGER slots_status AFTER UPDATE OF status, host_health, cleanup_health ON slots
    FOR EACH ROW EXECUTE FUNCTION mark_slot_status();

-- Bindings are approved once and change only by mistake; a slot is reserved for a project, or no longer.
CREATE FUNCTION mark_node_of_slot() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE node_slot_changes SET changed_by = pg_current_xact_id()
     WHERE node_id = coalesce(NEW.node_id, OLD.node_id) AND changed_by <> pg_current_xact_id();
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION mark_node_of_slot() FROM PUBLIC;
CREATE TRIGGER slots_bindings AFTER UPDATE OF slot_index, class, gpu_pci_address, gpu_module_id, numa_node, nvme_device,
    storage_identity_kind, nvme_bytes, management_mac, private_ip, fabric_device, fabric_vf_pci_address, fabric_claim_mode,
    destructive_wipe_policy ON slots
    FOR EACH ROW EXECUTE FUNCTION mark_node_of_slot();
CREATE TRIGGER reserved_slots_changed AFTER INSERT OR DELETE ON reserved_slots
    FOR EACH ROW EXECUTE FUNCTION mark_node_of_slot();

-- A claim that no longer counts as a VM, or no longer has a slot that stays in cleanup. A new claim is marked by its slot.
-- The slots of a released claim are idle from now on.
CREATE FUNCTION mark_ended_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE node_slot_changes SET changed_by = pg_current_xact_id()
     WHERE node_id = NEW.node_id AND changed_by <> pg_current_xact_id();
    IF NEW.state = 'released' THEN
        UPDATE reserved_slots SET idle_since = clock_timestamp()
         WHERE node_id = NEW.node_id AND (NEW.kind = 'node_exclusive' OR slot_id = NEW.slot_id) AND idle_since IS NULL;
    END IF;
    RETURN NULL;
END $$;
REVOKE ALL ON FUNCTION mark_ended_claim() FROM PUBLIC;
CREATE TRIGGER claims_ended AFTER UPDATE OF state ON claims FOR EACH ROW
    WHEN (OLD.state <> NEW.state AND NEW.state IN ('cleanup_blocked', 'released')) EXECUTE FUNCTION mark_ended_claim();

GRANT SELECT ON project_priorities, queued_allocations, fair_share, backfill_reservations, reservation_limits,
    capacity_reservations, reserved_slots, node_slot_changes TO gpuaas_scheduler, gpuaas_allocation;
GRANT INSERT, UPDATE ON project_priorities, fair_share, reservation_limits TO gpuaas_scheduler;
GRANT INSERT, UPDATE (reason) ON queued_allocations TO gpuaas_scheduler;
GRANT INSERT, DELETE ON backfill_reservations TO gpuaas_scheduler;
GRANT USAGE ON SEQUENCE fair_share_sequence TO gpuaas_scheduler;
GRANT EXECUTE ON FUNCTION dequeue(uuid, text, uuid, jsonb, double precision) TO gpuaas_scheduler;
GRANT INSERT, UPDATE (state, released_gpus, reason, updated_at, ended_at) ON capacity_reservations TO gpuaas_scheduler;
GRANT INSERT (slot_id, node_id, reservation_id, project_id, hugepages_1g), DELETE ON reserved_slots TO gpuaas_scheduler;
GRANT SELECT, INSERT, DELETE ON capacity_samples TO gpuaas_scheduler;
