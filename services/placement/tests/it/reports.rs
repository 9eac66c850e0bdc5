//! Operators' plans on the ledger: what they say is what then happens, and asking changes nothing.
use std::collections::BTreeSet;

use gpuaas_placement::decision::PackingStrategy;
use gpuaas_placement::model::Attribution;
use gpuaas_placement::model::{Scope, SlotClass, SlotStatus};
use gpuaas_placement::node_placement::{self, Intent};
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::reports::{self, DefragmentationSpec, Outcome, Plan};
use gpuaas_placement::reserve::{self, Constraints, Policy, Request};
use gpuaas_placement::{Error, Result, catalog, provision, release};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::baremetal::{self, bare_metal, world_of};
use crate::explain::gpu_node;
use crate::reserving;
use crate::world::{H200, LAB, POLICY, REGION, World, access, lab_spec, open_region};

pub fn gpus(world: &World, gpu_count: u32) -> Request {
    Request {
        sku: H200.into(),
        ..world.request(gpu_count)
    }
}

pub async fn launch(world: &World, gpu_count: u32) -> Uuid {
    let reserved = world.reserve(&gpus(world, gpu_count)).await;
    reserved.expect("room").allocation_id
}

/// Brings a reserved allocation up, as its workflow would.
pub async fn bring_up(world: &World, id: Uuid) {
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = provision::start(&mut tx, fence, id).await.expect("start");
    let _ = provision::activate(&mut tx, fence, id, Some(&access()), None)
        .await
        .expect("activate");
    tx.commit().await.expect("commit");
    world.finish(fence).await;
}

pub async fn begin_release(world: &World, id: Uuid) {
    let mut tx = world.allocation.begin().await.expect("begin");
    release::begin(&mut tx, Scope::Platform, id, "", "req")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
}

pub async fn end_release(world: &World, id: Uuid) {
    let fence = world.take(id).await;
    let proofs = world.wiped(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::complete(&mut tx, fence, id, &proofs)
        .await
        .expect("complete");
    tx.commit().await.expect("commit");
}

pub async fn intend(world: &World, node: Uuid, intent: Intent) {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let _ = node_placement::set_intent(
        &mut conn,
        node,
        intent,
        Attribution::of("user:test", "plan"),
    )
    .await
    .expect("intent");
}

/// A plan on a snapshot, as the scheduler makes it.
pub async fn evacuation(world: &World, nodes: &[Uuid]) -> Result<Plan> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut tx = world.scheduler.begin_with(begin).await.expect("begin");
    let nodes: BTreeSet<Uuid> = nodes.iter().copied().collect();
    reports::evacuation(&mut tx, &world.capacity, POLICY, &nodes).await
}

/// An allocation as the platform before this one made it, without its constraints.
pub async fn forget(world: &World, id: Uuid) {
    world
        .run(&format!(
            "ALTER TABLE allocations DISABLE TRIGGER USER;
             UPDATE allocations SET constraints = NULL WHERE id = '{id}';
             ALTER TABLE allocations ENABLE TRIGGER USER"
        ))
        .await;
}

pub fn fits(plan: &Plan, id: Uuid) -> (Uuid, Vec<i32>) {
    let one = plan.allocations.iter().find(|one| one.allocation.id == id);
    match &one.expect("planned").outcome {
        Outcome::Fits(place) => (place.node_id, place.slot_indexes.clone()),
        other => panic!("{other:?}"),
    }
}

async fn slots_of(world: &World, id: Uuid) -> (Uuid, Vec<i32>) {
    let node = world.get(id).await.node_id.expect("placed");
    let slots = world.slots(node).await.into_iter();
    let held = slots.filter(|slot| slot.allocation_id == Some(id));
    (node, held.map(|slot| slot.slot_index).collect())
}

