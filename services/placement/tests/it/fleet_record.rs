//! The fleet record against the real ledger: what it counts, and what a project reads of the health of what it has.
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_placement::fleet::{
    self, Counts, EventQuery, FleetCounts, HealthEvent, Pool, Query, Rollup,
};
use gpuaas_placement::model::{Attribution, Health};
use gpuaas_placement::node_health;
use gpuaas_placement::nodes::{self, NodeSpec};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use uuid::Uuid;

use crate::baremetal;
use crate::reservations::reserved;
use crate::world::{REGION, World, lab_slot, lab_spec};

async fn rollup(world: &World) -> Rollup {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    fleet::rollup(&mut conn, None).await.expect("counted")
}

fn page(page_token: &str, size: i64) -> Wanted<'_> {
    Wanted {
        page_token,
        size,
        query: &[],
    }
}

async fn list(world: &World, query: Query<'_>) -> Vec<fleet::FleetNode> {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let selection = Selection::parse(&fleet::NODES, "", "").expect("everything");
    let found = fleet::list(&mut conn, &query, &selection, page("", 100)).await;
    found.expect("listed").0
}

async fn selected(
    world: &World,
    query: EventQuery,
    wanted: Wanted<'_>,
) -> (Vec<HealthEvent>, String) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let selection = Selection::parse(&fleet::EVENTS, "", "").expect("everything");
    let found = fleet::health_events(&mut conn, query, &selection, wanted).await;
    found.expect("listed")
}

async fn events(world: &World, project_id: Uuid) -> Vec<HealthEvent> {
    let query = EventQuery {
        project_id,
        allocation_id: None,
    };
    selected(world, query, page("", 100)).await.0
}

async fn put(world: &World, spec: &NodeSpec, host_health: Health) {
    let spec = NodeSpec {
        host_health,
        ..spec.clone()
    };
    let mut tx = world.scheduler.begin().await.expect("begin");
    nodes::put(&mut tx, &spec).await.expect("node");
    tx.commit().await.expect("commit");
}

/// `delivered`, `healthy`, `reserved`, `active`, and beside them those that are not healthy.
fn numbers(counts: &Counts) -> [u64; 6] {
    [
        counts.delivered,
        counts.healthy,
        counts.reserved,
        counts.active,
        counts.reserved_unhealthy,
        counts.active_unhealthy,
    ]
}

async fn lab_node(world: &World, hostname: &str, rack: &str, slots: i32) -> NodeSpec {
    let spec = NodeSpec {
        hostname: hostname.into(),
        rack: rack.into(),
        ..lab_spec()
    };
    world.node(spec.clone()).await;
    let slots: Vec<_> = (0..slots).map(lab_slot).collect();
    if !slots.is_empty() {
        world.approve(spec.id, &slots).await;
    }
    spec
}

