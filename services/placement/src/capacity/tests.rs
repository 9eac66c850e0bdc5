//! The copy under concurrent requests, and under many reads of one transaction, on a real PostgreSQL.
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::join_all;
use gpuaas_dev::postgres::TestDb;
use gpuaas_placement_decision::Fleet;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};
use uuid::Uuid;

use super::{Capacity, Ledger};

/// Nodes without slots, each in a region of its own: `r-0`, `r-1`, …
async fn regions(db: &TestDb, count: usize) -> PgPool {
    let owner = db.pool("gpuaas_owner").await;
    let sql = format!(
        "INSERT INTO placement.regions (code, enabled) SELECT 'r-' || n, true FROM generate_series(0, {count} - 1) n;
         INSERT INTO placement.nodes (id, hostname, region_code, mode, agent_address, instance_id, schedulable,
                                      hugepages_1g_free, lab, host_health)
         SELECT gen_random_uuid(), 'gpu-' || n, 'r-' || n, 'slice', '10.0.0.1:1', gen_random_uuid(), true, 0, false, 'healthy'
           FROM generate_series(0, {count} - 1) n"
    );
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&owner).await;
    done.expect("nodes");
    owner
}

/// A node that is for slices is in the copy, and one in mode baremetal is not.
fn mode(region: &str, slice: bool) -> AssertSqlSafe<String> {
    let mode = if slice { "slice" } else { "baremetal" };
    AssertSqlSafe(format!(
        "UPDATE placement.nodes SET mode = '{mode}' WHERE region_code = '{region}'"
    ))
}

/// Many tasks commit a change and read: a read that began before is not shared, one that begins later is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b_57_who_looks_after_a_commit_sees_it_whoever_else_looks() {
    const TASKS: usize = 12;
    const ROUNDS: usize = 80;
    let db = TestDb::create().await;
    regions(&db, TASKS).await;
    let pool = db.pool("gpuaas_scheduler").await;
    let ledger = Ledger::new(pool);
    let tasks = (0..TASKS).map(|task| {
        let ledger = ledger.clone();
        tokio::spawn(async move {
            let region = format!("r-{task}");
            for round in 0..ROUNDS {
                let slice = round % 2 == 1;
                let mut conn = ledger.acquire().await.expect("connection");
                let done = sqlx::raw_sql(mode(&region, slice)).execute(&mut *conn);
                done.await.expect("changed");
                let nodes = ledger.capacity.with_current(&mut conn, |regions| {
                    regions.get(&region).map_or(0, |fleet| fleet.len())
                });
                let seen = nodes.await.expect("looked");
                assert_eq!(seen, usize::from(slice), "{region} in round {round}");
            }
        })
    });
    for outcome in join_all(tasks).await {
        outcome.expect("saw its own commits");
    }
    let readings = ledger.capacity.begun.load(Ordering::Acquire);
    println!("{readings} readings for {} looks", TASKS * ROUNDS);
    assert!(
        readings < (TASKS * ROUNDS) as u64,
        "nobody shared a reading"
    );
}

/// The reads between the writes of a transaction use one copy, brought up to date, and never another transaction's.
#[tokio::test]
async fn b_35_a_transaction_that_looks_often_copies_the_fleet_once() {
    let db = TestDb::create().await;
    let owner = regions(&db, 2).await;
    let ledger = Ledger::new(db.pool("gpuaas_scheduler").await);
    let mut tx = ledger.begin().await.expect("begin");
    let all = ledger.capacity.now(&mut tx).await.expect("looked");
    assert_eq!((all["r-0"].len(), all["r-1"].len()), (1, 1));
    drop(all);
    let own = ledger.capacity.for_transaction().await.expect("read");
    let write = async |conn: &mut PgConnection, free: u32| {
        let sql = format!(
            "UPDATE placement.nodes SET hugepages_1g_free = {free} WHERE region_code = 'r-0'"
        );
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await;
        done.expect("written");
    };
    let mut places = Vec::new();
    for free in 1..4 {
        write(&mut tx, free).await;
        let seen = own.now(&mut tx).await.expect("looked");
        places.push(Arc::as_ptr(&seen["r-0"]));
    }
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    // one node is read when the transaction names it, and in a copy of its own alone
    sqlx::raw_sql(mode("r-0", false))
        .execute(&mut *tx)
        .await
        .expect("gone");
    let id: [Uuid; 1] =
        [
            sqlx::query_scalar("SELECT id FROM placement.nodes WHERE region_code = 'r-0'")
                .fetch_one(&mut *tx)
                .await
                .expect("a node"),
        ];
    for (capacity, left) in [(&own, 0), (&*ledger.capacity, 1)] {
        capacity.changed(&mut tx, &id).await.expect("read");
        assert_eq!(
            capacity.with_cached("r-0", Fleet::len).await.expect("read"),
            left
        );
    }
    // its own changes and those of others are in it; its own are nowhere else
    sqlx::raw_sql(mode("r-0", false))
        .execute(&mut *tx)
        .await
        .expect("gone");
    sqlx::raw_sql(mode("r-1", false))
        .execute(&owner)
        .await
        .expect("gone");
    let lens = async |capacity: &Capacity, conn: &mut PgConnection| {
        let seen = capacity.now(conn).await.expect("looked");
        (seen["r-0"].len(), seen["r-1"].len())
    };
    assert_eq!(lens(&own, &mut tx).await, (0, 0));
    tx.rollback().await.expect("rollback");
    let mut conn = ledger.acquire().await.expect("connection");
    assert_eq!(lens(&ledger.capacity, &mut conn).await, (1, 0));
}
