//! What an approval must not rest on: an inspection that something has happened since.
use gpuaas_proto::gpuaas::common::v1::SlotStatus;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;

use crate::host::Host;
use crate::ready::Ready;
use crate::world::{World, until};

#[tokio::test]
async fn a_58_only_the_latest_discovery_of_the_current_instance_can_be_approved_from() {
    let (mut ready, first) = Ready::start(|_| {}).await;
    let second = ready.inspect("d2").await;
    let stale = ready
        .approve("a1", &first, &[0])
        .await
        .expect_err("superseded");
    assert_eq!(
        (stale.code(), stale.reason()),
        (Code::FailedPrecondition, ErrorReason::DiscoveryStale)
    );
    let node_id = ready.host.node_id().to_owned();
    ready.host = Host::enrol(&ready.world, &node_id).await;
    ready.host.send_heartbeat().await;
    let reimaged = ready
        .approve("a2", &second, &[0])
        .await
        .expect_err("of an earlier instance");
    assert_eq!(reimaged.reason(), ErrorReason::DiscoveryStale);
    let third = ready.inspect("d3").await;
    ready.approve("a3", &third, &[0]).await.expect("approved");
}

#[tokio::test]
async fn a_09_a_reimage_takes_slots_out_of_service_until_they_are_approved_again() {
    let (mut ready, discovery) = Ready::start(|_| {}).await;
    ready
        .approve_and_wipe("a1", &discovery, &[0, 1])
        .await
        .expect("approved");
    let node_id = ready.host.node_id().to_owned();
    // work was taken meanwhile
    let epoch: i64 = sqlx::query_scalar("SELECT nextval('placement.workflow_epochs')")
        .fetch_one(&ready.world.owner().await)
        .await
        .expect("an epoch");
    ready.host = Host::enrol(&ready.world, &node_id).await;
    let fences = &ready.host.enrolled.fences;
    assert!(
        fences
            .iter()
            .all(|fence| fence.workflow_epoch == epoch.unsigned_abs()),
        "no token of that work is let in: {fences:?}"
    );
    assert_eq!(
        fences.len(),
        2,
        "a host that lost its journal learns what was issued"
    );
    assert!(
        fences
            .iter()
            .all(|fence| fence.cell_epoch > 0 && fence.slot_generation == 0)
    );
    until("the ledger distrusts the slots", || async {
        let slots = ready.slots().await;
        slots
            .iter()
            .all(|slot| (slot.status(), slot.generation) == (SlotStatus::Disabled, 1))
    })
    .await;
    ready.host.send_heartbeat().await;
    let discovery = ready.inspect("d2").await;
    let again = ready
        .approve_and_wipe("a2", &discovery, &[0])
        .await
        .expect("approved again");
    assert_eq!(
        (again[0].status(), again[0].clean_generation),
        (SlotStatus::Available, 1)
    );
    assert_eq!(ready.slots().await[1].status(), SlotStatus::Disabled);
}

#[tokio::test]
async fn p2_an_inspection_from_before_a_tenant_of_the_bare_metal_node_approves_nothing_after_it() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    ready
        .approve_and_wipe("a1", &discovery, &[0])
        .await
        .expect("approved");
    let discovery = ready.inspect("d2").await;
    ready
        .world
        .ledger
        .retire_evidence(ready.host.node_id())
        .await;
    let stale = ready
        .approve("a2", &discovery, &[0, 1])
        .await
        .expect_err("the host was inspected before");
    assert_eq!(
        (stale.code(), stale.reason()),
        (Code::FailedPrecondition, ErrorReason::DiscoveryStale)
    );
    assert!(stale.message().contains("discovery"), "{stale}");
    let slots = ready.slots().await;
    assert_eq!(slots.len(), 1, "all or none");
    assert_eq!(slots[0].status(), SlotStatus::Disabled);
    let discovery = ready.inspect("d3").await;
    let approved = ready.approve_and_wipe("a3", &discovery, &[0, 1]).await;
    let approved = approved.expect("inspected since");
    assert!(
        approved
            .iter()
            .all(|slot| slot.status() == SlotStatus::Available)
    );
}

#[tokio::test]
async fn a_discovery_that_is_too_old_cannot_be_approved_from() {
    let world = World::start_with(|config| config.discovery_max_age_seconds = 0).await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    host.send_heartbeat().await;
    let ready = Ready { world, host };
    let discovery = ready.inspect("d1").await;
    let error = ready
        .approve("a1", &discovery, &[0])
        .await
        .expect_err("refused");
    assert_eq!(error.reason(), ErrorReason::DiscoveryStale);
}
