//! What a comparison of a node with its host reads of the ledger does not grow with what the node ever had.
use gpuaas_allocation::store::residue;
use sqlx::postgres::PgPoolOptions;
use uuid::Uuid;

use crate::platform::{Platform, good};
use crate::world::World;

/// Allocations that ended long ago.
const OLD: i64 = 5_000;

/// An allocation that was active and is released.
async fn ended(platform: &Platform) -> Uuid {
    let world = &platform.world;
    let created = platform.create(good("web"), "key-1").await;
    let id: Uuid = created.expect("created").id.parse().expect("a uuid");
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    world.release(id).await;
    world.until_state(id, "released").await;
    world.until_idle(id).await;
    id
}

/// As many copies of it, which ended a month ago.
async fn age(world: &World, id: Uuid) {
    for statement in [
        "ALTER TABLE placement.allocations DISABLE TRIGGER USER",
        "INSERT INTO placement.allocations SELECT (jsonb_populate_record(a, jsonb_build_object(
             'id', gen_random_uuid(), 'ended_at', a.ended_at - interval '30 days'))).*
           FROM placement.allocations a, generate_series(1, $2) WHERE a.id = $1",
        "ALTER TABLE placement.allocations ENABLE TRIGGER USER",
        "ANALYZE placement.allocations",
    ] {
        let mut query = sqlx::query(statement);
        if statement.starts_with("INSERT") {
            query = query.bind(id).bind(OLD);
        }
        query.execute(&world.owner).await.expect(statement);
    }
}

/// Rows of allocations that were read so far.
async fn read_so_far(pool: &sqlx::PgPool, world: &World) -> i64 {
    for statement in ["SELECT pg_stat_force_next_flush()", "SELECT 1"] {
        sqlx::query(statement).execute(pool).await.expect(statement);
    }
    sqlx::query_scalar(
        "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables
          WHERE schemaname = 'placement' AND relname = 'allocations'",
    )
    .fetch_one(&world.owner)
    .await
    .expect("counters")
}

#[tokio::test]
async fn d_82_a_comparison_reads_what_runs_or_ended_lately_and_not_all_that_ever_ran() {
    let platform = Platform::start().await;
    let id = ended(&platform).await;
    let kept = platform.create(good("kept"), "key-2").await;
    let kept: Uuid = kept.expect("created").id.parse().expect("a uuid");
    let world = &platform.world;
    world.until_state(kept, "active").await;
    world.until_idle(kept).await;
    age(world, id).await;
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .connect_with(world.db.options("gpuaas_allocation"))
        .await
        .expect("a pool");
    let before = read_so_far(&pool, world).await;
    let mut found = residue::allocations_of(&pool, world.node_id)
        .await
        .expect("read");
    let read = read_so_far(&pool, world).await - before;
    found.sort_by_key(|row| row.id != id);
    let seen: Vec<_> = found.iter().map(|row| (row.id, row.holds)).collect();
    assert_eq!(seen, [(id, false), (kept, true)]);
    // the services read a little at the same time
    assert!(
        read < OLD / 10,
        "{read} rows read for {} allocations",
        seen.len()
    );
}
