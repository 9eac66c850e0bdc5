//! A reservation reads as much in a large fleet as in a small one.
use gpuaas_placement::capacity::{CONNECTION, Ledger};
use gpuaas_placement::catalog::{self, Sku};
use gpuaas_placement::model::Shape;
use gpuaas_placement::reservations::{self, Reconciled, ReservationSpec};
use gpuaas_placement::reserve::{self, Policy, Request};
use gpuaas_placement::{audit, availability};
use jiff_sqlx::ToSqlx as _;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use crate::reserving;
use crate::world::{H200, POLICY, REGION, World, gpu_counts, h200_sku, price};

/// Tables that grow with the fleet.
const TABLES: [&str; 5] = [
    "nodes",
    "slots",
    "claims",
    "allocations",
    "node_slot_changes",
];

/// So many nodes of eight slots, five of which are in use on every second node and none on the others.
async fn fleet(world: &World, nodes: i32) {
    fleet_without_statistics(world, nodes).await;
    world
        .run("ANALYZE; SELECT pg_stat_force_next_flush()")
        .await;
}

/// The same as a planner finds it before the first ANALYZE. What making it reads is counted at once: a server hands
/// counters over a second after the last time, which on an idle machine is while the test counts.
async fn fleet_without_statistics(world: &World, nodes: i32) {
    let statements = format!(
        "INSERT INTO nodes (id, hostname, region_code, mode, agent_address, instance_id, schedulable, hugepages_1g_free,
                            legal_groups, lab, host_health)
         SELECT gen_random_uuid(), 'gpu-' || n, '{REGION}', 'slice', '10.0.0.1:1', gen_random_uuid(), true, 2000,
                '[[1,2],[3,4],[5,6],[7,8],[1,2,3,4],[5,6,7,8],[1,2,3,4,5,6,7,8]]', false, 'healthy'
           FROM generate_series(1, {nodes}) n;
         INSERT INTO slots (id, node_id, slot_index, class, host_health, gpu_pci_address, gpu_module_id, numa_node,
                            nvme_device, storage_identity_kind, nvme_bytes, management_mac, private_ip, fabric_device,
                            fabric_vf_pci_address, fabric_claim_mode, destructive_wipe_policy)
         SELECT gen_random_uuid(), n.id, i, 'h200_sxm', 'healthy', '0000:1' || i || ':00.0', i + 1, i / 4,
                '/dev/disk/by-id/nvme-eui.' || i, 'nvme_wwn_by_id', 1000, '52:54:00:00:00:0' || i, '10.0.0.' || 10 + i,
                '0000:1a:00.0', '0000:1a:00.' || i, 'per_slot_vf', 'blkdiscard'
           FROM nodes n CROSS JOIN generate_series(0, 7) i;
         SELECT pg_stat_force_next_flush()"
    );
    world.run(&statements).await;
    // as if each had been wiped
    world
        .run_past_guards(
            "INSERT INTO clean_evidence (slot_id, generation, kind, method)
             SELECT id, 0, 'wiped', 'blkdiscard' FROM slots;
             SELECT pg_stat_force_next_flush()",
        )
        .await;
    let statements = format!(
        "UPDATE slots SET clean_generation = 0;
         UPDATE slots SET status = 'available', revision = 1;
         INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, node_id, state, image,
                                  ssh_public_keys, guest_user, lab, principal, request_id, traceparent)
         SELECT gen_random_uuid(), gen_random_uuid(), 'a', '{REGION}', '{H200}', 5, 'gpu_slice', n.id, 'reserved', '{{}}',
                ARRAY['k'], 'u_0123456789abcdef', false, 'user:x', '', '' FROM nodes n WHERE right(n.hostname, 1)::int % 2 = 0;
         UPDATE slots s SET status = 'reserved', generation = 1 FROM allocations a
          WHERE a.node_id = s.node_id AND s.slot_index < 5;
         INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state, snapshot)
         SELECT gen_random_uuid(), a.id, a.sku, 'slot', s.node_id, s.id, s.class, 1, 'reserved', '{{}}'
           FROM allocations a JOIN slots s ON s.node_id = a.node_id AND s.status = 'reserved';
         SELECT pg_stat_force_next_flush()"
    );
    world.run(&statements).await;
}

fn request(world: &World, gpu_count: u32) -> Request {
    Request {
        project_id: Uuid::now_v7(),
        sku: H200.into(),
        ..world.request(gpu_count)
    }
}

