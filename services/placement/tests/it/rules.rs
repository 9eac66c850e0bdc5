//! Rules of placement that one statement or one reservation shows.
use gpuaas_placement::model::{ClaimState, Shape, SlotStatus};
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::repair::Origin;
use gpuaas_placement::reserve::Request;
use gpuaas_placement::{Error, approval, availability, claims};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::{AssertSqlSafe, Executor as _};

use crate::world::{H200, POLICY, World, h200_groups, h200_slot, lab_spec};

async fn strings(world: &World, sql: &str) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
        .fetch_all(&world.owner)
        .await
        .expect(sql)
}

/// An eight-GPU node with its legal groups.
async fn board(world: &World) -> uuid::Uuid {
    let node = world
        .node(NodeSpec {
            lab: false,
            hugepages_1g_free: 2000,
            legal_groups: h200_groups(),
            ..lab_spec()
        })
        .await;
    world
        .approve(node, &(0..8).map(h200_slot).collect::<Vec<_>>())
        .await;
    node
}

fn h200(world: &World, gpu_count: u32) -> Request {
    Request {
        sku: H200.into(),
        ..world.request(gpu_count)
    }
}

///
#[tokio::test]
async fn inc_13_health_is_a_closed_set_everywhere() {
    let world = World::new().await;
    let health = strings(&world, "SELECT unnest(enum_range(NULL::health))::text").await;
    assert_eq!(health, ["healthy", "unknown", "degraded", "failed"]);
    // every column that says how healthy something is has that type
    let columns = strings(
        &world,
        "SELECT table_name || '.' || column_name || ' ' || udt_name FROM information_schema.columns
          WHERE table_schema = 'placement' AND column_name LIKE '%health' OR column_name = 'health_state'",
    )
    .await;
    assert!(columns.len() >= 4, "{columns:?}");
    assert!(
        columns.iter().all(|column| column.ends_with(" health")),
        "{columns:?}"
    );
}

/// G-04, L-02.
#[tokio::test]
async fn b_04_there_are_two_shapes_and_no_third() {
    assert_eq!(Shape::ALL, [Shape::GpuSlice, Shape::Baremetal]);
    let (world, _) = World::with_lab_slots(1).await;
    let id = world.reserved(1).await;
    let fraction = format!(
        "UPDATE allocations SET capacity_shape = 'fractional', revision = revision + 1 WHERE id = '{id}'"
    );
    let error = world
        .owner
        .execute(AssertSqlSafe(fraction))
        .await
        .expect_err("refused");
    assert!(
        error
            .as_database_error()
            .is_some_and(sqlx::error::DatabaseError::is_check_violation)
    );
}

#[tokio::test]
async fn b_03_a_slice_is_stored_as_gpu_slice() {
    let (world, _) = World::with_lab_slots(1).await;
    world.reserved(1).await;
    assert_eq!(
        strings(&world, "SELECT capacity_shape FROM allocations").await,
        ["gpu_slice"]
    );
}

///
// partly A-44: the name reaches the platform with the deployed profile; MAAS is not asked for its tag
#[tokio::test]
async fn b_12_nothing_is_offered_before_an_operator_approves_it() {
    let world = World::new().await;
    let node = world.node(lab_spec()).await;
    world
        .run(&format!(
            "INSERT INTO slots (id, node_id, slot_index, class) VALUES (gen_random_uuid(), '{node}', 0, 'lab')"
        ))
        .await;
    assert_eq!(world.count(node, SlotStatus::Disabled).await, 1);
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let rows = availability::list(&mut conn, &world.capacity, POLICY, None, None, None)
        .await
        .expect("availability");
    assert!(
        rows.len() > 1 && rows.iter().all(|row| row.fits == 0),
        "{rows:?}"
    );
    assert!(matches!(
        world.reserve(&world.request(1)).await,
        Err(Error::Refused { .. })
    ));
}

