//! Statements that the database must refuse whoever sends them, and rights that the roles do not have.
use gpuaas_placement::model::SlotStatus;
use gpuaas_placement::reservations::ReservationSpec;
use jiff::{SignedDuration, Timestamp};
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use super::{create, of_others, requested, reserved, sound};
use crate::world::World;

const CHECK: &str = "23514";

/// Name, statements, SQLSTATE as owner.
const CASES: &[(&str, &str, &str)] = &[
    ("p1 claim of a slot that is held for another project",
     "UPDATE slots SET status = 'reserved', generation = generation + 1, revision = revision + 1 WHERE id = '{held}';
      INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state, snapshot)
      SELECT gen_random_uuid(), '{other}', 'lab-slice', 'slot', node_id, id, 'lab', generation, 'reserved', '{}'
        FROM slots WHERE id = '{held}'", CHECK),
    ("b_32 claim of a bare-metal node with a slot that is held for another project",
     "INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_generation, state, snapshot)
      VALUES (gen_random_uuid(), '{other}', 'lab-slice', 'node_exclusive', '{node}', 0, 'reserved', '{}')", CHECK),
    ("hold of a slot that is in use",
     "INSERT INTO reserved_slots (slot_id, node_id, reservation_id, project_id, hugepages_1g)
      SELECT slot_id, node_id, '{wants}', '{project}', 0 FROM claims WHERE state <> 'released'", CHECK),
    ("second hold of a slot",
     "INSERT INTO reserved_slots (slot_id, node_id, reservation_id, project_id, hugepages_1g)
      VALUES ('{held}', '{node}', '{wants}', '{project}', 0)", "23505"),
    ("hold with another node",
     "INSERT INTO reserved_slots (slot_id, node_id, reservation_id, project_id, hugepages_1g)
      VALUES ('{free}', '{empty}', '{wants}', '{project}', 0)", "23503"),
    ("hold for another project",
     "INSERT INTO reserved_slots (slot_id, node_id, reservation_id, project_id, hugepages_1g)
      VALUES ('{free}', '{node}', '{wants}', gen_random_uuid(), 0)", "23503"),
    ("hold beyond what is reserved",
     "INSERT INTO reserved_slots (slot_id, node_id, reservation_id, project_id, hugepages_1g)
      VALUES ('{free}', '{node}', '{full}', '{project}', 0)", CHECK),
    ("hold before the window",
     "INSERT INTO reserved_slots (slot_id, node_id, reservation_id, project_id, hugepages_1g)
      VALUES ('{free}', '{node}', '{later}', '{project}', 0)", CHECK),
    ("hold in another region",
     "INSERT INTO regions VALUES ('elsewhere', true); UPDATE nodes SET region_code = 'elsewhere' WHERE id = '{node}';
      INSERT INTO reserved_slots (slot_id, node_id, reservation_id, project_id, hugepages_1g)
      VALUES ('{free}', '{node}', '{wants}', '{project}', 0)", CHECK),
    ("end of a reservation that holds slots",
     "UPDATE capacity_reservations SET state = 'ended', ended_at = now() WHERE id = '{full}'", CHECK),
    ("less reserved than is held",
     "UPDATE capacity_reservations SET released_gpus = 1 WHERE id = '{full}'", CHECK),
    ("reservation that goes back",
     "UPDATE capacity_reservations SET state = 'scheduled' WHERE id = '{wants}'", CHECK),
    ("reservation that is born over",
     "INSERT INTO capacity_reservations (id, project_id, name, region_code, sku, gpu_count, starts_at, ends_at, state,
                                         made_by_project, principal, ended_at)
      SELECT gen_random_uuid(), project_id, 'n', region_code, sku, 1, starts_at, ends_at, 'ended', false, 'a', now()
        FROM capacity_reservations WHERE id = '{full}'", CHECK),
    ("window that ends before it begins",
     "UPDATE capacity_reservations SET ends_at = starts_at WHERE id = '{later}'", CHECK),
    ("more given back than was reserved",
     "UPDATE capacity_reservations SET released_gpus = 9 WHERE id = '{later}'", CHECK),
    ("two of one name",
     "UPDATE capacity_reservations SET name = 'same' WHERE id IN ('{later}', '{full}')", "23505"),
];

/// Ids that the cases name: a node with a held slot, one of another project and a free one.
async fn arrange(world: &World) -> Vec<(&'static str, String)> {
    let node = world.lab_node(3).await;
    let full = reserved(world, 1).await;
    let held: Uuid = sqlx::query_scalar("SELECT slot_id FROM reserved_slots")
        .fetch_one(&world.owner)
        .await
        .expect("held");
    let other = world.reserve(&of_others(world, 1)).await.expect("open");
    let slots = world.slots(node).await;
    let free = slots
        .iter()
        .find(|slot| slot.id != held && slot.status == SlotStatus::Available)
        .expect("free")
        .id;
    let empty = world.lab_node(1).await;
    let begins_later = || ReservationSpec {
        starts_at: Some(Timestamp::now() + SignedDuration::from_secs(600)),
        ..requested(world, 3)
    };
    let wants = create(world, &begins_later()).await.expect("made");
    let later = create(world, &begins_later()).await.expect("made");
    let begun = format!(
        "UPDATE capacity_reservations SET state = 'active' WHERE id = '{}'",
        wants.id
    );
    world.run(&begun).await;
    vec![
        ("{node}", node.to_string()),
        ("{empty}", empty.to_string()),
        ("{held}", held.to_string()),
        ("{free}", free.to_string()),
        ("{other}", other.allocation_id.to_string()),
        ("{full}", full.id.to_string()),
        ("{wants}", wants.id.to_string()),
        ("{later}", later.id.to_string()),
        ("{project}", world.project.to_string()),
    ]
}

/// SQLSTATE of statements that are rolled back; none when they were accepted.
async fn state_of(pool: &PgPool, sql: &str) -> Option<String> {
    let mut tx = pool.begin().await.expect("begin");
    let outcome = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(&mut *tx)
        .await;
    tx.rollback().await.expect("rollback");
    let code = |error: sqlx::Error| error.as_database_error()?.code().map(String::from);
    outcome
        .err()
        .map(|error| code(error).expect("of the database"))
}

#[tokio::test]
async fn p1_the_database_refuses_what_breaks_a_reservation() {
    let world = World::new().await;
    let ids = arrange(&world).await;
    let mut wrong = Vec::new();
    for (name, template, wanted) in CASES {
        let mut sql = (*template).to_owned();
        for (of, value) in &ids {
            sql = sql.replace(of, value);
        }
        for (role, pool) in [
            ("owner", &world.owner),
            ("scheduler", &world.scheduler),
            ("allocation", &world.allocation),
        ] {
            let state = state_of(pool, &sql).await;
            let missing_right = role != "owner" && state.as_deref() == Some("42501");
            if state.as_deref() != Some(wanted) && !missing_right {
                wrong.push(format!("{name}: as {role} {state:?}, wanted {wanted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    sound(&world).await;
}

#[tokio::test]
async fn only_the_scheduler_reserves_and_nobody_rewrites_a_reservation() {
    let (world, _) = World::with_lab_slots(1).await;
    reserved(&world, 1).await;
    for (pool, statement) in [
        (&world.allocation, "DELETE FROM reserved_slots"),
        (
            &world.allocation,
            "UPDATE capacity_reservations SET reason = ''",
        ),
        (
            &world.allocation,
            "INSERT INTO reservation_limits VALUES (gen_random_uuid(), 9)",
        ),
        (
            &world.scheduler,
            "UPDATE reserved_slots SET idle_since = now()",
        ),
        (
            &world.scheduler,
            "UPDATE capacity_reservations SET gpu_count = 9",
        ),
        (
            &world.scheduler,
            "UPDATE capacity_reservations SET project_id = gen_random_uuid()",
        ),
        (&world.scheduler, "DELETE FROM capacity_reservations"),
    ] {
        assert_eq!(
            state_of(pool, statement).await.as_deref(),
            Some("42501"),
            "{statement}"
        );
    }
}