#[tokio::test]
async fn the_record_says_where_each_node_stands_and_who_has_it_since_when() {
    let world = World::new().await;
    let first = lab_node(&world, "a", "r1", 4).await;
    for _ in 0..2 {
        world.active(1).await;
    }
    world.reserved(1).await;
    let empty = lab_node(&world, "b", "r2", 0).await;
    let all = list(&world, Query::default()).await;
    assert_eq!(
        all.iter().map(|node| node.id).collect::<Vec<_>>(),
        [first.id, empty.id]
    );
    let node = &all[0];
    assert_eq!(
        (node.rack.as_str(), node.hardware_type.as_str(), node.health),
        ("r1", "lab", Health::Healthy)
    );
    assert_eq!(numbers(&node.counts.gpus), [4, 4, 3, 2, 0, 0]);
    assert_eq!(
        (all[1].hardware_type.as_str(), all[1].occupants.len()),
        ("", 0)
    );
    let occupant = &node.occupants[0];
    assert_eq!(
        (occupant.project_id, occupant.allocations, occupant.gpus),
        (world.project, 3, 3)
    );
    let first_claim = sqlx::query_scalar("SELECT min(created_at) FROM claims");
    let first_claim: jiff_sqlx::Timestamp =
        first_claim.fetch_one(&world.owner).await.expect("claims");
    assert_eq!(occupant.since, first_claim);

    let counted = rollup(&world).await;
    assert_eq!(numbers(&counted.total.gpus), [4, 4, 3, 2, 0, 0]);
    assert_eq!(numbers(&counted.total.nodes), [2, 2, 1, 1, 0, 0]);
    let pool = |hardware_type: &str| Pool {
        region_code: REGION.into(),
        hardware_type: hardware_type.into(),
    };
    assert_eq!(
        numbers(&counted.pools[&pool("lab")].nodes),
        [1, 1, 1, 1, 0, 0]
    );
    assert_eq!(numbers(&counted.pools[&pool("")].nodes), [1, 1, 0, 0, 0, 0]);

    // a host that is ill takes all of it out of the counters, and what is in use stays in sight
    put(&world, &first, Health::Degraded).await;
    let counted = rollup(&world).await;
    assert_eq!(numbers(&counted.total.gpus), [4, 0, 0, 0, 3, 2]);
    assert_eq!(numbers(&counted.total.nodes), [2, 1, 0, 0, 1, 1]);

    let named = |query| async {
        list(&world, query)
            .await
            .into_iter()
            .map(|node| node.hostname)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        named(Query {
            rack: Some("r2"),
            ..Query::default()
        })
        .await,
        ["b"]
    );
    assert_eq!(
        named(Query {
            hardware_type: Some("lab"),
            ..Query::default()
        })
        .await,
        ["a"]
    );
    assert_eq!(
        named(Query {
            health: Some(Health::Degraded),
            ..Query::default()
        })
        .await,
        ["a"]
    );
    assert_eq!(
        named(Query {
            in_use: Some(false),
            ..Query::default()
        })
        .await,
        ["b"]
    );
    assert_eq!(
        named(Query {
            project_id: Some(world.project),
            ..Query::default()
        })
        .await,
        ["a"]
    );
    assert!(
        named(Query {
            project_id: Some(Uuid::from_u128(7)),
            ..Query::default()
        })
        .await
        .is_empty()
    );
}

#[tokio::test]
async fn a_capacity_reservation_is_counted_by_what_it_holds() {
    let (world, node) = World::with_lab_slots(3).await;
    let reservation = reserved(&world, 2).await;
    world.active(1).await;
    let counted = rollup(&world).await;
    assert_eq!(
        numbers(&counted.total.gpus),
        [3, 3, 2, 1, 0, 0],
        "reserved is held, whether it is in use or not"
    );
    let [row] = counted.reservations.as_slice() else {
        panic!("{:?}", counted.reservations);
    };
    assert_eq!(
        (row.id, row.project_id, row.gpus),
        (reservation.id, world.project, 2)
    );
    assert_eq!(numbers(&row.counts.gpus), [2, 2, 2, 1, 0, 0]);
    assert_eq!(numbers(&row.counts.nodes), [1, 1, 1, 1, 0, 0]);
    let query = Query {
        reservation_id: Some(reservation.id),
        ..Query::default()
    };
    assert_eq!(list(&world, query).await[0].id, node);
}

#[tokio::test]
async fn bare_metal_in_use_is_healthy_although_nobody_can_ask_its_host() {
    let (world, specs) = baremetal::world_of_boards(1, Vec::new()).await;
    let id = baremetal::reserve(&world, &baremetal::bare_metal(&world))
        .await
        .expect("reserved");
    assert_eq!(
        numbers(&rollup(&world).await.total.gpus),
        [8, 8, 8, 0, 0, 0]
    );
    world
        .run_past_guards(&format!(
            "UPDATE allocations SET state = 'active', power = 'running', active_at = now(), deadline_at = NULL WHERE id = '{id}';
             UPDATE claims SET state = 'active' WHERE allocation_id = '{id}';
             UPDATE slots SET status = 'disabled'"
        ))
        .await;
    put(&world, &specs[0], Health::Unknown).await;
    let counted = rollup(&world).await;
    assert_eq!(numbers(&counted.total.gpus), [8, 8, 8, 8, 0, 0]);
    assert_eq!(numbers(&counted.total.nodes), [1, 1, 1, 1, 0, 0]);
    assert_eq!(list(&world, Query::default()).await[0].occupants[0].gpus, 8);
    put(&world, &specs[0], Health::Degraded).await;
    assert_eq!(
        numbers(&rollup(&world).await.total.gpus),
        [8, 0, 0, 0, 8, 8]
    );
}

