//! What a process keeps in memory of the nodes is what the database says, whatever the order of transactions.
use std::time::Duration;

use gpuaas_common::db::{sized, within};
use gpuaas_dev::postgres::Vanishing;
use gpuaas_dev::until::until;
use gpuaas_placement::availability::{self, Availability};
use gpuaas_placement::capacity::{Capacity, Regions};
use gpuaas_placement::nodes::{self, NodeSpec};
use gpuaas_placement::reserve::{self, Explanation, NodeVerdict, Request};

use crate::world::{H200, LAB, POLICY, REGION, World, lab_slot, lab_spec};

/// All that is told from a copy.
type Reported = (Vec<Availability>, Vec<(Explanation, Vec<NodeVerdict>)>);

/// What a copy tells: availability, and every node for one size of each SKU.
pub async fn reported(world: &World, capacity: &Capacity) -> Reported {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let rows = availability::list(&mut conn, capacity, POLICY, None, None, None)
        .await
        .expect("availability");
    let mut verdicts = Vec::new();
    for sku in [LAB, H200] {
        let request = Request {
            sku: sku.into(),
            ..world.request(1)
        };
        let found = reserve::explain_nodes(&mut conn, capacity, POLICY, &request, usize::MAX).await;
        verdicts.push(found.expect("explained"));
    }
    (rows, verdicts)
}

async fn lab_fits(world: &World, region: &str) -> u32 {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let rows = availability::list(
        &mut conn,
        &world.capacity,
        POLICY,
        None,
        Some(region),
        Some(LAB),
    )
    .await
    .expect("availability");
    rows.iter()
        .find(|row| row.gpu_count.get() == 1)
        .expect("ones")
        .fits
}

#[tokio::test]
async fn b_57_a_transaction_that_commits_late_is_not_missed() {
    let (world, early) = World::with_lab_slots(1).await;
    let late = world.lab_node(1).await;
    let drain = |node| format!("UPDATE nodes SET admin_state = 'draining' WHERE id = '{node}'");
    assert_eq!(lab_fits(&world, REGION).await, 2);

    // the first to write is the last to commit, with readings and another commit in between
    let mut first = world.owner.begin().await.expect("begin");
    sqlx::query(sqlx::AssertSqlSafe(drain(early)))
        .execute(&mut *first)
        .await
        .expect("drain");
    assert_eq!(lab_fits(&world, REGION).await, 2);
    world.run(&drain(late)).await;
    assert_eq!(lab_fits(&world, REGION).await, 1);
    assert_eq!(lab_fits(&world, REGION).await, 1);
    first.commit().await.expect("commit");
    assert_eq!(lab_fits(&world, REGION).await, 0);
}

#[tokio::test]
async fn b_57_what_is_rolled_back_never_was() {
    let (world, node) = World::with_lab_slots(2).await;
    assert_eq!(lab_fits(&world, REGION).await, 2);
    let mut tx = world.scheduler.begin().await.expect("begin");
    let closed = NodeSpec {
        id: node,
        schedulable: false,
        ..lab_spec()
    };
    nodes::put(&mut tx, &closed).await.expect("closed");
    // the transaction sees what it wrote, and the copy is not touched by it
    let rows = availability::list(
        &mut tx,
        &world.capacity,
        POLICY,
        None,
        Some(REGION),
        Some(LAB),
    )
    .await
    .expect("availability");
    assert!(rows.iter().all(|row| row.fits == 0), "{rows:?}");
    assert_eq!(lab_fits(&world, REGION).await, 2);
    tx.rollback().await.expect("rollback");
    assert_eq!(lab_fits(&world, REGION).await, 2);
    assert_eq!(
        reported(&world, &world.capacity).await,
        reported(&world, &Capacity::default()).await
    );
}

#[tokio::test]
async fn b_57_a_node_that_moves_is_counted_where_it_is() {
    let (world, node) = World::with_lab_slots(2).await;
    world
        .run("INSERT INTO regions (code, enabled) VALUES ('lab-2', true)")
        .await;
    assert_eq!(lab_fits(&world, REGION).await, 2);
    world
        .run(&format!(
            "UPDATE nodes SET region_code = 'lab-2' WHERE id = '{node}'"
        ))
        .await;
    assert_eq!(lab_fits(&world, REGION).await, 0);
    assert_eq!(lab_fits(&world, "lab-2").await, 2);
    world
        .run(&format!(
            "UPDATE nodes SET mode = 'baremetal' WHERE id = '{node}'"
        ))
        .await;
    assert_eq!(lab_fits(&world, "lab-2").await, 0);
    // a restore raises the epoch: numbers of transactions from before mean nothing any more
    world
        .run(&format!(
            "UPDATE nodes SET mode = 'slice' WHERE id = '{node}'; UPDATE cell SET epoch = epoch + 1"
        ))
        .await;
    assert_eq!(lab_fits(&world, "lab-2").await, 2);
}

#[tokio::test]
async fn b_57_health_slots_and_sales_are_seen() {
    let (world, node) = World::with_lab_slots(3).await;
    assert_eq!(lab_fits(&world, REGION).await, 3);
    world.reserved(1).await;
    assert_eq!(lab_fits(&world, REGION).await, 2);
    world
        .run(&format!(
            "UPDATE slots SET host_health = 'degraded' WHERE node_id = '{node}' AND slot_index = 2"
        ))
        .await;
    assert_eq!(lab_fits(&world, REGION).await, 1);
    world.approve(node, &[lab_slot(3)]).await;
    assert_eq!(lab_fits(&world, REGION).await, 2);
    assert_eq!(
        reported(&world, &world.capacity).await,
        reported(&world, &Capacity::default()).await
    );
}

async fn read(pool: &sqlx::PgPool, capacity: &Capacity) -> gpuaas_placement::Result<Regions> {
    let mut conn = pool.acquire().await?;
    capacity.now(&mut conn).await
}

/// The reading knows by then what has changed, and has not read it.
#[tokio::test]
async fn b_57_p8_a_copy_catches_up_after_the_host_of_the_database_vanished() {
    let (world, node) = World::with_lab_slots(3).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (host, options) =
        Vanishing::to(world.db.options("gpuaas_scheduler"), folder.path()).expect("a way");
    let pool = sized(2)
        .acquire_timeout(Duration::from_secs(30))
        .connect_lazy_with(options);
    let capacity = Capacity::default();
    read(&pool, &capacity).await.expect("read");

    let degrade = |slot: u32| {
        format!(
            "UPDATE slots SET host_health = 'degraded' WHERE node_id = '{node}' AND slot_index = {slot}"
        )
    };
    world.run(&degrade(0)).await;
    let mut held = world.owner.begin().await.expect("begin");
    sqlx::query("LOCK TABLE slots IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *held)
        .await
        .expect("locked");
    let vanishes = async {
        world.someone_waits().await;
        host.vanish();
        held.rollback().await.expect("rollback");
    };
    // who asked gives up
    tokio::select! {
        _ = read(&pool, &capacity) => panic!("it is read while its rows are locked"),
        () = vanishes => {}
    }
    world.run(&degrade(1)).await;
    until("it is read again", Duration::from_secs(30), async || {
        within(Duration::from_secs(3), read(&pool, &capacity))
            .await
            .ok()
    })
    .await;
    let caught_up = reported(&world, &capacity).await;
    assert_eq!(caught_up, reported(&world, &Capacity::default()).await);
}
