//! Every transition there is, written out once more here, and every other one refused by the database.
use sqlx::{AssertSqlSafe, Executor as _, PgPool};
use uuid::Uuid;

use crate::world::World;

const SLOT: [&str; 9] = [
    "available",
    "reserved",
    "provisioning",
    "active",
    "releasing",
    "cleanup",
    "cleanup_blocked",
    "disabled",
    "retired",
];
const SLOT_LEGAL: [(&str, &[&str]); 9] = [
    ("available", &["reserved", "disabled", "cleanup_blocked"]),
    (
        "reserved",
        &["provisioning", "available", "cleanup_blocked"],
    ),
    ("provisioning", &["active", "releasing", "cleanup_blocked"]),
    ("active", &["releasing", "cleanup_blocked"]),
    ("releasing", &["cleanup", "cleanup_blocked"]),
    (
        "cleanup",
        &["available", "disabled", "cleanup_blocked", "retired"],
    ),
    ("cleanup_blocked", &["cleanup", "retired"]),
    (
        "disabled",
        &["available", "cleanup", "cleanup_blocked", "retired"],
    ),
    ("retired", &[]),
];
const ALLOCATION: [&str; 7] = [
    "requested",
    "reserved",
    "provisioning",
    "active",
    "releasing",
    "released",
    "failed",
];
const ALLOCATION_LEGAL: [(&str, &[&str]); 7] = [
    ("requested", &["reserved", "released", "failed"]),
    ("reserved", &["provisioning", "releasing", "failed"]),
    ("provisioning", &["active", "releasing", "failed"]),
    ("active", &["releasing"]),
    ("releasing", &["released"]),
    ("released", &[]),
    ("failed", &[]),
];
const CLAIM: [&str; 6] = [
    "reserved",
    "provisioning",
    "active",
    "releasing",
    "cleanup_blocked",
    "released",
];
const CLAIM_LEGAL: [(&str, &[&str]); 6] = [
    ("reserved", &["provisioning", "released", "cleanup_blocked"]),
    ("provisioning", &["active", "releasing", "cleanup_blocked"]),
    ("active", &["releasing", "cleanup_blocked"]),
    ("releasing", &["released", "cleanup_blocked"]),
    ("cleanup_blocked", &["released"]),
    ("released", &[]),
];

/// Tries every pair of states; the arrangement is made past the triggers, the transition under them.
async fn every_pair(
    superuser: &PgPool,
    states: &[&str],
    legal: &[(&str, &[&str])],
    update: impl Fn(&str, Option<&str>) -> String,
) {
    let mut wrong = Vec::new();
    for from in states {
        for to in states.iter().filter(|to| *to != from) {
            let mut tx = superuser.begin().await.expect("begin");
            tx.execute(AssertSqlSafe(format!(
                "SET LOCAL search_path TO placement; SET LOCAL session_replication_role = replica; {};
                 SET LOCAL session_replication_role = origin",
                update(from, None)
            )))
            .await
            .expect("arrange");
            let outcome = tx.execute(AssertSqlSafe(update(to, Some(from)))).await;
            let allowed = legal
                .iter()
                .any(|(known, targets)| known == from && targets.contains(to));
            let code = outcome.err().map(|error| {
                let database = error.as_database_error().expect("of the database");
                database.code().unwrap_or_default().into_owned()
            });
            let wanted = if allowed { None } else { Some("23514") };
            if code.as_deref() != wanted {
                wrong.push(format!("{from} to {to}: {code:?}, wanted {wanted:?}"));
            }
            tx.rollback().await.expect("rollback");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_90_slots_go_only_where_the_table_says() {
    let (world, node) = World::with_lab_slots(1).await;
    let id = world.slots(node).await[0].id;
    let superuser = world.db.pool("postgres").await;
    every_pair(&superuser, &SLOT, &SLOT_LEGAL, |to, from| {
        // a claim and a repair raise the generation; what becomes schedulable must be proven for its own
        let raise = matches!(
            (from, to),
            (Some("available"), "reserved") | (Some("cleanup_blocked"), "cleanup")
        );
        format!(
            "UPDATE slots SET status = '{to}', generation = generation + {} WHERE id = '{id}'",
            u8::from(raise)
        )
    })
    .await;
}

/// C-02
#[tokio::test]
async fn c_01_allocations_go_only_where_the_table_says() {
    let (world, _) = World::with_lab_slots(1).await;
    let id = world.reserved(1).await;
    let superuser = world.db.pool("postgres").await;
    every_pair(&superuser, &ALLOCATION, &ALLOCATION_LEGAL, |to, _| {
        format!(
            "UPDATE allocations SET state = '{to}', revision = revision + 1, active_at = now(),
                    power = CASE WHEN '{to}' = 'active' THEN 'running' END,
                    failure = CASE WHEN '{to}' = 'failed' THEN '{{}}'::jsonb END,
                    ended_at = CASE WHEN '{to}' IN ('released', 'failed') THEN now() END WHERE id = '{id}'"
        )
    })
    .await;
}

#[tokio::test]
async fn b_23_claims_go_only_where_the_table_says() {
    let (world, _) = World::with_lab_slots(1).await;
    let id = world.reserved(1).await;
    let superuser = world.db.pool("postgres").await;
    every_pair(&superuser, &CLAIM, &CLAIM_LEGAL, |to, _| {
        format!(
            "UPDATE claims SET state = '{to}', released_at = CASE WHEN '{to}' = 'released' THEN now() END
              WHERE allocation_id = '{id}'"
        )
    })
    .await;
}

/// What holds a slot keeps every other claim away; what has ended does not.
#[tokio::test]
async fn b_20_b_23_every_state_but_released_holds_the_slot() {
    let (world, node) = World::with_lab_slots(1).await;
    let id = world.reserved(1).await;
    let slot = world.slots(node).await[0].id;
    let superuser = world.db.pool("postgres").await;
    for state in CLAIM {
        let mut tx = superuser.begin().await.expect("begin");
        tx.execute(AssertSqlSafe(format!(
            "SET LOCAL search_path TO placement; SET LOCAL session_replication_role = replica;
             UPDATE claims SET state = '{state}', released_at = CASE WHEN '{state}' = 'released' THEN now() END;
             UPDATE slots SET generation = generation + 1 WHERE id = '{slot}';
             SET LOCAL session_replication_role = origin"
        )))
        .await
        .expect("arrange");
        let second = tx
            .execute(AssertSqlSafe(format!(
                "INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state, snapshot)
                 SELECT '{}', allocation_id, sku, kind, node_id, '{slot}', slot_class, slot_generation + 1, 'reserved', '{{}}'
                   FROM claims WHERE allocation_id = '{id}'",
                Uuid::now_v7()
            )))
            .await;
        assert_eq!(second.is_ok(), state == "released", "{state}: {second:?}");
        tx.rollback().await.expect("rollback");
    }
}