/// L-13.
#[tokio::test]
async fn b_01_b_10_b_22_b_24_a_slice_is_one_claim_per_gpu_on_one_node() {
    let world = World::new().await;
    let node = board(&world).await;
    for count in [1, 2, 4] {
        let reserved = world.reserve(&h200(&world, count)).await.expect("room");
        let allocation = world.get(reserved.allocation_id).await;
        assert_eq!(
            (allocation.capacity_shape, allocation.node_id),
            (Shape::GpuSlice, Some(node))
        );
        let mut conn = world.allocation.acquire().await.expect("connection");
        let held = claims::of_allocation(&mut conn, reserved.allocation_id)
            .await
            .expect("claims");
        assert_eq!(held.len(), count as usize);
        for claim in &held {
            assert_eq!((claim.node_id, claim.state), (node, ClaimState::Reserved));
            assert!(claim.slot_id.is_some());
        }
    }
    assert_eq!(world.count(node, SlotStatus::Available).await, 1);
}

#[tokio::test]
async fn b_18_slots_of_two_nodes_are_never_one_slice() {
    let world = World::new().await;
    let (first, second) = (board(&world).await, board(&world).await);
    // four are free on each, none of them half a board
    world
        .run("UPDATE slots SET status = 'disabled' WHERE slot_index IN (0, 1, 4, 5)")
        .await;
    for node in [first, second] {
        assert_eq!(world.count(node, SlotStatus::Available).await, 4);
    }
    match world.reserve(&h200(&world, 4)).await {
        Err(Error::Refused { reason, .. }) => assert_eq!(reason, ErrorReason::Fragmented),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        world.number("SELECT count(*) FROM (SELECT FROM claims GROUP BY allocation_id HAVING count(DISTINCT node_id) > 1) x").await,
        0
    );
}