#[tokio::test]
async fn b_49_an_evacuation_plan_places_the_largest_first_and_says_why_not() {
    let world = World::new().await;
    let (a, b) = (gpu_node(&world, 8).await, gpu_node(&world, 8).await);
    let first = launch(&world, 4).await;
    let second = launch(&world, 4).await;
    let third = launch(&world, 2).await;
    assert_eq!(
        (
            slots_of(&world, second).await.0,
            slots_of(&world, third).await.0
        ),
        (a, b)
    );
    let before = world.fingerprint().await;
    let plan = evacuation(&world, &[a]).await.expect("planned");
    assert_eq!(plan.region_code, REGION);
    let ids: Vec<Uuid> = plan
        .allocations
        .iter()
        .map(|one| one.allocation.id)
        .collect();
    assert_eq!(ids, [first, second]);
    assert_eq!(fits(&plan, first), (b, vec![4, 5, 6, 7]));
    let Outcome::Nowhere(causes) = &plan.allocations[1].outcome else {
        panic!("{plan:?}");
    };
    // six are taken, four of them by the one before; two are left, which is no half
    let reported: Vec<_> = causes
        .iter()
        .map(|cause| (cause.reason, cause.gpus))
        .collect();
    assert_eq!(reported, [(ErrorReason::SlotsInUse, 6)]);
    let shown = &plan.allocations[0];
    assert_eq!(
        (shown.allocation.node_id, shown.allocation.gpu_count.get()),
        (a, 4)
    );
    assert!(shown.constraints_known && shown.allocation.project_id == world.project);
    assert_eq!(world.fingerprint().await, before, "a plan writes nothing");

    // what the plan says is what happens
    intend(&world, a, Intent::Cordoned).await;
    bring_up(&world, first).await;
    begin_release(&world, first).await;
    let plan = evacuation(&world, &[a]).await.expect("planned");
    let ends = plan.allocations.last().expect("both");
    assert_eq!((ends.allocation.id, &ends.outcome), (first, &Outcome::Ends));
    end_release(&world, first).await;
    let again = launch(&world, 4).await;
    assert_eq!(slots_of(&world, again).await, (b, vec![4, 5, 6, 7]));
    // of both nodes at once nothing has a place
    let plan = evacuation(&world, &[a, b]).await.expect("planned");
    let nowhere = |one: &reports::Planned| {
        matches!(&one.outcome, Outcome::Nowhere(causes)
        if causes[0].reason == ErrorReason::NoCapacity)
    };
    assert!(
        plan.allocations.len() == 3 && plan.allocations.iter().all(nowhere),
        "{plan:?}"
    );
}

#[tokio::test]
async fn b_49_an_evacuation_plan_keeps_to_the_constraints_of_every_launch() {
    let world = World::new().await;
    let (a, b) = (gpu_node(&world, 8).await, gpu_node(&world, 8).await);
    let one = launch(&world, 1).await;
    let away = Constraints {
        anti_affinity: vec![one],
        ..Constraints::default()
    };
    let request = Request {
        constraints: away,
        ..gpus(&world, 1)
    };
    let other = world.reserve(&request).await.expect("away").allocation_id;
    assert_eq!(slots_of(&world, other).await.0, b);
    let plan = evacuation(&world, &[b]).await.expect("planned");
    let Outcome::Nowhere(causes) = &plan.allocations[0].outcome else {
        panic!("{plan:?}");
    };
    assert!(
        causes
            .iter()
            .any(|cause| cause.reason == ErrorReason::Affinity),
        "{causes:?}"
    );
    assert!(plan.allocations[0].constraints_known);
    // when both must leave, a third node takes one of them only
    let c = gpu_node(&world, 8).await;
    let plan = evacuation(&world, &[a, b]).await.expect("planned");
    assert_eq!(fits(&plan, one).0, c);
    assert!(
        matches!(plan.allocations[1].outcome, Outcome::Nowhere(_)),
        "{plan:?}"
    );
    forget(&world, other).await;
    let plan = evacuation(&world, &[b]).await.expect("planned");
    assert_eq!(fits(&plan, other).0, a, "made by the old platform");
    assert!(!plan.allocations[0].constraints_known);
}

#[tokio::test]
async fn a_bare_metal_node_is_planned_before_slices() {
    let (world, specs) = world_of(2).await;
    let policy = Policy {
        baremetal: true,
        ..POLICY
    };
    let id = reserving::one(&world.scheduler, world.ids, policy, &bare_metal(&world))
        .await
        .expect("reserved")
        .allocation_id;
    let held = world.get(id).await.node_id.expect("placed");
    let other = specs.iter().map(|spec| spec.id).find(|id| *id != held);
    let plan = evacuation(&world, &[held]).await.expect("planned");
    assert_eq!(fits(&plan, id), (other.expect("two"), Vec::new()));
    let slice = launch(&world, 1).await;
    let plan = evacuation(&world, &[held]).await.expect("planned");
    assert!(
        matches!(plan.allocations[0].outcome, Outcome::Nowhere(_)),
        "sliced now: {slice}"
    );
}

