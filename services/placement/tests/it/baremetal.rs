//! Bare-metal nodes, with the test in the place of what will bring them up: one claim, one mode, and clean before allocation.
use futures::future::join_all;
use gpuaas_placement::approval::{self, Definition, Inspection};
use gpuaas_placement::catalog::{self, Sku};
use gpuaas_placement::force_release::{Attestation, Fate};
use gpuaas_placement::model::Attribution;
use gpuaas_placement::model::{Failure, Scope, Shape, SlotStatus};
use gpuaas_placement::nodes::{self, NodeSpec};
use gpuaas_placement::provision::{self, HostState};
use gpuaas_placement::repair::{self, Origin};
use gpuaas_placement::reserve::{self, Policy, Request};
use gpuaas_placement::{Error, Result, claims, force_release, node_placement, release};
use gpuaas_placement_testing as testing;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::ToSqlx as _;
use serde_json::json;
use uuid::Uuid;

use crate::reserving;
use crate::world::{
    H200, POLICY, World, gpu_counts, h200_sku, h200_slot, lab_spec, look_at, price,
};

const NODE_SKU: &str = "h200-sxm-node";
pub const WITH_EXECUTOR: Policy = Policy {
    baremetal: true,
    ..POLICY
};

/// A world that offers bare-metal nodes, with so many of them, empty and in mode slice. Their hosts tell no groups, so
/// slices of them are single GPUs or all.
pub async fn world_of(nodes: usize) -> (World, Vec<NodeSpec>) {
    world_of_boards(nodes, Vec::new()).await
}

/// The same with hosts that tell these groups.
pub async fn world_of_boards(nodes: usize, groups: Vec<Vec<u32>>) -> (World, Vec<NodeSpec>) {
    let world = World::new().await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let sku = Sku {
        code: NODE_SKU.into(),
        capacity_shape: Shape::Baremetal,
        allowed_gpu_counts: gpu_counts(&[8]),
        ..h200_sku()
    };
    catalog::put_sku(&mut conn, &sku).await.expect("sku");
    catalog::put_price(
        &mut conn,
        NODE_SKU,
        &price(),
        jiff::Timestamp::now().to_sqlx(),
    )
    .await
    .expect("price");
    drop(conn);
    let mut specs = Vec::new();
    for _ in 0..nodes {
        let spec = NodeSpec {
            lab: false,
            hugepages_1g_free: 1000,
            legal_groups: groups.clone(),
            ..lab_spec()
        };
        world.node(spec.clone()).await;
        world
            .approve(spec.id, &(0..8).map(h200_slot).collect::<Vec<_>>())
            .await;
        specs.push(spec);
    }
    (world, specs)
}

pub fn bare_metal(world: &World) -> Request {
    Request {
        sku: NODE_SKU.into(),
        ..world.request(8)
    }
}

pub fn slice(world: &World) -> Request {
    Request {
        sku: H200.into(),
        ..world.request(1)
    }
}

pub async fn reserve(world: &World, request: &Request) -> Result<Uuid> {
    reserving::one(&world.scheduler, world.ids, WITH_EXECUTOR, request)
        .await
        .map(|reserved| reserved.allocation_id)
}