#[tokio::test]
async fn whatever_the_ledger_holds_delivered_contains_healthy_contains_reserved_contains_active() {
    let world = World::new().await;
    for number in 0..3 {
        lab_node(&world, &format!("n{number}"), "", 4).await;
    }
    reserved(&world, 3).await;
    for _ in 0..6 {
        world.active(1).await;
    }
    let slots: Vec<Uuid> = ids(&world, "SELECT id FROM slots ORDER BY id").await;
    let claims: Vec<Uuid> = ids(&world, "SELECT id FROM claims ORDER BY id").await;
    let nodes: Vec<Uuid> = ids(&world, "SELECT id FROM nodes ORDER BY id").await;
    let health = prop::sample::select(vec!["healthy", "healthy", "unknown", "degraded", "failed"]);
    let status = prop::sample::select(vec![
        "disabled",
        "active",
        "releasing",
        "cleanup",
        "cleanup_blocked",
        "retired",
    ]);
    let state = prop::sample::select(vec![
        "reserved",
        "provisioning",
        "active",
        "releasing",
        "cleanup_blocked",
        "released",
    ]);
    let drawn = (
        prop::collection::vec((status, health.clone()), slots.len()),
        prop::collection::vec(state, claims.len()),
        prop::collection::vec(health, nodes.len()),
    );
    let mut runner = TestRunner::deterministic();
    for _ in 0..40 {
        let (of_slots, of_claims, of_nodes) = drawn.new_tree(&mut runner).expect("drawn").current();
        let mut sql = String::new();
        for (id, (status, health)) in slots.iter().zip(&of_slots) {
            sql += &format!(
                "UPDATE slots SET status = '{status}', host_health = '{health}' WHERE id = '{id}';"
            );
        }
        for (id, state) in claims.iter().zip(&of_claims) {
            let released = if *state == "released" {
                "now()"
            } else {
                "NULL"
            };
            sql += &format!(
                "UPDATE claims SET state = '{state}', released_at = {released} WHERE id = '{id}';"
            );
        }
        for (id, health) in nodes.iter().zip(&of_nodes) {
            sql += &format!("UPDATE nodes SET host_health = '{health}' WHERE id = '{id}';");
        }
        world.run_past_guards(sql.trim_end_matches(';')).await;
        let counted = rollup(&world).await;
        let pools = counted.pools.values();
        let reservations = counted.reservations.iter().map(|one| &one.counts);
        for counts in pools.chain(reservations).chain([&counted.total]) {
            for counts in [&counts.nodes, &counts.gpus] {
                let [delivered, healthy, reserved, active, ..] = numbers(counts);
                assert!(
                    delivered >= healthy && healthy >= reserved && reserved >= active,
                    "{counts:?} of {of_slots:?} {of_claims:?} {of_nodes:?}"
                );
            }
        }
        // beside the definition: what a look at the tables, one by one, finds
        let delivered = world
            .number("SELECT count(*) FROM slots WHERE status <> 'retired'")
            .await;
        let held = world
            .number(
                "SELECT count(*) FROM slots s WHERE status <> 'retired'
                    AND (EXISTS (SELECT FROM claims c WHERE c.slot_id = s.id AND c.state <> 'released')
                         OR EXISTS (SELECT FROM reserved_slots r WHERE r.slot_id = s.id))",
            )
            .await;
        let FleetCounts { gpus, .. } = counted.total;
        assert_eq!(gpus.delivered, delivered.unsigned_abs());
        assert_eq!(gpus.reserved + gpus.reserved_unhealthy, held.unsigned_abs());
        let sum: u64 = counted.pools.values().map(|pool| pool.gpus.healthy).sum();
        assert_eq!(gpus.healthy, sum);
    }
}