/// Makes a slot of each empty node unschedulable: nowhere are eight free. What this reads is counted at once, and not later.
async fn without_free_boards(world: &World) {
    world
        .run(
            "UPDATE slots SET host_health = 'degraded' WHERE slot_index = 7 AND node_id NOT IN (SELECT node_id FROM claims);
             ANALYZE; SELECT pg_stat_force_next_flush()",
        )
        .await;
}

/// A SKU of so many GPUs that is offered.
async fn offered(world: &World, code: &str, gpus: u32) -> Sku {
    let sku = Sku {
        code: code.into(),
        allowed_gpu_counts: gpu_counts(&[gpus]),
        ..h200_sku()
    };
    put(world, &sku).await;
    sku
}

async fn put(world: &World, sku: &Sku) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    catalog::put_sku(&mut conn, sku).await.expect("sku");
    let now = jiff::Timestamp::now().to_sqlx();
    catalog::put_price(&mut conn, &sku.code, &price(), now)
        .await
        .expect("price");
}

/// A reservation of so many GPUs now, all of them or none, for a project of its own.
fn gpus_of(sku: &Sku, gpu_count: u32) -> ReservationSpec {
    let project_id = Uuid::now_v7();
    ReservationSpec {
        principal: "user:root".into(),
        idempotency_key: project_id.to_string(),
        request_hash: vec![9; 32],
        request_id: String::new(),
        made_by_project: false,
        project_id,
        name: "many".into(),
        region_code: REGION.into(),
        sku: sku.code.clone(),
        gpu_count,
        starts_at: None,
        ends_at: jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1),
        release_unused_after: None,
        gather: false,
    }
}

/// Rows of each growing table that were read so far, by scans of the whole table and by index.
async fn rows_read(pool: &PgPool, owner: &PgPool) -> Vec<(String, i64, i64)> {
    // the one connection of the pool hands its counters over when its transaction ends
    sqlx::query("SELECT pg_stat_force_next_flush()")
        .execute(pool)
        .await
        .expect("flush");
    sqlx::query("SELECT 1").execute(pool).await.expect("idle");
    sqlx::query_as(
        "SELECT relname::text, seq_tup_read, coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables
          WHERE schemaname = 'placement' AND relname = ANY ($1) ORDER BY relname",
    )
    .bind(TABLES.map(str::to_owned).to_vec())
    .fetch_all(owner)
    .await
    .expect("counters")
}

/// Tables of which what changed since the oldest transaction of the server began is passed by index: other tests keep such open.
const PASSED: [&str; 2] = ["nodes", "node_slot_changes"];

/// A ledger with one connection, whose counters are handed over, and which plans as those of a scheduler do.
async fn counted(world: &World) -> (PgPool, Ledger) {
    counted_with(world, &[]).await
}

/// The same with more settings of the planner.
async fn counted_with(world: &World, more: &[(&str, &str)]) -> (PgPool, Ledger) {
    let options = world.db.options("gpuaas_scheduler").options(CONNECTION);
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(options.options(more.iter().copied()))
        .await
        .expect("pool");
    (pool.clone(), Ledger::new(pool))
}

#[tokio::test]
async fn b_35_what_a_reservation_reads_does_not_grow_with_the_fleet() {
    let world = World::new().await;
    fleet(&world, 1000).await;
    let (pool, ledger) = counted(&world).await;
    let reserve = async |gpu_count| {
        reserving::one(&ledger, world.ids, POLICY, &request(&world, gpu_count))
            .await
            .expect("room")
    };
    // often enough that the statements have the plans they keep
    for _ in 0..8 {
        reserve(1).await;
    }
    let before = rows_read(&pool, &world.owner).await;
    let sizes = [1, 2, 4, 8, 1, 2, 4, 8];
    for gpu_count in sizes {
        reserve(gpu_count).await;
    }
    let after = rows_read(&pool, &world.owner).await;
    let read: Vec<_> = after
        .into_iter()
        .zip(before)
        .map(|(after, before)| (after.0, after.1 - before.1, after.2 - before.2))
        .collect();
    println!("rows read by {} reservations: {read:?}", sizes.len());
    assert!(
        read.iter().all(|(_, whole, _)| *whole == 0),
        "a table was read as a whole: {read:?}"
    );
    // the shortlist nodes with their slots, and what was taken: a bound that knows nothing of the fleet
    let counted = read
        .iter()
        .filter(|(name, ..)| !PASSED.contains(&name.as_str()));
    let rows: i64 = counted.map(|(_, _, some)| some).sum();
    assert!((100..8 * 600).contains(&rows), "{read:?}");

    // the fleet was made by statements of the test: events and workflows are missing, and nothing else
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let report = audit::ledger(&mut conn).await.expect("audit");
    let missing = [
        "moving_allocation_is_worked_on",
        "event_explains_allocation",
        "event_explains_slot",
    ];
    let mut broken = report.broken().map(|check| check.name);
    assert!(broken.all(|name| missing.contains(&name)), "{report:#?}");
}

