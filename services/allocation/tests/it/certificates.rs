//! P2: what a host signs of a wipe, from the wipe to whoever verifies it.

use gpuaas_agent::disk::method::{Method, Zero};
use gpuaas_agent::disk::wipe_log::{Note, Stage};
use gpuaas_common::Error;
use gpuaas_placement::model::SlotStatus;
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_wipe_certificate::{Statement, verify};
use uuid::Uuid;

use crate::platform::{Platform, good};
use crate::world::World;

async fn active(platform: &Platform, name: &str) -> Uuid {
    let created = platform.create(good(name), name).await.expect("created");
    let id: Uuid = created.id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;
    platform.world.until_idle(id).await;
    id
}

async fn released(platform: &Platform, id: Uuid) {
    let key = format!("end-{id}");
    platform
        .release(&id.to_string(), &key)
        .await
        .expect("accepted");
    platform.world.until_state(id, "released").await;
    platform.world.until_idle(id).await;
}

/// What the tenant is given.
async fn listed(platform: &Platform, id: Uuid) -> Vec<pb::WipeCertificate> {
    let request = pb::ListWipeCertificatesRequest {
        allocation_id: id.to_string(),
        ..Default::default()
    };
    let request = platform.user(request, None);
    let answer = platform.users.clone().list_wipe_certificates(request).await;
    answer.expect("a list").into_inner().certificates
}

fn verified(world: &World, certificate: &pb::WipeCertificate) -> Statement {
    let authority = std::fs::read_to_string(world.authority.host_root()).expect("a file");
    verify(&certificate.document, &authority).expect("verifies offline")
}

#[tokio::test]
async fn p2_a_released_allocation_has_a_certificate_that_verifies_offline() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let id = active(&platform, "web").await;
    let slot = world.slot_of(id).await;
    assert!(listed(&platform, id).await.is_empty(), "nothing is wiped");
    released(&platform, id).await;

    let certificates = listed(&platform, id).await;
    let [certificate] = certificates.as_slice() else {
        panic!("one slot, one wipe: {certificates:?}");
    };
    assert_eq!(
        (
            certificate.policy.as_str(),
            certificate.erase_method.as_str()
        ),
        ("blkdiscard", "blkdiscard")
    );
    assert!(certificate.accept_time.is_some());
    let said = verified(world, certificate);
    let expected = [
        (&said.slot_id, slot.id.to_string()),
        (&said.node_id, world.node_id.to_string()),
        (&said.instance_id, world.instance_id.to_string()),
        (&said.allocation_id, id.to_string()),
        (&said.device.identity, slot.bindings.nvme_device.clone()),
        (&said.verification.scope, "whole".to_owned()),
    ];
    for (said, known) in expected {
        assert_eq!(*said, known);
    }
    assert_eq!(said.generation, slot.generation.cast_unsigned());
    assert_eq!(said.verification.verified_bytes, said.device.bytes);

    // the slot's next tenant has a certificate of its own
    let next = active(&platform, "next").await;
    released(&platform, next).await;
    assert_eq!(listed(&platform, id).await, certificates);
    let of_next = listed(&platform, next).await;
    assert_eq!(verified(world, &of_next[0]).allocation_id, next.to_string());
    assert_ne!(of_next, certificates);
    for (filter, order_by, expected) in [
        ("erase_method = blkdiscard", "accept_time desc", 1),
        ("slot_generation < 0", "", 0),
    ] {
        let request = pb::ListWipeCertificatesRequest {
            allocation_id: id.to_string(),
            page_size: 1,
            filter: filter.to_owned(),
            order_by: order_by.to_owned(),
            ..Default::default()
        };
        let request = platform.user(request, None);
        let page = platform.users.clone().list_wipe_certificates(request).await;
        let page = page.expect("a page").into_inner();
        assert_eq!(page.certificates.len(), expected, "{filter}");
        assert_eq!(page.next_page_token, "");
    }
    let request = pb::ListWipeCertificatesRequest {
        allocation_id: id.to_string(),
        order_by: "document".to_owned(),
        ..Default::default()
    };
    let request = platform.user(request, None);
    let refused = platform.users.clone().list_wipe_certificates(request).await;
    let error = Error::from(refused.expect_err("no such field"));
    assert_eq!(error.fields()[0].0, "order_by");
    // an operator sees both, in pages, newest first
    let select = async |slot_id: &str, token: &str, filter: &str, order_by: &str| {
        let request = pb::ListSlotWipeCertificatesRequest {
            node_id: world.node_id.to_string(),
            slot_id: slot_id.to_owned(),
            page_size: 1,
            page_token: token.to_owned(),
            filter: filter.to_owned(),
            order_by: order_by.to_owned(),
        };
        let request = platform.admin(request, None);
        let mut admins = platform.admins.clone();
        let answer = admins.list_slot_wipe_certificates(request).await;
        answer.map(tonic::Response::into_inner)
    };
    let of_slot = async |slot_id: &str, token: &str| select(slot_id, token, "", "").await;
    // the first wipe of the slot, which no host certified, comes first by an order, and is left out by a filter
    let first = &certificates[0];
    let selected = select(&first.slot_id, "", "policy = blkdiscard", "accept_time").await;
    let generations = |page: pb::ListSlotWipeCertificatesResponse| {
        let all = page.certificates.into_iter();
        all.map(|one| one.slot_generation).collect::<Vec<_>>()
    };
    assert_eq!(generations(selected.expect("a page")), [0]);
    let certified = "erase_method = blkdiscard AND slot_generation > 0";
    let selected = select(&first.slot_id, "", certified, "accept_time").await;
    assert_eq!(
        selected.expect("a page").certificates,
        std::slice::from_ref(first)
    );
    let unknown = select(&first.slot_id, "", "document = x", "").await;
    let error = Error::from(unknown.expect_err("no field"));
    assert_eq!(error.fields()[0].0, "filter");

    for one in [&certificates[0], &of_next[0]] {
        let mut found = Vec::new();
        let mut token = String::new();
        loop {
            let page = of_slot(&one.slot_id, &token).await.expect("a page");
            assert!(page.certificates.len() <= 1);
            found.extend(page.certificates);
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert!(found.contains(one), "{found:?}");
        assert!(found.is_sorted_by(|newer, older| newer.slot_generation > older.slot_generation));
    }
    let error = Error::from(
        of_slot(&Uuid::now_v7().to_string(), "")
            .await
            .expect_err("no slot"),
    );
    assert_eq!(error.reason(), ErrorReason::SlotNotFound);
    let other = of_slot(&world.slot_ids[1].to_string(), "x").await;
    let error = Error::from(other.expect_err("no token"));
    assert_eq!(error.fields()[0].0, "page_token");

    // another tenant is told nothing
    let request = pb::ListWipeCertificatesRequest {
        allocation_id: id.to_string(),
        ..Default::default()
    };
    let stranger = platform.as_person(request, "user:other", Uuid::now_v7(), false, None);
    let mut users = platform.users.clone();
    let answer = users.list_wipe_certificates(stranger).await;
    let error = Error::from(answer.expect_err("not its own"));
    assert_eq!(error.reason(), ErrorReason::AllocationNotFound);
}

