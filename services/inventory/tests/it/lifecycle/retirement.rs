//! Nodes and slots that are retired, and what is left of them.
use gpuaas_proto::gpuaas::common::v1::SlotStatus;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1::{self as api, NodeLifeState};
use tonic::Code;

use super::{names, retire};
use crate::host::good;
use crate::ready::Ready;
use crate::world::refused;

#[tokio::test]
async fn a_retired_node_is_gone_for_good_and_its_name_is_free() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    ready
        .approve_and_wipe("a1", &discovery, &[0])
        .await
        .expect("approved");
    let (world, node_id) = (&ready.world, ready.host.node_id());
    let in_service = retire(world, node_id, "r1").await.expect_err("in service");
    assert_eq!(in_service.metadata()["state"], "in service; drain it first");
    world.ledger.say(node_id, "draining").await;
    let gone = retire(world, node_id, "r1").await.expect("retired");
    let life = gone.status.expect("a status").life.expect("a life");
    assert_eq!(
        (life.state(), life.reason.as_str(), life.principal.as_str()),
        (NodeLifeState::Retired, "scrapped", "user:root")
    );
    retire(world, node_id, "r1").await.expect("the same key");
    assert!(
        ready
            .slots()
            .await
            .iter()
            .all(|slot| slot.status() == SlotStatus::Retired)
    );
    // its host counts for nothing, and no other one enrols for it
    let heartbeat = refused(ready.host.heartbeat(good()).await);
    assert_eq!(heartbeat.code(), Code::PermissionDenied, "{heartbeat:?}");
    let request = api::CreateEnrolmentTokenRequest {
        node_id: node_id.into(),
    };
    let token = world
        .nodes()
        .create_enrolment_token(world.admin("t9", request))
        .await;
    assert_eq!(refused(token).reason(), ErrorReason::StateConflict);
    assert!(names(world, false).await.is_empty());
    assert_eq!(names(world, true).await, ["n1"]);
    let request = api::CreateNodeRequest {
        hostname: "n1".into(),
        region_code: crate::world::REGION.into(),
        mode: "slice".into(),
        ..Default::default()
    };
    let next = world
        .nodes()
        .create_node(world.admin("again", request))
        .await;
    assert_ne!(next.expect("the name is free").into_inner().id, node_id);
    assert_eq!(names(world, true).await, ["n1", "n1"]);
}

#[tokio::test]
async fn a_115_a_slot_is_retired_once_and_keeps_its_history() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    let slots = ready
        .approve_and_wipe("a1", &discovery, &[0, 1])
        .await
        .expect("approved");
    let (world, node_id, slot) = (&ready.world, ready.host.node_id(), &slots[0]);
    let request = |etag: &str| api::RetireResourceSlotRequest {
        node_id: node_id.into(),
        slot_id: slot.id.clone(),
        etag: etag.into(),
        reason: "disk worn out".into(),
    };
    let stale = world
        .nodes()
        .retire_resource_slot(world.admin("s0", request("0")))
        .await;
    assert_eq!(refused(stale).code(), Code::Aborted);
    for _ in 0..2 {
        let requested = world.admin("s1", request(&slot.etag));
        let gone = world.nodes().retire_resource_slot(requested).await;
        assert_eq!(
            gone.expect("retired").into_inner().status(),
            SlotStatus::Retired
        );
    }
    let request = api::ListResourceSlotHistoryRequest {
        node_id: node_id.into(),
        slot_id: slot.id.clone(),
        ..Default::default()
    };
    let reported = world
        .nodes()
        .list_resource_slot_history(world.admin("", request))
        .await;
    let entries = reported.expect("a history").into_inner().entries;
    let first = &entries[0];
    assert_eq!(
        (
            first.kind.as_str(),
            first.detail.as_str(),
            first.principal.as_str()
        ),
        ("retired", "disk worn out", "user:root")
    );
    assert!(
        entries.iter().any(|entry| entry.kind == "evidence"),
        "{entries:?}"
    );
    let request = api::ListResourceSlotHistoryRequest {
        node_id: node_id.into(),
        slot_id: slot.id.clone(),
        filter: "NOT kind = evidence".into(),
        order_by: "time".into(),
        ..Default::default()
    };
    let selected = world
        .nodes()
        .list_resource_slot_history(world.admin("", request))
        .await;
    let selected = selected.expect("a history").into_inner().entries;
    let mut others: Vec<_> = entries
        .iter()
        .filter(|entry| entry.kind != "evidence")
        .collect();
    others.reverse();
    assert_eq!(selected.iter().collect::<Vec<_>>(), others);
    let (mut pages, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = api::ListResourceSlotHistoryRequest {
            node_id: node_id.into(),
            slot_id: slot.id.clone(),
            page_size: 1,
            page_token,
            ..Default::default()
        };
        let page = world
            .nodes()
            .list_resource_slot_history(world.admin("", request))
            .await;
        let page = page.expect("a page").into_inner();
        assert_eq!(page.entries.len(), 1);
        pages.extend(page.entries);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, entries);
    // its place is free for what is discovered there now
    let again = ready.inspect("d2").await;
    let more = ready
        .approve_and_wipe("a2", &again, &[slot.slot_index])
        .await
        .expect("another slot");
    assert!(more.iter().all(|other| other.id != slot.id), "{more:?}");
    let retired = world.audited().await;
    assert_eq!(
        retired
            .iter()
            .filter(|action| *action == "slot.retire")
            .count(),
        1
    );
}