/// A bare-metal node is looked for among all nodes, once, and the one that is locked is read by its key.
#[tokio::test]
async fn b_35_a_bare_metal_node_that_is_locked_is_not_read_again_with_its_region() {
    const NODES: i32 = 400;
    let world = World::new().await;
    fleet(&world, NODES).await;
    let node = Sku {
        code: "h200-node".into(),
        capacity_shape: Shape::Baremetal,
        allowed_gpu_counts: gpu_counts(&[8]),
        ..h200_sku()
    };
    put(&world, &node).await;
    let (pool, ledger) = counted(&world).await;
    let policy = Policy {
        baremetal: true,
        ..POLICY
    };
    let reserve = async || {
        let request = Request {
            sku: node.code.clone(),
            ..request(&world, 8)
        };
        reserving::one(&ledger, world.ids, policy, &request)
            .await
            .expect("room")
    };
    for _ in 0..8 {
        reserve().await;
    }
    let before = rows_read(&pool, &world.owner).await;
    let times = 4;
    for _ in 0..times {
        reserve().await;
    }
    let after = rows_read(&pool, &world.owner).await;
    let read = |table: &str, rows: &[(String, i64, i64)]| -> i64 {
        let of = rows.iter().filter(|(name, ..)| name == table);
        of.map(|(_, whole, some)| whole + some).sum()
    };
    for (table, per_node) in [("nodes", 1), ("slots", 8)] {
        let rows = read(table, &after) - read(table, &before);
        let region = i64::from(NODES) * per_node;
        let bound = times * (region + region / 4);
        println!("{table}: {rows} rows read by {times} reservations, {region} in the region");
        assert!(
            (times * region..bound).contains(&rows),
            "{rows} of {table}, {region} in the region"
        );
    }
}

#[tokio::test]
async fn what_the_likely_nodes_cannot_take_is_looked_for_everywhere() {
    let world = World::new().await;
    fleet(&world, 40).await;
    // all but one node have free slots that no legal group covers
    world
        .run(
            "UPDATE nodes SET legal_groups = '[[1]]' WHERE id <> (SELECT max(id::text)::uuid FROM nodes WHERE NOT EXISTS
                (SELECT FROM claims c WHERE c.node_id = nodes.id))",
        )
        .await;
    let reserved = reserving::one(&world.scheduler, world.ids, POLICY, &request(&world, 4))
        .await
        .expect("the one node is found");
    let node = world
        .get(reserved.allocation_id)
        .await
        .node_id
        .expect("placed");
    let groups: i64 = sqlx::query_scalar(AssertSqlSafe(format!(
        "SELECT jsonb_array_length(legal_groups)::bigint FROM nodes WHERE id = '{node}'"
    )))
    .fetch_one(&world.owner)
    .await
    .expect("groups");
    assert_eq!(groups, 7);
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let rows = availability::list(&mut conn, &world.capacity, POLICY, None, None, Some(H200))
        .await
        .expect("availability");
    let fours = rows
        .iter()
        .find(|row| row.gpu_count.get() == 4)
        .expect("fours");
    assert_eq!(fours.fits, 1);
}

/// What lies on a node is read when it is taken, and not again for every GPU that comes after. A plan that is kept is
/// made before the first ANALYZE or after it, and must read the same; without bitmaps the planner likes whole tables best.
#[tokio::test]
async fn b_35_what_a_large_capacity_reservation_reads_grows_with_its_gpus_alone() {
    let no_bitmaps: &[(&str, &str)] = &[("enable_bitmapscan", "off")];
    for (analyzed, settings) in [
        (false, &[][..]),
        (true, &[]),
        (false, no_bitmaps),
        (true, no_bitmaps),
    ] {
        let rows = read_by_a_large_reservation(analyzed, settings).await;
        println!("{rows} rows of slots read for {GPUS} GPU, analyzed: {analyzed}, {settings:?}");
        assert!(
            (800..i64::from(GPUS) * 40).contains(&rows),
            "{rows}, analyzed: {analyzed}, {settings:?}"
        );
    }
}

