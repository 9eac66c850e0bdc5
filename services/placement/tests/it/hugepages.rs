//! Hugepages between two reports of a host: what VMs are still to take is not allocated again.
use gpuaas_placement::capacity::Capacity;
use gpuaas_placement::node_placement::Intent;
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::reservations::{self, ReservationSpec};
use gpuaas_placement::reserve::{Key, Request};
use gpuaas_placement::{Error, Result, availability};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::baremetal::slice;
use crate::marks::{begin_release, wipe};
use crate::reports::{bring_up, intend, launch};
use crate::reservations::requested;
use crate::reserving;
use crate::ties::planned;
use crate::world::{H200, POLICY, REGION, World, h200_groups, h200_slot, lab_spec};

/// A GPU needs 64 pages.
async fn node_with(world: &World, pages: i32) -> NodeSpec {
    let spec = NodeSpec {
        lab: false,
        hugepages_1g_free: pages,
        ..lab_spec()
    };
    world.node(spec.clone()).await;
    let slots: Vec<_> = (0..4).map(h200_slot).collect();
    world.approve(spec.id, &slots).await;
    spec
}

/// The host reports so many free pages, and whose VMs have theirs.
async fn report(world: &World, spec: &NodeSpec, free: i32, held_by: &[Uuid]) {
    let spec = NodeSpec {
        hugepages_1g_free: free,
        hugepages_allocated_to: held_by.to_vec(),
        ..spec.clone()
    };
    world.node(spec).await;
}

async fn placed(world: &World) -> Result<Uuid> {
    let made = world.reserve(&slice(world)).await?;
    Ok(made.allocation_id)
}

/// How many slices of one GPU fit: told alike by the copy that the world keeps and by a new one.
async fn fits(world: &World) -> u32 {
    let mut reported = Vec::new();
    for capacity in [&*world.capacity, &Capacity::default()] {
        let mut conn = world.scheduler.acquire().await.expect("connection");
        let (region, sku) = (Some(REGION), Some(H200));
        let rows = availability::list(&mut conn, capacity, POLICY, None, region, sku).await;
        let rows = rows.expect("availability");
        reported.push(
            rows.iter()
                .find(|row| row.gpu_count.get() == 1)
                .expect("ones")
                .fits,
        );
    }
    assert_eq!(reported[0], reported[1], "the copy lags");
    reported[0]
}

/// Hugepages are among what it is refused for; the slots that others have are no reason for those that are free.
fn missing<T>(result: Result<T>) -> bool {
    let causes = match result {
        Err(Error::Refused { causes, .. }) => causes,
        Err(Error::InBatch { source, .. }) => return missing::<T>(Err(*source)),
        _ => return false,
    };
    let mut reasons = causes.iter().map(|cause| cause.reason);
    reasons.any(|reason| reason == ErrorReason::HugepagesMissing)
}

#[tokio::test]
async fn b_11_hugepages_that_a_launch_is_still_to_take_are_not_allocated_again() {
    let world = World::new().await;
    let spec = node_with(&world, 127).await;
    assert_eq!(fits(&world).await, 1);
    let first = placed(&world).await.expect("64 of 127 pages");
    assert!(missing(placed(&world).await), "63 are left");
    // while its VM starts, and until the host says that it has its pages, they are the same ones
    world.activate(first).await;
    assert_eq!(fits(&world).await, 0);
    assert!(missing(placed(&world).await));
    report(&world, &spec, 63, &[first]).await;
    assert!(missing(placed(&world).await), "63 are left");
    report(&world, &spec, 64, &[first]).await;
    assert_eq!(fits(&world).await, 1);
    let second = placed(&world).await.expect("64 are free beside it");
    assert_eq!(fits(&world).await, 0);

    // nothing is lost for ever: who goes takes what it was owed with it, whatever the host has said of it
    begin_release(&world, second).await;
    assert_eq!(fits(&world).await, 1);
    begin_release(&world, first).await;
    wipe(&world, first).await;
    assert_eq!(fits(&world).await, 1, "until the host reports its pages");
    report(&world, &spec, 128, &[]).await;
    assert_eq!(fits(&world).await, 2);
}

