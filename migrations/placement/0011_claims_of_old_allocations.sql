-- Whole-node allocations from before claims existed get the claim that keeps their node from being sold again (B-27):
-- one `node_exclusive` claim each, in the state of its allocation, with what is known of SKU and host now. What is not
-- clear from the rows is not guessed: the migration stops, names the allocations and changes nothing.
DO $$
DECLARE
    unclear text;
    old     record;
    made    uuid;
    step    text;
BEGIN
    CREATE TEMPORARY TABLE unclaimed ON COMMIT DROP AS
        SELECT a.id, a.capacity_shape, a.node_id FROM allocations a
         WHERE a.state IN ('reserved', 'provisioning', 'active', 'releasing')
           AND NOT EXISTS (SELECT FROM claims c WHERE c.allocation_id = a.id AND c.state <> 'released')
           FOR UPDATE;

    SELECT string_agg(id::text, ', ' ORDER BY id) INTO unclear FROM unclaimed WHERE capacity_shape = 'gpu_slice';
    IF unclear IS NOT NULL THEN
        RAISE EXCEPTION 'slices hold no slot, and which were theirs is not recorded: %', unclear
            USING HINT = 'End these allocations with the program that made them, then migrate again.';
    END IF;
    SELECT string_agg(u.id::text, ', ' ORDER BY u.id) INTO unclear FROM unclaimed u
     WHERE EXISTS (SELECT FROM claims c WHERE c.node_id = u.node_id AND c.state <> 'released')
        OR EXISTS (SELECT FROM unclaimed other WHERE other.node_id = u.node_id AND other.id <> u.id);
    IF unclear IS NOT NULL THEN
        RAISE EXCEPTION 'the nodes of these allocations are held by others too: %', unclear
            USING HINT = 'End all but one allocation of each node with the program that made them, then migrate again.';
    END IF;

    FOR old IN
        SELECT a.id, a.sku, a.state, a.node_id, a.price,
               jsonb_build_object('name', s.profile_name, 'vcpus_per_gpu', s.vcpus_per_gpu,
                                  'memory_mib_per_gpu', s.memory_mib_per_gpu, 'hugepages', s.hugepages) AS profile
          FROM unclaimed u JOIN allocations a USING (id) JOIN skus s ON s.code = a.sku
         ORDER BY a.node_id
    LOOP
        UPDATE nodes
           SET mode = 'baremetal', intended_mode = coalesce(intended_mode, mode), generation = generation + 1,
               updated_at = greatest(clock_timestamp(), updated_at)
         WHERE id = old.node_id;
        INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_generation, state, snapshot)
        SELECT gen_random_uuid(), old.id, old.sku, 'node_exclusive', n.id, n.generation, 'reserved',
               jsonb_build_object('profile', old.profile, 'price', old.price, 'bindings', '{}'::jsonb,
                                  'instance_id', n.instance_id, 'agent_address', n.agent_address, 'hostname', n.hostname)
          FROM nodes n WHERE n.id = old.node_id
        RETURNING id INTO made;
        FOREACH step IN ARRAY ARRAY['provisioning', 'active', 'releasing'] LOOP
            EXIT WHEN (SELECT state FROM claims WHERE id = made) = old.state;
            UPDATE claims SET state = step, updated_at = clock_timestamp() WHERE id = made;
        END LOOP;
    END LOOP;
END $$;