pub fn reason(outcome: Result<Uuid>) -> ErrorReason {
    match outcome {
        Err(Error::Refused { reason, .. } | Error::Invalid { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

async fn mode(world: &World, node: Uuid) -> String {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    nodes::get(&mut conn, node).await.expect("node").mode
}

#[tokio::test]
async fn bare_metal_nodes_are_refused_where_nothing_can_bring_them_up() {
    let (world, _) = world_of(1).await;
    let before = world.fingerprint().await;
    let outcome = world.reserve(&bare_metal(&world)).await;
    match outcome {
        Err(Error::Invalid {
            field: "sku", rule, ..
        }) => {
            assert_eq!(
                rule,
                "is a bare-metal SKU, and this platform does not offer bare metal"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.fingerprint().await, before);
}

/// The executor of the test: it touches every disk of the host.
pub async fn install(world: &World, id: Uuid) {
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = provision::start(&mut tx, fence, id).await.expect("start");
    let _ = provision::activate(&mut tx, fence, id, None, None)
        .await
        .expect("activate");
    tx.commit().await.expect("commit");
    world.finish(fence).await;
}

async fn give_back(world: &World, id: Uuid) {
    let mut tx = world.allocation.begin().await.expect("begin");
    release::begin(&mut tx, Scope::Platform, id, "", "req")
        .await
        .expect("begin");
    tx.commit().await.expect("commit");
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::complete(&mut tx, fence, id, &[])
        .await
        .expect("complete");
    tx.commit().await.expect("commit");
    world.finish(fence).await;
}

/// What was seen while the tenant had the node says nothing of what the tenant did after it.
#[tokio::test]
async fn p2_a_look_from_before_a_bare_metal_nodes_release_approves_nothing_after_it() {
    let (world, specs) = world_of(1).await;
    let node = specs[0].id;
    let all: Vec<Definition> = (0..8).map(h200_slot).collect();
    let before = look_at(&world.slots(node).await);
    let id = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    install(&world, id).await;
    let under_the_tenant = look_at(&world.slots(node).await);
    give_back(&world, id).await;
    let approve = async |look: &Inspection, definitions: &[Definition]| {
        let mut tx = world.scheduler.begin().await.expect("begin");
        let next = Uuid::now_v7;
        let done =
            approval::approve(&mut tx, node, look, definitions, Origin::default(), next).await;
        tx.commit().await.expect("commit");
        done.map_err(gpuaas_common::Error::from)
    };
    // a disk that the ledger does not know was the tenant's, too
    let mut ninth = h200_slot(8);
    ninth.bindings.fabric_vf_pci_address = "0000:1a:01.0".into();
    let unknown = [ninth];
    for look in [before, under_the_tenant, Inspection::default()] {
        for (first, definitions) in [(0, &all[..]), (8, &unknown[..])] {
            let error = approve(&look, definitions)
                .await
                .expect_err("an earlier look");
            assert_eq!(error.reason(), ErrorReason::DiscoveryStale, "{error}");
            assert_eq!(
                error.message(),
                format!(
                    "Slot {first} may have had a tenant after the discovery. Run another discovery."
                )
            );
        }
        assert_eq!(world.count(node, SlotStatus::Disabled).await, 8);
        assert_eq!(world.slots(node).await.len(), 8);
    }
    let after = look_at(&world.slots(node).await);
    approve(&after, &all).await.expect("looked at since");
    // the look is no proof: the tenant may have removed its partition tables
    assert_eq!(world.count(node, SlotStatus::Cleanup).await, 8);
    testing::wipe(&world.allocation, node).await;
    assert_eq!(world.count(node, SlotStatus::Available).await, 8);
    // said again it changes nothing, nor does an earlier look at what is approved
    approve(&after, &all).await.expect("again");
    approve(&Inspection::default(), &all)
        .await
        .expect("approved already");
    approve(&after, &unknown).await.expect("looked at since");
    assert_eq!(world.count(node, SlotStatus::Cleanup).await, 1);
    testing::wipe(&world.allocation, node).await;
    assert_eq!(world.count(node, SlotStatus::Available).await, 9);
}

/// How many slots of a node have a disk that a tenant was the last to have.
async fn left_by_tenants(world: &World, node: Uuid) -> usize {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let mut left = 0;
    for slot in world.slots(node).await {
        let is_left = repair::left_by_tenant(&mut conn, slot.id).await;
        left += usize::from(is_left.expect("told"));
    }
    left
}

#[tokio::test]
async fn b_21_b_32_one_exclusive_claim_takes_the_node_and_gives_it_back_to_approval() {
    let (world, specs) = world_of(1).await;
    let node = specs[0].id;
    let id = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    assert_eq!(left_by_tenants(&world, node).await, 0, "not there yet");
    assert_eq!(mode(&world, node).await, "baremetal");
    let mut conn = world.allocation.acquire().await.expect("connection");
    let held = claims::of_allocation(&mut conn, id).await.expect("claims");
    assert_eq!(
        (held.len(), held[0].kind.as_str(), held[0].slot_id),
        (1, "node_exclusive", None)
    );
    assert_eq!(held[0].snapshot.instance_id, specs[0].instance_id);
    // inventory says again what it wants the node to be: an intent is no reason to take it away
    world.node(specs[0].clone()).await;
    assert_eq!(mode(&world, node).await, "baremetal");
    // nothing else gets in, by the front door or by SQL
    assert_eq!(
        reason(reserve(&world, &slice(&world)).await),
        ErrorReason::NoCapacity
    );
    assert_eq!(
        reason(reserve(&world, &bare_metal(&world)).await),
        ErrorReason::SlotsInUse
    );
    let direct = sqlx::query("UPDATE nodes SET mode = 'slice' WHERE id = $1")
        .bind(node)
        .execute(&world.owner)
        .await;
    let code = direct
        .expect_err("the claim keeps the mode")
        .into_database_error()
        .expect("database")
        .code()
        .map(String::from);
    assert_eq!(code.as_deref(), Some("23503"));

    install(&world, id).await;
    assert_eq!(world.count(node, SlotStatus::Disabled).await, 8);
    assert_eq!(
        world
            .number("SELECT count(*) FROM allocation_periods WHERE gpu_count = 8")
            .await,
        1
    );

    assert_eq!(left_by_tenants(&world, node).await, 8);
    give_back(&world, id).await;
    assert_eq!(left_by_tenants(&world, node).await, 8);
    assert_eq!(mode(&world, node).await, "slice");
    assert_eq!(
        world
            .number("SELECT count(*) FROM claims WHERE state <> 'released'")
            .await,
        0
    );
    // P2: what a tenant of the bare-metal node may have written is not allocated before it is proven clean
    assert_eq!(
        reason(reserve(&world, &slice(&world)).await),
        ErrorReason::NoCapacity
    );
    assert_eq!(
        reason(reserve(&world, &bare_metal(&world)).await),
        ErrorReason::IncompleteSlot
    );
    world
        .approve(node, &(0..8).map(h200_slot).collect::<Vec<_>>())
        .await;
    reserve(&world, &slice(&world))
        .await
        .expect("allocated again");
}

#[tokio::test]
async fn c_13_every_disk_that_was_destroyed_with_a_tenant_of_the_node_has_that_as_its_evidence() {
    let (world, specs) = world_of(1).await;
    let node = specs[0].id;
    let id = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    install(&world, id).await;
    let attested = Attestation {
        principal: "user:root",
        fate: Fate::DisksDestroyed,
        reason: "shredded",
        billing_end: None,
    };
    let mut tx = world.allocation.begin().await.expect("begin");
    force_release::force(&mut tx, id, &attested)
        .await
        .expect("forced");
    tx.commit().await.expect("commit");
    assert_eq!(world.count(node, SlotStatus::Retired).await, 8);
    let proven = "SELECT count(*) FROM clean_evidence e JOIN slots s ON s.id = e.slot_id AND s.generation = e.generation
                   WHERE e.kind = 'destroyed' AND e.detail ->> 'principal' = 'user:root'";
    assert_eq!(world.number(proven).await, 8);
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let report = gpuaas_placement::audit::ledger(&mut conn)
        .await
        .expect("audited");
    assert_eq!(report.broken().count(), 0);
}

#[tokio::test]
async fn a_bare_metal_node_that_nothing_touched_is_given_back_as_it_was() {
    let (world, specs) = world_of(1).await;
    let id = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    let mut tx = world.allocation.begin().await.expect("begin");
    release::begin(&mut tx, Scope::Platform, id, "", "req")
        .await
        .expect("begin");
    tx.commit().await.expect("commit");
    assert_eq!(mode(&world, specs[0].id).await, "slice");
    assert_eq!(world.count(specs[0].id, SlotStatus::Available).await, 8);

    let id = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let failure = Failure {
        reason: "HOST_UNREACHABLE".into(),
        message: "The host did not answer.".into(),
        advice: "Try again.".into(),
        step: "install".into(),
    };
    let untouched = HostState::Untouched { detail: json!({}) };
    let _ = provision::fail(&mut tx, fence, id, &failure, untouched)
        .await
        .expect("fail");
    tx.commit().await.expect("commit");
    assert_eq!(mode(&world, specs[0].id).await, "slice");
    assert_eq!(world.count(specs[0].id, SlotStatus::Available).await, 8);
}

#[tokio::test]
async fn b_33_a_node_with_slices_is_not_offered_as_bare_metal() {
    let (world, specs) = world_of(2).await;
    let slice_id = reserve(&world, &slice(&world)).await.expect("slice");
    let sliced = world.get(slice_id).await.node_id.expect("placed");
    let bare_metal_id = reserve(&world, &bare_metal(&world))
        .await
        .expect("the clean node");
    assert_ne!(world.get(bare_metal_id).await.node_id, Some(sliced));
    match reserve(&world, &bare_metal(&world)).await {
        Err(Error::Refused {
            reason: ErrorReason::SlotsInUse,
            message,
            ..
        }) => {
            assert_eq!(message, "9 GPUs are in use on 2 nodes.");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(specs.len(), 2);
}

#[tokio::test]
async fn inc_14_a_failed_bare_metal_node_stays_held_until_it_is_installed_anew() {
    let (world, mut specs) = world_of(1).await;
    let mut spec = specs.remove(0);
    let id = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = provision::start(&mut tx, fence, id).await.expect("start");
    let failure = Failure {
        reason: "HOST_UNREACHABLE".into(),
        message: "The host did not answer.".into(),
        advice: "Try again.".into(),
        step: "install".into(),
    };
    let dirty = HostState::Dirty {
        health_detail: "the installer stopped half way",
    };
    let _ = provision::fail(&mut tx, fence, id, &failure, dirty)
        .await
        .expect("fail");
    tx.commit().await.expect("commit");
    assert_eq!(mode(&world, spec.id).await, "baremetal");
    assert_eq!(
        world
            .number("SELECT count(*) FROM claims WHERE state = 'cleanup_blocked'")
            .await,
        1
    );
    spec.instance_id = Uuid::now_v7();
    spec.new_instance = true;
    world.node(spec.clone()).await;
    assert_eq!(mode(&world, spec.id).await, "slice");
    assert_eq!(
        world
            .number("SELECT count(*) FROM claims WHERE state <> 'released'")
            .await,
        0
    );
    assert_eq!(
        reason(reserve(&world, &bare_metal(&world)).await),
        ErrorReason::IncompleteSlot
    );
}

/// A node on which nothing was begun, and whose host is not known to be as it was: its slots keep their evidence, and wait.
#[tokio::test]
async fn p2_a_slot_is_not_enabled_while_a_failed_bare_metal_node_is_held() {
    let (world, specs) = world_of(1).await;
    let node = specs[0].id;
    let id = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let failure = Failure {
        reason: "HOST_UNREACHABLE".into(),
        message: "The host did not answer.".into(),
        advice: "Try again.".into(),
        step: "install".into(),
    };
    let dirty = HostState::Dirty {
        health_detail: "the host does not answer",
    };
    let _ = provision::fail(&mut tx, fence, id, &failure, dirty)
        .await
        .expect("fail");
    tx.commit().await.expect("commit");

    let slot = world.slots(node).await[0].id;
    let set = async |disabled| {
        let mut tx = world.scheduler.begin().await.expect("begin");
        let by = Attribution::of("user:test", "by the test");
        let set = node_placement::set_slot_admin_state(&mut tx, node, slot, disabled, by).await?;
        tx.commit().await.expect("commit");
        Ok::<_, Error>(set)
    };
    assert!(set(true).await.expect("disabled").disabled);
    let refused = set(false).await;
    assert!(
        matches!(&refused, Err(Error::Conflict { what: "node", state, .. }) if state == "held as bare metal"),
        "{refused:?}"
    );
    let slots = world.slots(node).await;
    let of_it = slots.iter().find(|one| one.id == slot).expect("a slot");
    assert!(
        of_it.disabled && of_it.status == SlotStatus::Disabled,
        "nothing was changed"
    );
}

/// Makes a reserved bare-metal node active, and releases it again after `meanwhile`.
pub async fn tenancy(world: &World, id: Uuid, meanwhile: impl AsyncFnOnce()) {
    install(world, id).await;
    meanwhile().await;
    give_back(world, id).await;
}

/// Evidence from before the tenant is none after it, however the slot came out of service meanwhile.
#[tokio::test]
async fn p2_a_slot_disabled_or_approved_under_a_bare_metal_node_is_not_allocated_with_old_evidence()
{
    let (world, specs) = world_of(1).await;
    let node = specs[0].id;
    let id = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    let slot = world.slots(node).await[0].id;
    let disable = async |disabled| {
        let mut tx = world.scheduler.begin().await.expect("begin");
        node_placement::set_slot_admin_state(
            &mut tx,
            node,
            slot,
            disabled,
            Attribution::of("user:test", "by the test"),
        )
        .await
        .expect("intent");
        tx.commit().await.expect("commit");
    };
    disable(true).await;
    tenancy(&world, id, async || {
        // the operator approves while the tenant writes: nothing of the tenant's is wiped
        let look = look_at(&world.slots(node).await);
        let mut tx = world.scheduler.begin().await.expect("begin");
        let all: Vec<_> = (1..8).map(h200_slot).collect();
        let next = Uuid::now_v7;
        let refused = approval::approve(&mut tx, node, &look, &all, Origin::default(), next).await;
        assert!(
            matches!(refused, Err(Error::Conflict { what: "node", .. })),
            "{refused:?}"
        );
    })
    .await;
    disable(false).await;
    assert_eq!(mode(&world, node).await, "slice");
    assert_eq!(world.count(node, SlotStatus::Available).await, 0);
    assert_eq!(
        reason(reserve(&world, &slice(&world)).await),
        ErrorReason::NoCapacity
    );
}

/// Nobody is placed where somebody who is queued would fit now, bare-metal nodes included.
#[tokio::test]
async fn b_47_a_bare_metal_node_is_not_allocated_past_those_who_are_queued_for_a_part_of_it() {
    let (world, specs) = world_of(1).await;
    let holder = reserve(&world, &bare_metal(&world))
        .await
        .expect("reserved");
    let deadline = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let waits = slice(&world);
    let waits =
        reserving::one_or_queue(&world.scheduler, world.ids, WITH_EXECUTOR, &waits, deadline)
            .await
            .expect("waits")
            .allocation_id;
    let mut tx = world.allocation.begin().await.expect("begin");
    release::begin(&mut tx, Scope::Platform, holder, "", "req")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    assert_eq!(
        reason(reserve(&world, &bare_metal(&world)).await),
        ErrorReason::QueuedAhead
    );
    reserve::serve_queue(&world.scheduler, world.ids, WITH_EXECUTOR)
        .await
        .expect("pass");
    assert_eq!(world.get(waits).await.node_id, Some(specs[0].id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn b_32_slices_and_bare_metal_nodes_that_race_never_share_a_node() {
    let (world, specs) = world_of(3).await;
    let requests: Vec<Request> = (0..24)
        .map(|number| Request {
            project_id: Uuid::now_v7(),
            ..if number % 3 == 0 {
                bare_metal(&world)
            } else {
                slice(&world)
            }
        })
        .collect();
    let outcomes = join_all(requests.iter().map(|request| reserve(&world, request))).await;
    for outcome in outcomes {
        assert!(
            matches!(outcome, Ok(_) | Err(Error::Refused { .. })),
            "{outcome:?}"
        );
    }
    let mixed = "SELECT count(*) FROM (SELECT node_id FROM claims WHERE state <> 'released'
                   GROUP BY node_id HAVING count(DISTINCT kind) > 1) AS m";
    assert_eq!(world.number(mixed).await, 0);
    for spec in &specs {
        let exclusive = world
            .number(&format!(
                "SELECT count(*) FROM claims WHERE node_id = '{}' AND kind = 'node_exclusive'",
                spec.id
            ))
            .await;
        assert_eq!(mode(&world, spec.id).await == "baremetal", exclusive == 1);
    }
}