/// Its pages are free on the host, and are needed when it is started again.
#[tokio::test]
async fn b_11_the_hugepages_of_a_stopped_vm_are_kept_for_its_start() {
    let world = World::new().await;
    let spec = node_with(&world, 128).await;
    let id = placed(&world).await.expect("placed");
    world.activate(id).await;
    report(&world, &spec, 64, &[id]).await;
    assert_eq!(fits(&world).await, 1);
    report(&world, &spec, 128, &[]).await;
    assert_eq!(fits(&world).await, 1, "stopped");
    report(&world, &spec, 64, &[id]).await;
    assert_eq!(fits(&world).await, 1, "started again");
}

/// What the claims of one transaction need is seen by its next decision, and several GPUs need together what the VM needs.
#[tokio::test]
async fn b_11_a_batch_does_not_count_on_the_same_hugepages_twice() {
    let world = World::new().await;
    node_with(&world, 191).await;
    let of = |gpu_counts: [u32; 2]| {
        gpu_counts.map(|gpu_count| Request {
            sku: H200.into(),
            ..world.request(gpu_count)
        })
    };
    let reserve = async |key: &str, requests: &[Request]| {
        let key = Key {
            principal: "user:alice",
            idempotency_key: key,
            request_hash: &[1; 32],
        };
        reserving::all(&world.scheduler, world.ids, POLICY, key, requests).await
    };
    let refused = reserve("k-1", &of([1, 2])).await;
    assert!(missing(refused), "192 pages");
    reserve("k-2", &of([1, 1])).await.expect("128 pages");
    assert_eq!(fits(&world).await, 0);
}

/// A capacity reservation keeps what its GPUs need; a launch that draws on it is owed that until its VM runs.
#[tokio::test]
async fn b_11_a_launch_that_draws_on_a_reservation_is_still_owed_its_hugepages() {
    let world = World::new().await;
    let spec = node_with(&world, 128).await;
    let requested = ReservationSpec {
        sku: H200.into(),
        ..requested(&world, 1)
    };
    let made = reservations::create(&world.scheduler, world.ids, POLICY, &requested).await;
    made.expect("held");
    let of_others = || Request {
        project_id: Uuid::from_u128(77),
        ..slice(&world)
    };
    let own = placed(&world).await.expect("drawn");
    world.reserve(&of_others()).await.expect("64 are open");
    assert!(missing(world.reserve(&of_others()).await), "none is left");
    report(&world, &spec, 128, &[own]).await;
    world.reserve(&of_others()).await.expect("64 more are open");
}

/// What a VM is owed comes back with it, as what it has: a plan counts on both.
#[tokio::test]
async fn b_11_b_49_a_plan_counts_on_the_hugepages_of_a_stopped_vm_that_it_moves() {
    let world = World::new().await;
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let spec = NodeSpec {
            lab: false,
            hugepages_1g_free: 8 * 64,
            legal_groups: h200_groups(),
            ..lab_spec()
        };
        nodes.push(world.node(spec).await);
        let slots: Vec<_> = (0..8).map(h200_slot).collect();
        world.approve(nodes[nodes.len() - 1], &slots).await;
    }
    let single = launch(&world, 1).await;
    bring_up(&world, single).await;
    let at = world.get(single).await.node_id.expect("placed");
    intend(&world, at, Intent::Cordoned).await;
    launch(&world, 4).await;
    intend(&world, at, Intent::Enabled).await;
    assert_eq!(planned(&world).await, (1, 1), "it runs");
    world
        .run_past_guards(&format!(
            "UPDATE allocations SET power = 'stopped' WHERE id = '{single}'"
        ))
        .await;
    assert_eq!(planned(&world).await, (1, 1), "it is stopped");
}