/// A node that is in mode baremetal and empty is in no copy for slices, and goes to who is queued nevertheless.
#[tokio::test]
async fn b_49_a_bare_metal_node_is_not_planned_where_one_that_waits_would_be() {
    let (world, mut specs) = world_of(2).await;
    specs[1].mode = "baremetal".into();
    let (bare, other) = (specs[1].id, specs[0].id);
    let cordoned = |state| format!("UPDATE nodes SET admin_state = '{state}' WHERE id = '{bare}'");
    world.run(&cordoned("cordoned")).await;
    world.node(specs[1].clone()).await;
    world.run(&cordoned("enabled")).await;
    let guest = baremetal::reserve(&world, &bare_metal(&world))
        .await
        .expect("one");
    let stays = baremetal::reserve(&world, &bare_metal(&world))
        .await
        .expect("both");
    let nodes = (
        world.get(guest).await.node_id,
        world.get(stays).await.node_id,
    );
    assert_eq!(nodes, (Some(bare), Some(other)));
    let waits = Request {
        project_id: Uuid::now_v7(),
        ..bare_metal(&world)
    };
    let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let (ledger, policy) = (&world.scheduler, baremetal::WITH_EXECUTOR);
    let waits = reserving::one_or_queue(ledger, world.ids, policy, &waits, until).await;
    let waits = waits.expect("waits").allocation_id;
    begin_release(&world, guest).await;
    let slots = world.slots(bare).await;
    assert!(
        slots
            .iter()
            .all(|slot| slot.status == SlotStatus::Available)
    );
    let plan = evacuation(&world, &[other]).await.expect("planned");
    let Outcome::Nowhere(causes) = &plan.allocations[0].outcome else {
        panic!("{plan:?}");
    };
    let reported: Vec<_> = causes.iter().map(|one| (one.reason, one.gpus)).collect();
    assert_eq!(reported, [(ErrorReason::QueuedAhead, 8)]);
    // when nobody waits any more, it is the place
    begin_release(&world, waits).await;
    let plan = evacuation(&world, &[other]).await.expect("planned");
    assert_eq!(fits(&plan, stays), (bare, Vec::new()));
}

pub fn requested(gpu_count: u32) -> DefragmentationSpec {
    DefragmentationSpec {
        region_code: REGION.into(),
        sku: H200.into(),
        gpu_count: crate::world::gpu_count(gpu_count),
        max_moves: 8,
    }
}

#[tokio::test]
async fn b_49_b_47_suggested_moves_make_the_room_and_the_bare_metal_node_they_promise() {
    let world = World::new().await;
    let (a, b) = (gpu_node(&world, 8).await, gpu_node(&world, 8).await);
    let single = launch(&world, 1).await;
    intend(&world, a, Intent::Cordoned).await;
    let half = launch(&world, 4).await;
    intend(&world, a, Intent::Enabled).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let suggest = async |conn: &mut sqlx::PgConnection| {
        reports::defragmentation(
            conn,
            &world.capacity,
            PackingStrategy::MostAllocated,
            &requested(8),
        )
        .await
        .expect("suggested")
    };
    let report = async |conn: &mut sqlx::PgConnection| {
        reports::preservation(
            conn,
            &world.capacity,
            PackingStrategy::MostAllocated,
            Some(REGION),
        )
        .await
        .expect("reported")
    };
    let none = suggest(&mut conn).await;
    assert_eq!(
        (none.before, none.after, none.steps.len()),
        (0, 0, 0),
        "neither runs yet"
    );
    bring_up(&world, single).await;
    bring_up(&world, half).await;

    let before = world.fingerprint().await;
    let found = suggest(&mut conn).await;
    assert_eq!((found.before, found.after, found.cut), (0, 1, false));
    let [step] = &found.steps[..] else {
        panic!("{found:?}");
    };
    assert_eq!((step.node_id, step.gained, step.moves.len()), (a, 1, 1));
    let planned = &step.moves[0];
    assert_eq!(
        (planned.allocation.id, planned.allocation.node_id),
        (single, a)
    );
    assert_eq!(
        (
            planned.placement.node_id,
            &planned.placement.slot_indexes[..]
        ),
        (b, &[4][..])
    );
    let reported = report(&mut conn).await;
    let [nodes] = &reported[..] else {
        panic!("{reported:?}");
    };
    assert_eq!((nodes.slot_class, nodes.nodes), (SlotClass::H200Sxm, 2));
    assert_eq!((nodes.baremetal_free, nodes.clean, nodes.sliced), (0, 0, 2));
    assert_eq!(
        (nodes.recoverable, nodes.moves, nodes.gpus_moved),
        (1, 1, 1)
    );
    assert_eq!(
        (nodes.easiest[0].node_id, &nodes.easiest[0].moves[0]),
        (a, planned)
    );
    assert_eq!(world.fingerprint().await, before, "a plan writes nothing");

    // nothing is moved to a node that is kept for who is queued; for who is queued no more nothing is kept
    let waits = Request {
        constraints: Constraints {
            anti_affinity: vec![single],
            ..Constraints::default()
        },
        ..gpus(&world, 8)
    };
    let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let (ledger, ids) = (&world.scheduler, world.ids);
    let waits = reserving::one_or_queue(ledger, ids, POLICY, &waits, until).await;
    let waits = waits.expect("waits").allocation_id;
    reserve::serve_queue(ledger, ids, POLICY)
        .await
        .expect("pass");
    assert_eq!(
        world
            .number("SELECT count(*) FROM backfill_reservations")
            .await,
        1
    );
    assert_eq!(suggest(&mut conn).await.steps[0].node_id, b);
    begin_release(&world, waits).await;
    assert_eq!(
        world
            .number("SELECT count(*) FROM backfill_reservations")
            .await,
        1
    );
    assert_eq!(suggest(&mut conn).await.steps, found.steps);

    // carried out by hand, it is what it said
    intend(&world, a, Intent::Cordoned).await;
    begin_release(&world, single).await;
    end_release(&world, single).await;
    let again = launch(&world, 1).await;
    assert_eq!(slots_of(&world, again).await, (b, vec![4]));
    intend(&world, a, Intent::Enabled).await;
    let now = suggest(&mut conn).await;
    assert_eq!((now.before, now.steps.len()), (1, 0));
    let nodes = report(&mut conn).await.remove(0);
    assert_eq!(
        (nodes.baremetal_free, nodes.sliced, nodes.recoverable),
        (1, 1, 0)
    );
    intend(&world, a, Intent::Cordoned).await;
    let nodes = report(&mut conn).await.remove(0);
    assert_eq!(
        (nodes.baremetal_free, nodes.clean),
        (0, 1),
        "cordoned it is not schedulable"
    );
}

