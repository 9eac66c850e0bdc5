//! What the database itself refuses, whoever asks; each statement is tried as the service's role and, where the
//! role lacks the right anyway, as the owner of the tables.
use crate::common::{World, at, event};
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

async fn refused(pool: &PgPool, statement: &str, want: &str) {
    let error = sqlx::query(AssertSqlSafe(statement.to_owned()))
        .execute(pool)
        .await
        .expect_err(statement);
    let database = error
        .as_database_error()
        .unwrap_or_else(|| panic!("{statement}: {error}"));
    let reported = format!(
        "{} {}",
        database.constraint().unwrap_or_default(),
        database.message()
    );
    assert!(
        reported.contains(want),
        "{statement}\n  was refused by {reported:?}, not by {want:?}"
    );
}

#[tokio::test]
async fn wrong_money_cannot_be_written() {
    let world = World::new().await;
    let (open, closed, project) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    world.ledger.set(vec![
        world.active(1, open, project, at(0)),
        world.active(2, closed, project, at(0)),
        event(3, "allocation.releasing", closed, project, at(10_000_000)),
    ]);
    world.consumer.catch_up().await.expect("applied");
    let owner = world.db.owner_pool().await;
    let insert = |allocation: Uuid, gpus: i32, claims: &str, start: &str, end: &str| {
        let closed_position = if end == "NULL" { "NULL" } else { "91" };
        format!(
            "INSERT INTO billing.usage_intervals (id, allocation_id, project_id, sku, gpu_count, price_version_id,
                 claims, started_at, ended_at, opened_position, closed_position)
             VALUES (gen_random_uuid(), '{allocation}', '{project}', 'lab-slice', {gpus}, '{}', '{claims}',
                 {start}, {end}, 90, {closed_position})",
            world.price_version
        )
    };
    let inside = "to_timestamp(1790000005)";
    let later = "to_timestamp(1790000100)";
    let price = |id: &str, currency: &str, nanos: i64| {
        format!(
            "INSERT INTO billing.price_versions (id, sku, currency, price_nanos, effective_at)
             VALUES ('{id}', 'lab-slice', '{currency}', {nanos}, now() + interval '1 hour')"
        )
    };
    let fresh = Uuid::now_v7().to_string();
    let no_role = "permission denied";
    let table = [
        // P3: overlap, also with an open interval, in either direction
        (insert(closed, 1, "[]", inside, later), "usage_intervals_no_overlap", "usage_intervals_no_overlap"),
        (insert(closed, 1, "[]", "'-infinity'", inside), "usage_intervals_no_overlap", "usage_intervals_no_overlap"),
        (insert(open, 1, "[]", later, "NULL"), "usage_intervals_", "usage_intervals_"),
        (insert(open, 1, "[]", later, "'infinity'"), "usage_intervals_no_overlap", "usage_intervals_no_overlap"),
        (insert(Uuid::now_v7(), 0, "[]", inside, later), "gpu_count", "gpu_count"),
        (insert(Uuid::now_v7(), 1, "{}", inside, later), "claims", "claims"),
        (insert(Uuid::now_v7(), 1, "[]", later, inside), "usage_intervals_check", "usage_intervals_check"),
        // written once, closed once
        ("UPDATE billing.usage_intervals SET ended_at = now() WHERE closed_position = 3".into(), "written once", "written once"),
        ("UPDATE billing.usage_intervals SET ended_at = NULL, closed_position = NULL WHERE closed_position = 3".into(), "written once", "written once"),
        ("UPDATE billing.usage_intervals SET ended_at = started_at WHERE closed_position IS NULL".into(), "check", "check"),
        ("UPDATE billing.usage_intervals SET gpu_count = 1".into(), no_role, "written once"),
        ("UPDATE billing.usage_intervals SET claims = '[]'".into(), no_role, "written once"),
        ("DELETE FROM billing.usage_intervals".into(), no_role, "written once"),
        // prices are immutable
        (price(&fresh, "eur", 1), "currency", "currency"),
        (price(&fresh, "EUR", -1), "price_nanos", "price_nanos"),
        (price(&fresh, "EUR", 1_000_000_000_000_001), "price_nanos", "price_nanos"),
        ("UPDATE billing.price_versions SET price_nanos = 1".into(), no_role, "immutable"),
        ("UPDATE billing.price_versions SET published_at = now(), currency = 'USD'".into(), no_role, "immutable"),
        ("DELETE FROM billing.price_versions".into(), no_role, "immutable"),
        // the position goes with the effects, and there is one
        ("INSERT INTO billing.consumer_position VALUES ('other', 0)".into(), no_role, ""),
        ("DELETE FROM billing.consumer_position".into(), no_role, ""),
    ];
    let before = world.intervals().await;
    for (statement, by_service, by_owner) in &table {
        refused(&world.pool, statement, by_service).await;
        if !by_owner.is_empty() {
            refused(&owner, statement, by_owner).await;
        }
    }
    sqlx::query("UPDATE price_versions SET published_at = now()")
        .execute(&world.pool)
        .await
        .expect("once");
    refused(
        &world.pool,
        "UPDATE price_versions SET published_at = NULL",
        "immutable",
    )
    .await;
    assert_eq!(world.intervals().await, before);
}

#[tokio::test]
async fn billing_reaches_no_other_schema() {
    let world = World::new().await;
    for table in [
        "placement.allocations",
        "inventory.nodes",
        "images.os_images",
        "terminal._sqlx_migrations",
        "edge.audit",
    ] {
        refused(
            &world.pool,
            &format!("SELECT * FROM {table}"),
            "permission denied",
        )
        .await;
    }
    for role in [
        "gpuaas_allocation",
        "gpuaas_scheduler",
        "gpuaas_edge",
        "gpuaas_images",
    ] {
        let other = world.db.pool(role).await;
        refused(
            &other,
            "SELECT * FROM billing.usage_intervals",
            "permission denied",
        )
        .await;
        refused(
            &other,
            "UPDATE billing.consumer_position SET position = 0",
            "permission denied",
        )
        .await;
    }
}