async fn ids(world: &World, sql: &'static str) -> Vec<Uuid> {
    sqlx::query_scalar(sql)
        .fetch_all(&world.owner)
        .await
        .expect(sql)
}

#[tokio::test]
async fn a_project_reads_when_what_it_has_was_not_healthy_and_of_nothing_else() {
    let world = World::new().await;
    let spec = lab_node(&world, "a", "", 2).await;
    // before anybody had it
    put(&world, &spec, Health::Unknown).await;
    put(&world, &spec, Health::Healthy).await;
    let allocation = world.active(2).await;
    assert!(events(&world, world.project).await.is_empty());
    put(&world, &spec, Health::Unknown).await;
    let open = events(&world, world.project).await;
    let [one] = open.as_slice() else {
        panic!("two GPUs of one host are one event: {open:?}");
    };
    assert_eq!(
        (one.allocation_id, one.gpus, one.health, one.ended_at),
        (allocation, 2, Health::Unknown, None)
    );
    put(&world, &spec, Health::Degraded).await;
    put(&world, &spec, Health::Healthy).await;
    let closed = events(&world, world.project).await;
    let read: Vec<_> = closed
        .iter()
        .map(|event| (event.health, event.ended_at.is_some()))
        .collect();
    assert_eq!(
        read,
        [(Health::Degraded, true), (Health::Unknown, true)],
        "newest first"
    );
    assert_eq!(closed[1].ended_at, Some(closed[0].started_at));
    assert!(
        events(&world, Uuid::from_u128(77)).await.is_empty(),
        "others read nothing"
    );

    // after the allocation has ended, the slot is nobody's business
    world
        .run_past_guards(&format!(
            "UPDATE claims SET state = 'released', released_at = clock_timestamp() WHERE allocation_id = '{allocation}'"
        ))
        .await;
    put(&world, &spec, Health::Degraded).await;
    assert_eq!(events(&world, world.project).await, closed);
}

#[tokio::test]
async fn an_event_that_outlasts_an_allocation_ends_for_it_with_its_release() {
    let world = World::new().await;
    let spec = lab_node(&world, "a", "", 1).await;
    let allocation = world.active(1).await;
    put(&world, &spec, Health::Degraded).await;
    world
        .run_past_guards(&format!(
            "UPDATE claims SET state = 'released', released_at = clock_timestamp() WHERE allocation_id = '{allocation}'"
        ))
        .await;
    let seen = events(&world, world.project).await;
    assert!(
        matches!(seen.as_slice(), [one] if one.ended_at.is_some()),
        "{seen:?}"
    );
    let lasts = world
        .number("SELECT count(*) FROM slot_health_events WHERE ended_at IS NULL")
        .await;
    assert_eq!(lasts, 1, "for the operator it lasts");
}

