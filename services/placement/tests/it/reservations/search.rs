//! Where a reservation looks for what it is to hold, and how much it reads for that.
use gpuaas_placement::capacity::{CONNECTION, Ledger};
use gpuaas_placement::model::Scope;
use gpuaas_placement::reservations::{self, Cancellation, ReservationSpec};
use sqlx::postgres::PgPoolOptions;
use uuid::Uuid;

use super::{create, requested, sound};
use crate::baremetal::{WITH_EXECUTOR, world_of};
use crate::world::{POLICY, World};

/// Others work on all nodes but one, those that are looked at first among them.
#[tokio::test]
async fn b_42_gathering_finds_the_one_node_that_nobody_works_on() {
    const NODES: usize = 24;
    let world = World::new().await;
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(world.lab_node(2).await);
    }
    let free = nodes.remove(NODES / 2);
    let mut others = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM nodes WHERE id = ANY ($1) FOR NO KEY UPDATE")
        .bind(&nodes)
        .execute(&mut *others)
        .await
        .expect("locked");
    // where each looks first is chance
    for round in 0..6 {
        let gather = ReservationSpec {
            gather: true,
            ..requested(&world, 2)
        };
        let row = create(&world, &gather).await.expect("gathers");
        assert_eq!(row.reserved_gpus, 2, "round {round}");
        let on: Vec<Uuid> = sqlx::query_scalar("SELECT DISTINCT node_id FROM reserved_slots")
            .fetch_all(&world.owner)
            .await
            .expect("nodes");
        assert_eq!(on, [free]);
        let key = format!("k-{round}");
        let cancel = Cancellation {
            principal: "user:root",
            idempotency_key: &key,
            request_hash: &[1; 32],
            request_id: "",
            scope: Scope::Platform,
            id: row.id,
            reason: "",
        };
        let canceled = reservations::cancel(&world.scheduler, POLICY, &cancel).await;
        canceled.expect("canceled");
    }
    others.commit().await.expect("commit");
    sound(&world).await;
}

/// Rows of nodes that the one connection of a ledger has read.
async fn nodes_read(world: &World, ledger: &Ledger) -> i64 {
    // it hands its counters over when its transaction ends
    for statement in ["SELECT pg_stat_force_next_flush()", "SELECT 1"] {
        let done = sqlx::query(statement).execute(&**ledger).await;
        done.expect("flush");
    }
    world
        .number(
            "SELECT (seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables
              WHERE schemaname = 'placement' AND relname = 'nodes'",
        )
        .await
}

#[tokio::test]
async fn b_35_a_reservation_of_many_bare_metal_nodes_reads_the_region_once() {
    const NODES: u32 = 40;
    const HELD: u32 = 12;
    let (world, _) = world_of(NODES as usize).await;
    world.run("ANALYZE placement.slots, placement.nodes").await;
    // as in a large fleet, what can be found by an index is
    let options = world.db.options("gpuaas_scheduler").options(CONNECTION);
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(options.options([("enable_seqscan", "off")]));
    let ledger = Ledger::new(pool.await.expect("pool"));
    let before = nodes_read(&world, &ledger).await;
    let nodes = ReservationSpec {
        sku: "h200-sxm-node".into(),
        ..requested(&world, HELD * 8)
    };
    let made = reservations::create(&ledger, world.ids, WITH_EXECUTOR, &nodes).await;
    assert_eq!(made.expect("held").0.missing(), 0);
    let rows = nodes_read(&world, &ledger).await - before;
    println!("{rows} rows of nodes read");
    // each node that is taken is read a few times by its id
    assert!(rows < i64::from(NODES * HELD), "{rows}");
    sound(&world).await;
}