/// The wipe that a tenant's release did not prove is proven by a repair: the tenant gets its certificate then.
#[tokio::test]
async fn p2_the_certificate_of_a_wipe_by_repair_is_the_tenants() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let id = active(&platform, "web").await;
    world.host.script(|script| {
        let reason = ErrorReason::WipeNotProven;
        script.fail = Some(("release", "verify_wipe", reason, FailureClass::Device));
    });
    released(&platform, id).await;
    let slot = world.slot_of(id).await;
    assert_eq!(slot.status, SlotStatus::CleanupBlocked);
    assert!(listed(&platform, id).await.is_empty());
    world.host.script(|script| script.fail = None);
    world.repair(slot.id).await;
    world.until_idle(slot.id).await;
    let certificates = listed(&platform, id).await;
    let said = verified(world, &certificates[0]);
    assert_eq!(said.allocation_id, id.to_string());
    assert!(said.generation > slot.generation.cast_unsigned());
}

/// A host signs in another's name: its word counts for nothing, and the slot is kept.
#[tokio::test]
async fn p2_a_certificate_in_anothers_name_proves_nothing() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let id = active(&platform, "web").await;
    world.host.sign_as(Uuid::now_v7());
    released(&platform, id).await;
    let slot = world.slot_of(id).await;
    assert_eq!(slot.status, SlotStatus::CleanupBlocked);
    assert!(
        slot.health_detail.contains("wipe certificate"),
        "{}",
        slot.health_detail
    );
    world.host.sign_as(world.instance_id);
    world.repair(slot.id).await;
    world.until_idle(slot.id).await;
    assert_eq!(world.slot_of(id).await.status, SlotStatus::Available);
}

#[tokio::test]
async fn p5_an_agent_that_dies_in_the_middle_of_a_wipe_finds_what_it_noted() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    world.host.script(|script| script.die_at_note = true);
    world.release(id).await;
    world.host.until_killed("in the wipe").await;
    world.host_up().await;
    world.until_state(id, "released").await;
    world.until_idle(id).await;
    assert_eq!(world.slot_of(id).await.status, SlotStatus::Available);
    let mut noted = Vec::new();
    world
        .host
        .script(|script| noted = std::mem::take(&mut script.noted));
    let method = Method {
        erase: None,
        zero: Zero::Discard,
    };
    let stage = Stage::Zeroing(0);
    assert_eq!(noted, [None, Some(Note { method, stage })]);
    let host = world.host.state().await;
    assert!(host.dirty.is_empty(), "{:?}", host.dirty);
    runner.stop().await;
}