#[tokio::test]
async fn a_project_reads_of_break_fix_of_what_it_has_and_of_no_other() {
    let world = World::new().await;
    let spec = lab_node(&world, "a", "", 2).await;
    let open = async |slot: Option<Uuid>| {
        let mut tx = world.scheduler.begin().await.expect("begin");
        let word = Attribution::of("user:root", "fan tray 2 stands");
        let record = node_health::open(&mut tx, Uuid::now_v7(), spec.id, slot, word)
            .await
            .expect("opened");
        tx.commit().await.expect("commit");
        record.id
    };
    let close = async |id: Uuid| {
        let mut tx = world.scheduler.begin().await.expect("begin");
        let word = Attribution::of("user:root", "all fans turn");
        node_health::close(&mut tx, spec.id, id, word)
            .await
            .expect("closed");
        tx.commit().await.expect("commit");
    };
    // one from before its time is not its business
    close(open(None).await).await;
    world
        .run(&format!(
            "UPDATE nodes SET admin_state = 'enabled' WHERE id = '{}'",
            spec.id
        ))
        .await;
    let allocation = world.active(1).await;
    let slots = world.slots(spec.id).await;
    let (own, other) = if slots[0].allocation_id == Some(allocation) {
        (slots[0].id, slots[1].id)
    } else {
        (slots[1].id, slots[0].id)
    };
    let others = open(Some(other)).await;
    assert_eq!(events(&world, world.project).await, []);
    let of_host = open(None).await;
    let seen = events(&world, world.project).await;
    assert!(
        matches!(seen.as_slice(), [one] if one.break_fix && one.ended_at.is_none() && one.gpus == 1),
        "{seen:?}"
    );
    close(of_host).await;
    close(open(Some(own)).await).await;
    close(others).await;
    let seen = events(&world, world.project).await;
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen.iter().all(|one| one.ended_at.is_some()), "{seen:?}");
    // page by page
    let query = EventQuery {
        project_id: world.project,
        allocation_id: Some(allocation),
    };
    let (first, token) = selected(&world, query, page("", 1)).await;
    let (rest, end) = selected(&world, query, page(&token, 100)).await;
    assert_eq!(
        (first.as_slice(), rest.as_slice()),
        (&seen[..1], &seen[1..])
    );
    assert_eq!(end, "");
}

#[tokio::test]
async fn break_fix_under_two_allocations_is_on_two_pages() {
    let world = World::new().await;
    let spec = lab_node(&world, "a", "", 2).await;
    let mut both = [world.active(1).await, world.active(1).await];
    let mut tx = world.scheduler.begin().await.expect("begin");
    let word = Attribution::of("user:root", "fan tray 2 stands");
    let opened = node_health::open(&mut tx, Uuid::now_v7(), spec.id, None, word).await;
    opened.expect("opened");
    tx.commit().await.expect("commit");

    let query = EventQuery {
        project_id: world.project,
        allocation_id: None,
    };
    let (first, token) = selected(&world, query, page("", 1)).await;
    let (second, end) = selected(&world, query, page(&token, 1)).await;
    let mut seen = [first, second].concat();
    seen.sort_by_key(|one| one.allocation_id);
    both.sort();
    let of: Vec<Uuid> = seen.iter().map(|one| one.allocation_id).collect();
    assert_eq!((of.as_slice(), end.as_str()), (both.as_slice(), ""));
    assert_eq!(
        (seen[0].id, seen[0].started_at),
        (seen[1].id, seen[1].started_at)
    );
}

#[tokio::test]
async fn break_fix_of_a_node_is_of_all_its_gpus() {
    let (world, specs) = baremetal::world_of_boards(1, Vec::new()).await;
    let id = baremetal::reserve(&world, &baremetal::bare_metal(&world))
        .await
        .expect("reserved");
    let node = specs[0].id;
    let slot = world.slots(node).await[3].id;
    let opened_and_closed = async |slot: Option<Uuid>| {
        let mut tx = world.scheduler.begin().await.expect("begin");
        let word = Attribution::of("user:root", "fan tray 2 stands");
        let record = node_health::open(&mut tx, Uuid::now_v7(), node, slot, word).await;
        let record = record.expect("opened");
        let word = Attribution::of("user:root", "all fans turn");
        node_health::close(&mut tx, node, record.id, word)
            .await
            .expect("closed");
        tx.commit().await.expect("commit");
    };
    opened_and_closed(None).await;
    opened_and_closed(Some(slot)).await;
    let seen = events(&world, world.project).await;
    let gpus: Vec<_> = seen
        .iter()
        .map(|one| (one.allocation_id, one.break_fix, one.gpus))
        .collect();
    assert_eq!(gpus, [(id, true, 1), (id, true, 8)], "newest first");
}
