//! Statements that the database must refuse whoever sends them: the promises as constraints, tried directly.
//!
//! Each runs as the owner, where only a constraint or trigger can refuse it, and as the service's role, where a
//! missing grant may refuse it first. Every case starts from the same ledger and is rolled back.
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::nodes::NodeSpec;
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use crate::world::{World, h200_slot, lab_spec};

const CHECK: &str = "23514";
const UNIQUE: &str = "23505";
const FOREIGN: &str = "23503";
const NOT_NULL: &str = "23502";
const BAD_VALUE: &str = "22P02";
const IMMUTABLE: &str = "23000";

/// A claim's row with what a case replaces.
const CLAIM: &str = "INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state, snapshot)";

/// Name, statement(s), SQLSTATE as owner.
const CASES: &[(&str, &str, &str)] = &[
    // P1: a GPU is never allocated twice
    ("b_20 second live claim on a slot",
     "{claim} SELECT gen_random_uuid(), allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, 'reserved', '{}'
        FROM claims WHERE id = '{held_claim}'", UNIQUE),
    ("claim on a slot that is not reserved",
     "{claim} VALUES (gen_random_uuid(), '{allocation}', 'lab-slice', 'slot', '{lab}', '{free}', 'lab', 0, 'reserved', '{}')", CHECK),
    ("claim of another generation",
     "UPDATE slots SET status = 'reserved', generation = 1 WHERE id = '{free}';
      {claim} VALUES (gen_random_uuid(), '{allocation}', 'lab-slice', 'slot', '{lab}', '{free}', 'lab', 0, 'reserved', '{}')", CHECK),
    ("claim that is born active",
     "UPDATE slots SET status = 'reserved', generation = 1 WHERE id = '{free}';
      {claim} VALUES (gen_random_uuid(), '{allocation}', 'lab-slice', 'slot', '{lab}', '{free}', 'lab', 1, 'active', '{}')", CHECK),
    ("claim with a slot of another node",
     "UPDATE slots SET status = 'reserved', generation = 1 WHERE id = '{h200}';
      {claim} VALUES (gen_random_uuid(), '{allocation}', 'lab-slice', 'slot', '{lab}', '{h200}', 'lab', 1, 'reserved', '{}')", FOREIGN),
    ("b_17 claims of one allocation on two nodes",
     "UPDATE slots SET status = 'reserved', generation = 1 WHERE id = '{h200}';
      {claim} VALUES (gen_random_uuid(), '{allocation}', 'lab-slice', 'slot', '{gpu_node}', '{h200}', 'h200_sxm', 1, 'reserved', '{}')", FOREIGN),
    ("slot claim without a slot",
     "{claim} VALUES (gen_random_uuid(), '{allocation}', 'lab-slice', 'slot', '{lab}', NULL, 'lab', 0, 'reserved', '{}')", CHECK),
    // both kinds can never live on one node
    ("b_32 node_exclusive on a node in slice mode",
     "{claim} VALUES (gen_random_uuid(), '{allocation}', 'lab-slice', 'node_exclusive', '{lab}', NULL, NULL, 0, 'reserved', '{}')", FOREIGN),
    ("b_33 node with live slot claims turned to bare metal", "UPDATE nodes SET mode = 'baremetal' WHERE id = '{lab}'", FOREIGN),
    ("b_21 second node_exclusive on a node",
     "{claim} SELECT gen_random_uuid(), allocation_id, sku, kind, node_id, NULL, NULL, 0, 'reserved', '{}' FROM claims WHERE kind = 'node_exclusive'", UNIQUE),
    ("node with a node_exclusive claim turned to slices", "UPDATE nodes SET mode = 'slice' WHERE id = '{metal}'", FOREIGN),
    ("node_exclusive with a slot",
     "{claim} VALUES (gen_random_uuid(), '{allocation}', 'lab-slice', 'node_exclusive', '{lab}', '{held}', 'lab', 1, 'reserved', '{}')", CHECK),
    // INC-27
    ("inc_27 one fabric device held twice on a node",
     "UPDATE slots SET status = 'reserved', generation = 1 WHERE id IN ('{free}', '{free2}');
      INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state, snapshot, fabric_key)
        SELECT gen_random_uuid(), '{allocation}', 'lab-slice', 'slot', '{lab}', id, 'lab', 1, 'reserved', '{}', '0000:1a:00.0'
          FROM slots WHERE id IN ('{free}', '{free2}')", UNIQUE),
    // a SKU offers its own class only
    ("sku of another class",
     "UPDATE slots SET status = 'reserved', generation = 1 WHERE id = '{free}';
      {claim} VALUES (gen_random_uuid(), '{gpu_allocation}', 'h200-sxm-slice', 'slot', '{lab}', '{free}', 'lab', 1, 'reserved', '{}')", FOREIGN),
    ("class of the claim is not the slot's",
     "UPDATE slots SET status = 'reserved', generation = 1 WHERE id = '{free}';
      {claim} VALUES (gen_random_uuid(), '{gpu_allocation}', 'h200-sxm-slice', 'slot', '{lab}', '{free}', 'h200_sxm', 1, 'reserved', '{}')", FOREIGN),
    ("sku of the claim is not the allocation's",
     "UPDATE slots SET status = 'reserved', generation = 1 WHERE id = '{h200}';
      {claim} VALUES (gen_random_uuid(), '{allocation}', 'h200-sxm-slice', 'slot', '{lab}', '{free}', 'lab', 1, 'reserved', '{}')", CHECK),
    ("another sku of class lab",
     "INSERT INTO skus (code, display_name, capacity_shape, slot_class, allowed_gpu_counts, profile_name, vcpus_per_gpu, memory_mib_per_gpu, hugepages)
      VALUES ('cheap', '', 'gpu_slice', 'lab', '{1}', 'p', 1, 1, false)", CHECK),
    ("class change of a sku in use", "UPDATE skus SET code = 'other', slot_class = 'h200_sxm' WHERE code = 'lab-slice'", FOREIGN),
    ("b_06 sku without counts", "UPDATE skus SET allowed_gpu_counts = '{}' WHERE code = 'lab-slice'", CHECK),
    ("sku count zero", "UPDATE skus SET allowed_gpu_counts = '{0}' WHERE code = 'lab-slice'", CHECK),
    ("sku count null", "UPDATE skus SET allowed_gpu_counts = ARRAY[NULL]::integer[] WHERE code = 'lab-slice'", CHECK),
    ("half a price", "UPDATE skus SET price_nanos = NULL WHERE code = 'lab-slice'", CHECK),
    ("b_04 a third shape", "UPDATE skus SET capacity_shape = 'fraction' WHERE code = 'lab-slice'", CHECK),
    // P2: clean before allocation
    ("available without any evidence", "UPDATE slots SET status = 'available' WHERE id = '{fresh}'", CHECK),
    ("available with evidence of an earlier generation",
     "UPDATE slots SET status = 'disabled', generation = 1 WHERE id = '{free}'; UPDATE slots SET status = 'available' WHERE id = '{free}'", CHECK),
    ("evidence that does not exist", "UPDATE slots SET clean_generation = generation WHERE id = '{fresh}'", FOREIGN),
    ("evidence of a generation to come",
     "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{fresh}', 1, 'wiped', '')", CHECK),
    ("evidence of a slot schedulable or in use",
     "UPDATE slots SET status = 'provisioning' WHERE id = '{held}';
      INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{held}', 1, 'wiped', '')", CHECK),
    ("a_132 evidence of an operator's word",
     "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{fresh}', 0, 'approved', 'raw')", CHECK),
    ("a_132 evidence of a wipe before the wipe began",
     "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{fresh}', 0, 'wiped', '')", CHECK),
    ("a slot of a bare metal node wiped under its tenant",
     "UPDATE claims SET state = 'provisioning' WHERE kind = 'node_exclusive';
      INSERT INTO slots (id, node_id, slot_index, class) VALUES (gen_random_uuid(), '{metal}', 0, 'h200_sxm');
      UPDATE slots SET status = 'cleanup' WHERE node_id = '{metal}'", CHECK),
    ("evidence of no known kind",
     "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{fresh}', 0, 'trust_me', '')", CHECK),
    ("evidence changed", "UPDATE clean_evidence SET method = 'x'", IMMUTABLE),
    ("evidence deleted", "DELETE FROM clean_evidence", IMMUTABLE),
    ("a destroyed device schedulable",
     "UPDATE slots SET status = 'cleanup' WHERE id = '{fresh}';
      INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{fresh}', 0, 'destroyed', '');
      UPDATE slots SET clean_generation = 0 WHERE id = '{fresh}'", FOREIGN),
    ("held slot made schedulable",
     "INSERT INTO clean_evidence (slot_id, generation, kind, method) VALUES ('{held}', 1, 'untouched', '');
      UPDATE slots SET clean_generation = 1, status = 'available' WHERE id = '{held}'", CHECK),
    ("a_118 slot born available",
     "INSERT INTO slots (id, node_id, slot_index, class, status) VALUES (gen_random_uuid(), '{lab}', 9, 'lab', 'available')", CHECK),
    ("generation that goes back", "UPDATE slots SET generation = 0 WHERE id = '{held}'", CHECK),
    ("claim of a slot without a new generation", "UPDATE slots SET status = 'reserved' WHERE id = '{free}'", CHECK),
    // INC-40, A-117, A-122: complete before allocation
    ("inc_40 lab slot without an address", "UPDATE slots SET private_ip = '' WHERE id = '{free}'", CHECK),
    ("a_117 slot without a MAC", "UPDATE slots SET management_mac = '' WHERE id = '{free}'", CHECK),
    ("a_117 slot without a disk", "UPDATE slots SET nvme_device = '' WHERE id = '{free}'", CHECK),
    ("slot without a wipe policy", "UPDATE slots SET destructive_wipe_policy = '' WHERE id = '{free}'", CHECK),
    ("slot without a size", "UPDATE slots SET nvme_bytes = 0 WHERE id = '{free}'", CHECK),
    ("a_117 h200 slot without a GPU", "UPDATE slots SET gpu_pci_address = '' WHERE id = '{h200}'", CHECK),
    ("a_108 h200 slot without its fabric function", "UPDATE slots SET fabric_vf_pci_address = '' WHERE id = '{h200}'", CHECK),
    ("a_107 h200 slot with a shared fabric", "UPDATE slots SET fabric_claim_mode = 'shared' WHERE id = '{h200}'", CHECK),
    ("a_106 h200 slot with another disk identity", "UPDATE slots SET storage_identity_kind = '' WHERE id = '{h200}'", CHECK),
    ("a_102 approved slot whose disk is its host's", "UPDATE slots SET storage_ownership = 'host' WHERE id = '{fresh}'", CHECK),
    ("a_103 approved slot whose disk serves its host", "UPDATE slots SET storage_mode = '' WHERE id = '{fresh}'", CHECK),
    ("a_105 manifest that is no path", "UPDATE slots SET storage_transition_manifest = 'one.txt' WHERE id = '{fresh}'", CHECK),
    ("emulated disk in a real class", "UPDATE slots SET storage_identity_kind = 'lab_backing_file' WHERE id = '{fresh}'", CHECK),
    ("lab disk path in a real class schedulable", "UPDATE slots SET nvme_device = 'lab-disk:' || gen_random_uuid() WHERE id = '{h200}'", CHECK),
    ("lab slot with a GPU", "UPDATE slots SET gpu_pci_address = '0000:10:00.0' WHERE id = '{free}'", CHECK),
    ("a_110 kernel path of an NVMe disk", "UPDATE slots SET nvme_device = '/dev/nvme1n1' WHERE id = '{fresh}'", CHECK),
    ("a_110 loop device", "UPDATE slots SET nvme_device = '/dev/loop3' WHERE id = '{free}'", CHECK),
    ("class of a slot that does not exist", "UPDATE slots SET class = 'h100' WHERE id = '{fresh}'", CHECK),
    ("PCI address that is none", "UPDATE slots SET gpu_pci_address = 'gpu0' WHERE id = '{fresh}'", CHECK),
    // NULL never stands for "present"
    ("null MAC", "UPDATE slots SET management_mac = NULL WHERE id = '{free}'", NOT_NULL),
    ("null disk", "UPDATE slots SET nvme_device = NULL WHERE id = '{free}'", NOT_NULL),
    ("null fabric function", "UPDATE slots SET fabric_vf_pci_address = NULL WHERE id = '{h200}'", NOT_NULL),
    ("null clean generation schedulable", "UPDATE slots SET clean_generation = NULL WHERE id = '{free}'", CHECK),
    ("null status", "UPDATE slots SET status = NULL WHERE id = '{free}'", CHECK),
    // nothing is shared on a node
    ("a_126 two slots with one disk",
     "UPDATE slots SET nvme_device = (SELECT nvme_device FROM slots WHERE id = '{free2}') WHERE id = '{free}'", UNIQUE),
    ("a_126 two slots with one MAC",
     "UPDATE slots SET management_mac = (SELECT management_mac FROM slots WHERE id = '{free2}') WHERE id = '{free}'", UNIQUE),
    ("a_126 two slots with one address",
     "UPDATE slots SET private_ip = (SELECT private_ip FROM slots WHERE id = '{free2}') WHERE id = '{free}'", UNIQUE),
    ("a_126 two slots with one GPU",
     "UPDATE slots SET gpu_pci_address = (SELECT gpu_pci_address FROM slots WHERE id = '{h200}') WHERE id = '{fresh}'", UNIQUE),
    ("a_125 two slots with one fabric function",
     "UPDATE slots SET fabric_vf_pci_address = (SELECT fabric_vf_pci_address FROM slots WHERE id = '{h200}') WHERE id = '{fresh}'", UNIQUE),
    // INC-13
    ("inc_13 health unhealthy", "UPDATE slots SET cleanup_health = 'unhealthy' WHERE id = '{free}'", BAD_VALUE),
    ("a_92 health unhealthy from the host", "UPDATE slots SET host_health = 'unhealthy' WHERE id = '{free}'", BAD_VALUE),
    ("health written past its two writers", "UPDATE slots SET health_state = 'healthy' WHERE id = '{free}'", "428C9"),
    // transitions
    ("slot available to active", "UPDATE slots SET status = 'active' WHERE id = '{free}'", CHECK),
    ("slot reserved to active", "UPDATE slots SET status = 'active' WHERE id = '{held}'", CHECK),
    ("slot to a status that does not exist", "UPDATE slots SET status = 'lost' WHERE id = '{free}'", CHECK),
    ("con_25 slot cleanup_blocked to available without a repair",
     "UPDATE slots SET status = 'cleanup_blocked' WHERE id = '{free}'; UPDATE slots SET status = 'available' WHERE id = '{free}'", CHECK),
    ("slot disabled to reserved", "UPDATE slots SET status = 'reserved', generation = 1 WHERE id = '{fresh}'", CHECK),
    ("slot out of retirement",
     "UPDATE slots SET status = 'retired' WHERE id = '{fresh}'; UPDATE slots SET status = 'disabled' WHERE id = '{fresh}'", CHECK),
    ("slot back in time", "UPDATE slots SET updated_at = updated_at - interval '1 s' WHERE id = '{free}'", CHECK),
    ("allocation reserved to active",
     "UPDATE allocations SET state = 'active', power = 'running', active_at = now(), revision = revision + 1 WHERE id = '{allocation}'", CHECK),
    ("allocation to a state that does not exist", "UPDATE allocations SET state = 'paused', revision = revision + 1 WHERE id = '{allocation}'", CHECK),
    ("allocation without a new revision", "UPDATE allocations SET deadline_at = now() WHERE id = '{allocation}'", CHECK),
    ("inc_14 failed without a reason",
     "UPDATE allocations SET state = 'failed', ended_at = now(), revision = revision + 1 WHERE id = '{allocation}'", CHECK),
    ("allocation without a node", "UPDATE allocations SET node_id = NULL, revision = revision + 1 WHERE id = '{gpu_allocation}'", CHECK),
    ("allocation with a bad name", "UPDATE allocations SET name = 'Not A Label', revision = revision + 1 WHERE id = '{allocation}'", CHECK),
    ("c_19 guest user of another form", "UPDATE allocations SET guest_user = 'root', revision = revision + 1 WHERE id = '{allocation}'", CHECK),
    ("a name twice in a project",
     "UPDATE allocations SET name = (SELECT name FROM allocations WHERE id = '{allocation}'), revision = revision + 1 WHERE id = '{gpu_allocation}'", UNIQUE),
    ("claim reserved to active", "UPDATE claims SET state = 'active' WHERE id = '{held_claim}'", CHECK),
    ("claim out of release",
     "UPDATE claims SET state = 'released', released_at = now() WHERE id = '{held_claim}';
      UPDATE claims SET state = 'reserved', released_at = NULL WHERE id = '{held_claim}'", CHECK),
    ("claim moved to another slot", "UPDATE claims SET slot_id = '{free}' WHERE id = '{held_claim}'", CHECK),
    ("snapshot changed", "UPDATE claims SET snapshot = '{}' WHERE id = '{held_claim}'", CHECK),
    ("released without a time", "UPDATE claims SET state = 'released' WHERE id = '{held_claim}'", CHECK),
    // P3: what was billable when
    ("two open periods of an allocation",
     "INSERT INTO allocation_periods (id, allocation_id, project_id, sku, gpu_count, started_at)
      SELECT gen_random_uuid(), '{allocation}', gen_random_uuid(), 'lab-slice', 1, now() FROM generate_series(1, 2)", UNIQUE),
    ("period that ends before it starts",
     "INSERT INTO allocation_periods (id, allocation_id, project_id, sku, gpu_count, started_at, ended_at)
      VALUES (gen_random_uuid(), '{allocation}', gen_random_uuid(), 'lab-slice', 1, now(), now() - interval '1 s')", CHECK),
    ("period opened again",
     "INSERT INTO allocation_periods (id, allocation_id, project_id, sku, gpu_count, started_at, ended_at)
      VALUES (gen_random_uuid(), '{allocation}', gen_random_uuid(), 'lab-slice', 1, now(), now());
      UPDATE allocation_periods SET ended_at = NULL", CHECK),
    // the event log
    ("event with a position of its own",
     "INSERT INTO outbox (position, type, aggregate_id, revision, at, data) VALUES (1, 'slot.available', gen_random_uuid(), 1, now(), '{}')", CHECK),
    ("two events of one revision",
     "INSERT INTO outbox (type, aggregate_id, revision, at, data) SELECT 'slot.available', '{allocation}', 1, now(), '{}'", UNIQUE),
    ("event rewritten", "UPDATE outbox SET data = '{\"a\": 1}'", CHECK),
    ("event moved", "UPDATE outbox SET position = seq; UPDATE outbox SET position = seq + 1000", CHECK),
    // P10
    ("audit row changed",
     "INSERT INTO audit (id, principal, action, resource, resource_id, request_id) VALUES (gen_random_uuid(), 'a', 'b', 'c', 'd', 'e');
      UPDATE audit SET principal = 'x'", IMMUTABLE),
    ("audit emptied", "TRUNCATE audit", IMMUTABLE),
    ("audit row removed",
     "INSERT INTO audit (id, principal, action, resource, resource_id, request_id) VALUES (gen_random_uuid(), 'a', 'b', 'c', 'd', 'e');
      DELETE FROM audit", IMMUTABLE),
    ("a second cell", "INSERT INTO cell VALUES (false, 1)", CHECK),
];

/// Ids that the cases name.
async fn arrange(world: &World) -> Vec<(&'static str, String)> {
    let lab = world.lab_node(3).await;
    let allocation = world.reserved(1).await;
    let slots = world.slots(lab).await;
    let held = slots
        .iter()
        .find(|slot| slot.allocation_id.is_some())
        .expect("held")
        .id;
    let free: Vec<Uuid> = slots
        .iter()
        .filter(|slot| slot.status == SlotStatus::Available)
        .map(|slot| slot.id)
        .collect();
    let gpu_node = world
        .node(NodeSpec {
            lab: false,
            ..lab_spec()
        })
        .await;
    let h200 = world.approve(gpu_node, &[h200_slot(0)]).await[0].id;
    let fresh = Uuid::now_v7();
    world
        .run(&format!("INSERT INTO slots (id, node_id, slot_index, class) VALUES ('{fresh}', '{gpu_node}', 7, 'h200_sxm')"))
        .await;
    // an allocation of another SKU on the lab node, and a node that is held as bare metal
    let metal = world
        .node(NodeSpec {
            mode: "baremetal".into(),
            ..lab_spec()
        })
        .await;
    let (gpu_allocation, metal_allocation) = (Uuid::now_v7(), Uuid::now_v7());
    for (id, sku, node) in [
        (gpu_allocation, "h200-sxm-slice", lab),
        (metal_allocation, "h200-sxm-slice", metal),
    ] {
        world
            .run(&format!(
                "INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, node_id, state, image,
                                          ssh_public_keys, guest_user, lab, principal, request_id, traceparent)
                 SELECT '{id}', project_id, 'n-{}', region_code, '{sku}', 1, capacity_shape, '{node}', 'reserved', image,
                        ssh_public_keys, guest_user, lab, principal, request_id, traceparent FROM allocations WHERE id = '{allocation}'",
                id.simple()
            ))
            .await;
    }
    world
        .run(&format!(
            "{CLAIM} VALUES (gen_random_uuid(), '{metal_allocation}', 'h200-sxm-slice', 'node_exclusive', '{metal}', NULL, NULL, 0, 'reserved', '{{}}')"
        ))
        .await;
    let held_claim: Uuid = sqlx::query_scalar("SELECT id FROM claims WHERE slot_id = $1")
        .bind(held)
        .fetch_one(&world.owner)
        .await
        .expect("claim");
    let id = |id: Uuid| id.to_string();
    vec![
        ("{claim}", CLAIM.to_owned()),
        ("{lab}", id(lab)),
        ("{gpu_node}", id(gpu_node)),
        ("{metal}", id(metal)),
        ("{allocation}", id(allocation)),
        ("{gpu_allocation}", id(gpu_allocation)),
        ("{held}", id(held)),
        ("{held_claim}", id(held_claim)),
        ("{free}", id(free[0])),
        ("{free2}", id(free[1])),
        ("{h200}", id(h200)),
        ("{fresh}", id(fresh)),
    ]
}

/// SQLSTATE of statements that are rolled back; None when they were accepted.
async fn state_of(pool: &PgPool, sql: &str) -> Option<String> {
    let mut tx = pool.begin().await.expect("begin");
    let outcome = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(&mut *tx)
        .await;
    // a deferred check would be missed by a rollback alone
    let outcome = match outcome {
        Ok(_) => {
            sqlx::raw_sql("SET CONSTRAINTS ALL IMMEDIATE")
                .execute(&mut *tx)
                .await
        }
        error => error,
    };
    tx.rollback().await.expect("rollback");
    outcome.err().map(|error| {
        match error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code)
        {
            Some(code) => code.into_owned(),
            None => panic!("{sql}: {error}"),
        }
    })
}

/// With them: the snapshot of a claim never changes (G-05, G-06), and on its node an address of guests is one slot's
/// (J-05).
#[tokio::test]
async fn the_database_refuses_what_must_never_be() {
    let world = World::new().await;
    let ids = arrange(&world).await;
    let mut wrong = Vec::new();
    for (name, template, wanted) in CASES {
        let sql = ids
            .iter()
            .fold((*template).to_owned(), |sql, (name, value)| {
                sql.replace(name, value)
            });
        let as_owner = state_of(&world.owner, &sql).await;
        if as_owner.as_deref() != Some(wanted) {
            wrong.push(format!("{name}: as owner {as_owner:?}, wanted {wanted}"));
        }
        for (role, pool) in [
            ("scheduler", &*world.scheduler),
            ("allocation", &world.allocation),
        ] {
            let as_role = state_of(pool, &sql).await;
            if as_role.as_deref() != Some(wanted) && as_role.as_deref() != Some("42501") {
                wrong.push(format!(
                    "{name}: as {role} {as_role:?}, wanted {wanted} or 42501"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