/// slots without a GPU are claimed as those with one are.
#[tokio::test]
async fn b_25_two_slices_are_active_on_one_node() {
    let (world, node) = World::with_lab_slots(3).await;
    let (first, second) = (world.active(1).await, world.active(1).await);
    assert_ne!(first, second);
    assert_eq!(world.count(node, SlotStatus::Active).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b_42_a_slot_lost_between_ranking_and_locking_leaves_nothing_reserved() {
    let (world, node) = World::with_lab_slots(1).await;
    let before = world.fingerprint().await;
    let mut other = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM nodes WHERE id = $1 FOR NO KEY UPDATE")
        .bind(node)
        .execute(&mut *other)
        .await
        .expect("lock");
    let request = world.request(1);
    let taking = async {
        // the racer has ranked this node and waits for it
        world.someone_waits().await;
        sqlx::query("UPDATE slots SET status = 'disabled' WHERE node_id = $1")
            .bind(node)
            .execute(&mut *other)
            .await
            .expect("taken");
        other.commit().await.expect("commit");
    };
    let (outcome, ()) = tokio::join!(world.reserve(&request), taking);
    assert!(matches!(outcome, Err(Error::Refused { .. })), "{outcome:?}");
    assert_eq!(world.fingerprint().await, before);
}

///
#[tokio::test]
async fn b_44_b_45_a_row_that_lacks_any_binding_is_not_allocated() {
    let world = World::new().await;
    let node = board(&world).await;
    let superuser = world.db.pool("postgres").await;
    let mut superuser = superuser.acquire().await.expect("connection");
    superuser
        .execute("SET search_path TO placement; ALTER TABLE placement.slots DROP CONSTRAINT slots_available_is_complete")
        .await
        .expect("a mistake of somebody with all rights");
    for lack in [
        "gpu_pci_address = ''",
        "nvme_device = ''",
        "nvme_bytes = 0",
        "management_mac = ''",
        "private_ip = ''",
        "fabric_claim_mode = 'shared'",
        "fabric_vf_pci_address = ''",
        "destructive_wipe_policy = ''",
        "storage_identity_kind = ''",
    ] {
        let column = lack.split(' ').next().expect("a column");
        let statement =
            |set: &str| format!("UPDATE placement.slots SET {set} WHERE node_id = '{node}'");
        superuser
            .execute(AssertSqlSafe(format!(
                "DROP TABLE IF EXISTS kept; CREATE TABLE kept AS SELECT id, {column} AS was FROM placement.slots; {}",
                statement(lack)
            )))
            .await
            .expect(lack);
        match world.reserve(&h200(&world, 1)).await {
            Err(Error::Refused { reason, .. }) => {
                assert_eq!(reason, ErrorReason::IncompleteSlot, "{lack}");
            }
            other => panic!("{lack}: {other:?}"),
        }
        superuser
            .execute(AssertSqlSafe(format!(
                "UPDATE placement.slots s SET {column} = k.was FROM kept k WHERE k.id = s.id"
            )))
            .await
            .expect("put back");
    }
    world
        .reserve(&h200(&world, 1))
        .await
        .expect("complete again");
}

///
#[tokio::test]
async fn b_51_a_slice_has_fabric_functions_of_its_own_and_no_part_in_a_shared_one() {
    let world = World::new().await;
    let node = board(&world).await;
    let first = world.reserve(&h200(&world, 2)).await.expect("room");
    let second = world.reserve(&h200(&world, 2)).await.expect("room");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let mut functions = std::collections::BTreeSet::new();
    for id in [first.allocation_id, second.allocation_id] {
        for claim in claims::of_allocation(&mut conn, id).await.expect("claims") {
            let bindings = &claim.snapshot.bindings;
            assert_eq!(bindings.fabric_claim_mode, "per_slot_vf");
            assert_eq!(bindings.fabric_device, "0000:1a:00.0", "one parent of all");
            assert_eq!(claim.fabric_key, "", "nothing of the parent is held");
            functions.insert(bindings.fabric_vf_pci_address.clone());
        }
    }
    assert_eq!(functions.len(), 4, "{functions:?}");

    // a device that the host keeps and several slots share is not approved
    let mut shared = h200_slot(8);
    shared.bindings.fabric_claim_mode = "host_shared".into();
    shared.bindings.fabric_vf_pci_address = String::new();
    let mut tx = world.scheduler.begin().await.expect("begin");
    let outcome = approval::approve(
        &mut tx,
        node,
        &approval::Inspection::default(),
        &[shared],
        Origin::default(),
        uuid::Uuid::now_v7,
    )
    .await;
    tx.rollback().await.expect("rollback");
    let refused = gpuaas_common::Error::from(outcome.expect_err("no function of its own"));
    assert_eq!(refused.reason(), ErrorReason::CandidateIncomplete);
    // nor is a slot schedulable that is turned into one behind the approval's back
    let turned = format!(
        "UPDATE slots SET fabric_claim_mode = 'host_shared', fabric_vf_pci_address = '', revision = revision + 1
          WHERE node_id = '{node}' AND status = 'available'"
    );
    let error = world.owner.execute(AssertSqlSafe(turned)).await;
    let error = error.expect_err("refused").to_string();
    assert!(error.contains("slots_available_is_complete"), "{error}");
}

#[tokio::test]
async fn a_03_every_table_that_names_a_node_names_it_by_its_id() {
    let world = World::new().await;
    for schema in ["placement", "inventory"] {
        let own = format!(
            "SELECT column_name::text FROM information_schema.columns
              WHERE table_schema = '{schema}' AND table_name = 'nodes' AND column_name IN ('id', 'hostname') ORDER BY 1"
        );
        assert_eq!(strings(&world, &own).await, ["hostname", "id"], "{schema}");
        let others = format!(
            "SELECT DISTINCT c.conrelid::regclass || ' ' || own.attname FROM pg_constraint c
              CROSS JOIN LATERAL unnest(c.conkey, c.confkey) AS key (own, other)
              JOIN pg_attribute own ON own.attrelid = c.conrelid AND own.attnum = key.own
              JOIN pg_attribute other ON other.attrelid = c.confrelid AND other.attnum = key.other
             WHERE c.contype = 'f' AND c.confrelid = '{schema}.nodes'::regclass AND other.attname = 'id'"
        );
        let others = strings(&world, &others).await;
        assert!(others.len() >= 4, "{schema}: {others:?}");
        for other in &others {
            assert!(other.ends_with(" node_id"), "{schema}: {other}");
        }
    }
}
