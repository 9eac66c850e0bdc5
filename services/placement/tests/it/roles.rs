//! Least privilege: each role is kept out of every schema but its own, and within it to what it needs.
use sqlx::{AssertSqlSafe, Executor as _};

use crate::world::World;

const ROLES: [(&str, &str); 7] = [
    ("gpuaas_scheduler", "placement"),
    ("gpuaas_allocation", "placement"),
    ("gpuaas_inventory", "inventory"),
    ("gpuaas_images", "images"),
    ("gpuaas_terminal", "terminal"),
    ("gpuaas_billing", "billing"),
    ("gpuaas_edge", "edge"),
];

fn code(error: &sqlx::Error) -> String {
    error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .map(std::borrow::Cow::into_owned)
        .unwrap_or_default()
}

#[tokio::test]
async fn no_role_crosses_into_another_schema() {
    let world = World::new().await;
    let tables: Vec<(String, String)> = sqlx::query_as(
        "SELECT schemaname::text, tablename::text FROM pg_tables WHERE schemaname = ANY ($1)",
    )
    .bind(ROLES.map(|(_, schema)| schema).to_vec())
    .fetch_all(&world.owner)
    .await
    .expect("tables");
    assert!(tables.len() > 30);
    for (role, own) in ROLES {
        let pool = world.db.pool(role).await;
        for (schema, table) in tables.iter().filter(|(schema, _)| schema != own) {
            for statement in [
                format!("SELECT FROM {schema}.{table} LIMIT 1"),
                format!("DELETE FROM {schema}.{table}"),
                format!("TRUNCATE {schema}.{table}"),
                format!("INSERT INTO {schema}.{table} DEFAULT VALUES"),
            ] {
                let error = pool
                    .execute(AssertSqlSafe(statement.clone()))
                    .await
                    .expect_err(&statement);
                assert_eq!(code(&error), "42501", "{role}: {statement}");
            }
        }
        for statement in [
            format!("CREATE TABLE {own}.mine ()"),
            "CREATE SCHEMA mine".to_owned(),
            "CREATE TABLE public.mine ()".to_owned(),
            "CREATE TEMPORARY TABLE mine ()".to_owned(),
            "SET ROLE gpuaas_owner".to_owned(),
            format!("UPDATE {own}.audit SET detail = '{{}}'"),
            format!("DELETE FROM {own}.audit"),
            format!("TRUNCATE {own}.audit"),
            format!("DELETE FROM {own}._sqlx_migrations"),
        ] {
            let error = pool
                .execute(AssertSqlSafe(statement.clone()))
                .await
                .expect_err(&statement);
            assert_eq!(code(&error), "42501", "{role}: {statement}");
        }
    }
}

#[tokio::test]
async fn within_the_ledger_each_role_does_its_own_part() {
    let (world, _) = World::with_lab_slots(1).await;
    world.active(1).await;
    let insert_claim = "INSERT INTO claims (id) VALUES (gen_random_uuid())";
    let cases = [
        // only the scheduler makes claims, slots, nodes and allocations
        ("gpuaas_allocation", insert_claim),
        (
            "gpuaas_allocation",
            "INSERT INTO allocations (id) VALUES (gen_random_uuid())",
        ),
        (
            "gpuaas_allocation",
            "INSERT INTO slots (id) VALUES (gen_random_uuid())",
        ),
        ("gpuaas_allocation", "UPDATE nodes SET schedulable = true"),
        (
            "gpuaas_allocation",
            "UPDATE slots SET admin_state = 'enabled'",
        ),
        (
            "gpuaas_allocation",
            "UPDATE slots SET host_health = 'healthy'",
        ),
        ("gpuaas_allocation", "UPDATE slots SET nvme_device = ''"),
        ("gpuaas_allocation", "UPDATE quotas SET max_gpus = 100"),
        (
            "gpuaas_allocation",
            "UPDATE project_quotas SET max_allocations = 100",
        ),
        (
            "gpuaas_allocation",
            "UPDATE allocations SET project_id = gen_random_uuid()",
        ),
        (
            "gpuaas_allocation",
            "UPDATE allocation_periods SET started_at = now()",
        ),
        ("gpuaas_allocation", "UPDATE outbox SET data = '{}'"),
        // only allocation moves allocations, bills and gives events their positions
        (
            "gpuaas_scheduler",
            "UPDATE allocations SET state = 'active'",
        ),
        (
            "gpuaas_allocation",
            "SELECT dequeue(gen_random_uuid(), 'failed', NULL, NULL, 0)",
        ),
        (
            "gpuaas_scheduler",
            "INSERT INTO allocation_periods SELECT * FROM allocation_periods",
        ),
        ("gpuaas_scheduler", "UPDATE outbox SET position = 1"),
        ("gpuaas_scheduler", "SELECT data FROM outbox"),
        ("gpuaas_scheduler", "SELECT price FROM allocation_periods"),
        ("gpuaas_scheduler", "UPDATE outbox_head SET position = 0"),
        ("gpuaas_scheduler", "UPDATE workflows SET state = 'done'"),
        ("gpuaas_scheduler", "UPDATE slots SET nvme_device = ''"),
        ("gpuaas_scheduler", "UPDATE claims SET snapshot = '{}'"),
        // nobody rewrites the rules, the evidence or the epoch
        (
            "gpuaas_scheduler",
            "INSERT INTO slot_transitions VALUES ('cleanup_blocked', 'available')",
        ),
        (
            "gpuaas_allocation",
            "INSERT INTO claim_transitions VALUES ('released', 'active')",
        ),
        (
            "gpuaas_scheduler",
            "UPDATE clean_evidence SET kind = 'wiped'",
        ),
        ("gpuaas_allocation", "DELETE FROM clean_evidence"),
        ("gpuaas_allocation", "UPDATE cell SET epoch = 9"),
        ("gpuaas_scheduler", "UPDATE cell SET epoch = 9"),
    ];
    for (role, statement) in cases {
        let pool = if role == "gpuaas_scheduler" {
            &world.scheduler
        } else {
            &world.allocation
        };
        let error = pool.execute(statement).await.expect_err(statement);
        assert_eq!(code(&error), "42501", "{role}: {statement}");
    }
    for role in ["gpuaas_scheduler", "gpuaas_allocation"] {
        let pool = world.db.pool(role).await;
        for table in [
            "nodes",
            "slots",
            "claims",
            "allocations",
            "allocation_periods",
            "outbox",
            "clean_evidence",
            "quotas",
            "project_quotas",
            "skus",
        ] {
            let statement = format!("DELETE FROM {table}");
            let error = pool
                .execute(AssertSqlSafe(statement.clone()))
                .await
                .expect_err(&statement);
            assert_eq!(code(&error), "42501", "{role}: {statement}");
        }
    }
}

#[tokio::test]
async fn roles_have_time_limits() {
    let world = World::new().await;
    for (role, schema) in ROLES {
        let pool = world.db.pool(role).await;
        let limits: (String, String, String) = sqlx::query_as(
            "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'),
                    current_setting('search_path')",
        )
        .fetch_one(&pool)
        .await
        .expect("settings");
        assert_eq!(
            limits,
            ("3s".to_owned(), "10s".to_owned(), schema.to_owned()),
            "{role}"
        );
    }
}