/// GPUs of a large reservation.
const GPUS: u32 = 200;

/// Rows of slots that are read for it.
async fn read_by_a_large_reservation(analyzed: bool, settings: &[(&str, &str)]) -> i64 {
    let world = World::new().await;
    if analyzed {
        fleet(&world, 200).await;
    } else {
        fleet_without_statistics(&world, 200).await;
    }
    let single = offered(&world, "h200-single", 1).await;
    let (pool, ledger) = counted_with(&world, settings).await;
    let hold = async |sku: &Sku, gpus| {
        let requested = gpus_of(sku, gpus);
        let made = reservations::create(&ledger, world.ids, POLICY, &requested).await;
        assert_eq!(made.expect("held").0.missing(), 0);
    };
    // the statements have the plans they keep, and the copy is read
    hold(&single, 8).await;
    let before = rows_read(&pool, &world.owner).await;
    hold(&single, GPUS).await;
    let after = rows_read(&pool, &world.owner).await;
    let slots = |rows: &[(String, i64, i64)]| -> i64 {
        let of = rows.iter().filter(|(name, ..)| name == "slots");
        of.map(|(_, whole, some)| whole + some).sum()
    };
    slots(&after) - slots(&before)
}

/// Free slots there are, but none that its SKU offers.
#[tokio::test]
async fn a_reservation_that_gathers_in_vain_reads_no_fleet() {
    let world = World::new().await;
    fleet(&world, 1000).await;
    without_free_boards(&world).await;
    let boards = offered(&world, "h200-board", 8).await;
    let requested = ReservationSpec {
        gather: true,
        ..gpus_of(&boards, 16)
    };
    let (pool, ledger) = counted(&world).await;
    let made = reservations::create(&ledger, world.ids, POLICY, &requested).await;
    assert_eq!(made.expect("gathers").0.missing(), 16);
    let reconcile = async || {
        reservations::reconcile(&ledger, POLICY)
            .await
            .expect("reconciled")
    };
    // the copy is read once
    assert_eq!(reconcile().await, Reconciled::default());
    let before = rows_read(&pool, &world.owner).await;
    for _ in 0..8 {
        assert_eq!(reconcile().await, Reconciled::default());
    }
    let after = rows_read(&pool, &world.owner).await;
    let rows = |read: &[(String, i64, i64)]| -> i64 {
        let by_index = |name: &String, rows| {
            if PASSED.contains(&name.as_str()) {
                0
            } else {
                rows
            }
        };
        let counted = read.iter();
        counted.map(|(name, a, b)| a + by_index(name, *b)).sum()
    };
    let read = rows(&after) - rows(&before);
    assert!(read < 100, "{read} rows: {before:?} {after:?}");

    // what becomes free is seen all the same
    world
        .run(
            "UPDATE slots SET host_health = 'healthy' WHERE slot_index = 7 AND node_id =
               (SELECT node_id FROM slots WHERE host_health = 'degraded' LIMIT 1)",
        )
        .await;
    assert_eq!(reconcile().await.held, 8);
    assert_eq!(reconcile().await, Reconciled::default());
}

/// While somebody is queued whose node is kept for it, a look at the queue reads as little of the fleet as a reservation does.
#[tokio::test]
async fn b_35_a_pass_in_which_somebody_is_queued_reads_no_fleet() {
    let world = World::new().await;
    fleet(&world, 1000).await;
    without_free_boards(&world).await;
    let (pool, ledger) = counted(&world).await;
    let deadline = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let requested = request(&world, 8);
    let joined = reserving::one_or_queue(&ledger, world.ids, POLICY, &requested, deadline).await;
    joined.expect("waits");
    let pass = async || {
        let pass = reserve::serve_queue(&ledger, world.ids, POLICY).await;
        assert_eq!(pass.expect("pass"), reserve::Pass::default());
    };
    pass().await;
    assert_eq!(
        world
            .number("SELECT count(*) FROM backfill_reservations")
            .await,
        1
    );
    let before = rows_read(&pool, &world.owner).await;
    for _ in 0..8 {
        pass().await;
    }
    let after = rows_read(&pool, &world.owner).await;
    let slots = |rows: &[(String, i64, i64)]| -> i64 {
        let of = rows.iter().filter(|(name, ..)| name == "slots");
        of.map(|(_, whole, some)| whole + some).sum()
    };
    let rows = slots(&after) - slots(&before);
    println!("{rows} rows of slots read by 8 passes");
    assert!((8..8 * 400).contains(&rows), "{rows}: {before:?} {after:?}");
}
