//! What administrators and other services are given.

use gpuaas_allocation::domain::names::vm_name;
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::{CapacityShape, SlotStatus};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::events::v1::ReadRequest;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_client::EventServiceClient;
use tonic::Code;
use uuid::Uuid;

use crate::platform::{Platform, good, port};

/// H-16: repair. CON-05: the repair makes the later state.
#[tokio::test]
async fn con_25_a_slot_leaves_cleanup_blocked_by_an_administrators_repair_only() {
    let platform = Platform::start().await;
    platform.world.host.script(|script| {
        let class = gpuaas_proto::gpuaas::agent::v1::FailureClass::Guest;
        script.fail = Some(("provision", "wait_login", ErrorReason::GuestNoLogin, class));
    });
    let id: Uuid = platform
        .create(good("web"), "key-1")
        .await
        .expect("created")
        .id
        .parse()
        .expect("a uuid");
    platform.world.until_state(id, "failed").await;
    platform.world.until_idle(id).await;
    platform.world.host.script(|script| script.fail = None);
    let slot = platform.world.slot_of(id).await;
    let mut admins = platform.admins.clone();
    let request = pb::RepairResourceSlotRequest {
        node_id: platform.world.node_id.to_string(),
        slot_id: slot.id.to_string(),
        reason: "image was at fault".into(),
    };
    let denied = admins
        .repair_resource_slot(platform.user(request.clone(), Some("k")))
        .await
        .expect_err("no admin");
    assert_eq!(denied.code(), Code::PermissionDenied);
    let silent = pb::RepairResourceSlotRequest {
        reason: " ".into(),
        ..request.clone()
    };
    let error = Error::from(
        admins
            .repair_resource_slot(platform.admin(silent, Some("k")))
            .await
            .expect_err("no reason"),
    );
    assert_eq!(error.fields()[0].0, "reason");
    let other = platform
        .world
        .slot_ids
        .iter()
        .find(|other| **other != slot.id)
        .expect("another slot");
    let fine = pb::RepairResourceSlotRequest {
        slot_id: other.to_string(),
        ..request.clone()
    };
    let error = Error::from(
        admins
            .repair_resource_slot(platform.admin(fine, Some("k")))
            .await
            .expect_err("not blocked"),
    );
    assert_eq!(error.reason(), ErrorReason::StateConflict);

    let repair = admins
        .repair_resource_slot(platform.admin(request.clone(), Some("k2")))
        .await
        .expect("accepted");
    let again = admins
        .repair_resource_slot(platform.admin(request.clone(), Some("k2")))
        .await
        .expect("replayed");
    assert_eq!(repair.into_inner().id, again.into_inner().id);
    platform.world.until_idle(slot.id).await;
    let get = pb::GetSlotRepairRequest {
        node_id: request.node_id,
        slot_id: request.slot_id,
    };
    let done = admins
        .get_slot_repair(platform.admin(get, None))
        .await
        .expect("the repair")
        .into_inner();
    assert_eq!(
        (done.state.as_str(), done.slot_status()),
        ("done", SlotStatus::Available)
    );
    assert!(done.end_time.is_some());

    let get = pb::GetAllocationDetailRequest {
        allocation_id: id.to_string(),
    };
    let detail = admins
        .get_allocation_detail(platform.admin(get, None))
        .await
        .expect("a detail")
        .into_inner();
    assert_eq!(detail.claims.len(), 1, "b_30");
    assert_eq!(detail.claims[0].state, "released");
    let types: Vec<&str> = detail
        .tasks
        .iter()
        .map(|task| task.r#type.as_str())
        .collect();
    assert_eq!(
        types,
        [
            "slice.vm_provision",
            "slice.vm_clean_up",
            "slice.vm_clean_up",
            "slice.slot_repair"
        ],
        "c_33"
    );
    let of_timeline: Vec<i64> = detail.timeline.iter().map(|one| one.sequence).collect();
    assert!(
        of_timeline.is_sorted() && of_timeline.len() > 2,
        "{of_timeline:?}"
    );
    let last = detail.timeline.last().expect("an entry");
    assert_eq!(last.state(), pb::TimelineState::Done, "{last:?}");
}

/// H-17.
/// C-44
#[tokio::test]
async fn b_30_an_administrator_sees_the_shape_and_the_claims_of_an_allocation() {
    let platform = Platform::start().await;
    let created = platform.create(good("web"), "key-1").await;
    let id: Uuid = created.expect("created").id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;
    let get = pb::GetAllocationDetailRequest {
        allocation_id: id.to_string(),
    };
    let mut admins = platform.admins.clone();
    let denied = admins
        .get_allocation_detail(platform.user(get.clone(), None))
        .await;
    assert_eq!(denied.expect_err("no admin").code(), Code::PermissionDenied);
    let detail = admins
        .get_allocation_detail(platform.admin(get, None))
        .await
        .expect("a detail")
        .into_inner();
    let allocation = detail.allocation.expect("the allocation");
    let config = allocation.config.expect("its config");
    assert_eq!(config.capacity_shape(), CapacityShape::GpuSlice);
    let slot = platform.world.slot_of(id).await;
    let [claim] = detail.claims.as_slice() else {
        panic!("one GPU is one claim: {:?}", detail.claims);
    };
    assert_eq!(
        (
            claim.kind.as_str(),
            claim.state.as_str(),
            &claim.slot_id,
            claim.slot_generation
        ),
        ("slot", "active", &slot.id.to_string(), slot.generation)
    );
    assert_eq!(claim.node_id, detail.node_id);
}

#[tokio::test]
async fn c_36_events_are_read_in_order_without_gaps_by_those_who_may() {
    let platform = Platform::start().await;
    let id = platform
        .create(good("web"), "key-1")
        .await
        .expect("created")
        .id;
    let uuid: Uuid = id.parse().expect("a uuid");
    platform.world.until_state(uuid, "active").await;
    platform.release(&id, "key-2").await.expect("accepted");
    platform.world.until_state(uuid, "released").await;
    platform.world.until("sequenced", "SELECT $1::uuid IS NOT NULL AND NOT EXISTS (SELECT FROM outbox WHERE position IS NULL)", uuid).await;
    let channel = platform
        .world
        .context("billing", "billing", port())
        .peers
        .channel("allocation")
        .expect("a channel");
    let mut events = EventServiceClient::new(channel);
    let (mut read, mut after_position) = (Vec::new(), 0);
    loop {
        let page = events
            .read(ReadRequest {
                after_position,
                limit: 2,
            })
            .await
            .expect("a page")
            .into_inner();
        let Some(last) = page.events.last() else {
            assert_eq!(page.head_position, after_position);
            break;
        };
        after_position = last.position;
        read.extend(page.events);
    }
    let positions: Vec<i64> = read.iter().map(|event| event.position).collect();
    assert_eq!(positions, (1..=read.len() as i64).collect::<Vec<_>>());
    let own: Vec<(&str, i64)> = read
        .iter()
        .filter(|e| e.aggregate_id == id)
        .map(|e| (e.r#type.as_str(), e.revision))
        .collect();
    assert!(own.is_sorted_by_key(|(_, revision)| *revision), "{own:?}");
    let names: Vec<&str> = own.iter().map(|(name, _)| *name).collect();
    for wanted in [
        "allocation.reserved",
        "allocation.active",
        "allocation.releasing",
        "allocation.released",
    ] {
        assert!(names.contains(&wanted), "{names:?}");
    }
    let active = read
        .iter()
        .find(|e| e.r#type == "allocation.active")
        .expect("active");
    assert!(
        active
            .data
            .as_ref()
            .is_some_and(|data| data.fields.contains_key("gpu_count"))
    );
    let stranger = platform
        .world
        .context("inventory", "inventory", port())
        .peers
        .channel("allocation")
        .expect("a channel");
    let denied = EventServiceClient::new(stranger)
        .read(ReadRequest::default())
        .await
        .expect_err("not for inventory");
    assert_eq!(Error::from(denied).reason(), ErrorReason::PeerNotAllowed);
}

#[tokio::test]
async fn p5_an_administrator_sees_ledger_host_and_hypervisor_of_a_node_side_by_side() {
    let platform = Platform::start().await;
    let created = platform.create(good("web"), "key-1").await;
    let id: Uuid = created.expect("created").id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;
    platform.world.until_idle(id).await;
    let request = pb::CompareNodeRequest {
        node_id: platform.world.node_id.to_string(),
        ..pb::CompareNodeRequest::default()
    };
    let mut admins = platform.admins.clone();
    let denied = admins.compare_node(platform.user(request.clone(), None));
    let denied = denied.await.expect_err("no admin");
    assert_eq!(denied.code(), Code::PermissionDenied);
    let nobodys = pb::CompareNodeRequest {
        node_id: Uuid::now_v7().to_string(),
        ..pb::CompareNodeRequest::default()
    };
    let missing = admins.compare_node(platform.admin(nobodys, None)).await;
    let missing = Error::from(missing.expect_err("no such node"));
    assert_eq!(missing.reason(), ErrorReason::NodeNotFound);

    let slot = platform.world.slot_of(id).await;
    let mut own = pb::NodeComparisonRow {
        allocation_id: id.to_string(),
        ledger_state: "active".into(),
        has_claims: true,
        journal_slot_ids: vec![slot.id.to_string()],
        has_reservation: true,
        domain_state: "running".into(),
        verdict: pb::ComparisonVerdict::Agrees.into(),
        ..pb::NodeComparisonRow::default()
    };
    let compared = admins
        .compare_node(platform.admin(request.clone(), None))
        .await
        .expect("compared")
        .into_inner();
    own.etag.clone_from(&compared.rows[0].etag);
    assert!(!own.etag.is_empty());
    assert_eq!(compared.rows, std::slice::from_ref(&own));

    let unknown = Uuid::now_v7();
    platform.world.host.leak_domain(&vm_name(unknown)).await;
    let compared = admins
        .compare_node(platform.admin(request.clone(), None))
        .await
        .expect("compared")
        .into_inner();
    let [first, leaked] = compared.rows.as_slice() else {
        panic!("{:?}", compared.rows);
    };
    assert_eq!(first, &own);
    assert_eq!(leaked.allocation_id, unknown.to_string());
    assert_eq!(
        (leaked.ledger_state.as_str(), leaked.verdict()),
        ("", pb::ComparisonVerdict::Report)
    );

    platform.world.host_gone().await;
    let silent = admins.compare_node(platform.admin(request, None)).await;
    let silent = Error::from(silent.expect_err("nobody answers"));
    assert_eq!(silent.reason(), ErrorReason::HostUnreachable);
}
