-- For a ledger whose rows come from the platform before this one (B-27). Its bare-metal allocations have no claims. This
-- function gives each of them the claim that prevents a second allocation of its node: one `node_exclusive` claim in the
-- state of its allocation, with the present SKU and host. It returns how many it made. What the rows do not
-- show is not guessed: it fails, names the allocations and changes nothing. Safe to repeat; for the owner of the schema.
CREATE FUNCTION claim_old_allocations() RETURNS bigint LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    unclaimed uuid[];
    unclear   text;
    old       record;
    claim     uuid;
    step      text;
    made      bigint := 0;
BEGIN
    unclaimed := ARRAY (SELECT a.id FROM allocations a
                         WHERE a.state IN ('reserved', 'provisioning', 'active', 'releasing')
                           AND NOT EXISTS (SELECT FROM claims c WHERE c.allocation_id = a.id AND c.state <> 'released')
                         ORDER BY a.id FOR UPDATE);

    SELECT string_agg(id::text, ', ' ORDER BY id) INTO unclear FROM allocations
     WHERE id = ANY (unclaimed) AND capacity_shape = 'gpu_slice';
    IF unclear IS NOT NULL THEN
        RAISE EXCEPTION 'it is not recorded which slots these slices have: %', unclear
            USING HINT = 'End these allocations with the program that made them, then try again.';
    END IF;
    SELECT string_agg(a.id::text, ', ' ORDER BY a.id) INTO unclear FROM allocations a
     WHERE a.id = ANY (unclaimed)
       AND (EXISTS (SELECT FROM claims c WHERE c.node_id = a.node_id AND c.state <> 'released')
            OR EXISTS (SELECT FROM allocations other
                        WHERE other.id = ANY (unclaimed) AND other.node_id = a.node_id AND other.id <> a.id));
    IF unclear IS NOT NULL THEN
        RAISE EXCEPTION 'others have the nodes of these allocations, too: %', unclear
            USING HINT = 'End all but one allocation of each node with the program that made them, then try again.';
    END IF;

    FOR old IN
        SELECT a.id, a.sku, a.state, a.node_id, a.price,
               jsonb_build_object('name', s.profile_name, 'vcpus_per_gpu', s.vcpus_per_gpu,
                                  'memory_mib_per_gpu', s.memory_mib_per_gpu, 'hugepages', s.hugepages) AS profile
          FROM allocations a JOIN skus s ON s.code = a.sku WHERE a.id = ANY (unclaimed) ORDER BY a.node_id
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
        RETURNING id INTO claim;
        FOREACH step IN ARRAY ARRAY['provisioning', 'active', 'releasing'] LOOP
            EXIT WHEN (SELECT state FROM claims WHERE id = claim) = old.state;
            UPDATE claims SET state = step, updated_at = clock_timestamp() WHERE id = claim;
        END LOOP;
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;
REVOKE ALL ON FUNCTION claim_old_allocations() FROM PUBLIC;