#[tokio::test]
async fn bare_metal_nodes_that_are_held_are_counted() {
    let (world, _) = world_of(3).await;
    let policy = Policy {
        baremetal: true,
        ..POLICY
    };
    reserving::one(&world.scheduler, world.ids, policy, &bare_metal(&world))
        .await
        .expect("reserved");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let found = reports::preservation(
        &mut conn,
        &world.capacity,
        PackingStrategy::MostAllocated,
        None,
    )
    .await;
    let nodes = found.expect("reported").remove(0);
    assert_eq!(
        (nodes.nodes, nodes.baremetal_free, nodes.baremetal_allocated),
        (3, 2, 1)
    );
}

fn field<T: std::fmt::Debug>(outcome: Result<T>) -> &'static str {
    match outcome {
        Err(Error::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_plan_for_what_does_not_exist_is_refused_with_its_field() {
    let (world, a) = World::with_lab_slots(1).await;
    let nobody = evacuation(&world, &[Uuid::now_v7()]).await;
    assert!(matches!(nobody, Err(Error::NotFound { what: "node", .. })));
    assert_eq!(field(evacuation(&world, &[]).await), "node_ids");
    let many: Vec<Uuid> = (0..33).map(|_| Uuid::now_v7()).collect();
    assert_eq!(field(evacuation(&world, &many).await), "node_ids");
    let mut conn = world.scheduler.acquire().await.expect("connection");
    catalog::put_region(&mut conn, &open_region("lab-2"))
        .await
        .expect("region");
    let elsewhere = world
        .node(NodeSpec {
            region_code: "lab-2".into(),
            ..lab_spec()
        })
        .await;
    assert_eq!(field(evacuation(&world, &[a, elsewhere]).await), "node_ids");
    for (bad, named) in [
        (
            DefragmentationSpec {
                region_code: "nowhere".into(),
                ..requested(1)
            },
            "region_code",
        ),
        (
            DefragmentationSpec {
                sku: "nothing".into(),
                ..requested(1)
            },
            "sku",
        ),
        (requested(3), "gpu_count"),
        (
            DefragmentationSpec {
                max_moves: 0,
                ..requested(1)
            },
            "max_moves",
        ),
        (
            DefragmentationSpec {
                max_moves: 65,
                ..requested(1)
            },
            "max_moves",
        ),
    ] {
        let refused = reports::defragmentation(
            &mut conn,
            &world.capacity,
            PackingStrategy::MostAllocated,
            &bad,
        );
        assert_eq!(field(refused.await), named);
    }
    let nowhere = reports::preservation(
        &mut conn,
        &world.capacity,
        PackingStrategy::MostAllocated,
        Some("nowhere"),
    )
    .await;
    assert_eq!(field(nowhere), "region_code");
    let lab = DefragmentationSpec {
        sku: LAB.into(),
        ..requested(1)
    };
    let found = reports::defragmentation(
        &mut conn,
        &world.capacity,
        PackingStrategy::MostAllocated,
        &lab,
    )
    .await;
    assert_eq!(found.expect("suggested").before, 1);
}
