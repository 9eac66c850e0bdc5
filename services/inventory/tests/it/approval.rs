//! From candidates to slots: all or none, complete, unshared, by a ready host's latest inspection.
use gpuaas_common::value::Mac;
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use gpuaas_proto::gpuaas::common::v1::{HealthState, SlotStatus};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1 as api;
use tonic::Code;

use crate::discovery::latest;
use crate::host::good;
use crate::ready::Ready;
use crate::world::refused;

/// H-16: approve and view.
///
#[tokio::test]
async fn a_116_candidates_become_slots_once_and_are_on_record() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    let approved = ready
        .approve("a1", &discovery, &[1, 0])
        .await
        .expect("approved");
    assert_eq!(
        approved
            .iter()
            .map(|slot| slot.slot_index)
            .collect::<Vec<_>>(),
        [0, 1]
    );
    for slot in &approved {
        // what the inspection found proves nothing of the disk
        assert_eq!(
            (slot.status(), slot.slot_class.as_str()),
            (SlotStatus::Cleanup, "lab")
        );
        assert_eq!(slot.clean_evidence, "");
        assert_eq!(
            slot.health_detail,
            "The disk is being wiped and verified before its first use."
        );
    }
    let again = ready
        .approve("a1", &discovery, &[1, 0])
        .await
        .expect("replayed");
    assert_eq!(again, approved);
    let other = ready
        .approve("a1", &discovery, &[0])
        .await
        .expect_err("another request under the key");
    assert_eq!(other.reason(), ErrorReason::IdempotencyKeyReused);
    let audited = ready.world.audited().await;
    assert_eq!(
        audited
            .iter()
            .filter(|action| *action == "slot.approve")
            .count(),
        1
    );
    let counts = async || {
        let status = ready.world.status(ready.host.node_id()).await;
        status.slots.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(counts().await, [("cleanup".to_owned(), 2)]);
    ready.world.ledger.wipe(ready.host.node_id()).await;
    assert_eq!(counts().await, [("available".to_owned(), 2)]);
    for slot in ready.slots().await {
        assert_eq!(
            (slot.clean_evidence.as_str(), slot.health_detail.as_str()),
            ("wiped: blkdiscard", "")
        );
        assert_eq!(
            (slot.status(), slot.health_state()),
            (SlotStatus::Available, HealthState::Healthy)
        );
    }
}

#[tokio::test]
async fn a_67_a_68_a_candidate_and_its_slot_have_the_same_port_on_the_switch() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    let found = latest(&ready.world, ready.host.node_id()).await;
    let approved = ready.approve("a1", &discovery, &[0, 1]).await;
    let approved = approved.expect("approved");
    let port = |mac: &str| mac.parse::<Mac>().expect("a MAC").ovs_interface_id();
    for (candidate, slot) in found.candidates.iter().zip(&approved) {
        let bindings = slot.bindings.as_ref().expect("bindings");
        let own = port(&bindings.management_mac).to_string();
        assert_eq!(candidate.ovs_interface_id, own);
        assert_eq!(slot.ovs_interface_id, own);
    }
    assert_ne!(approved[0].ovs_interface_id, approved[1].ovs_interface_id);
}

///
#[tokio::test]
async fn a_102_a_103_a_105_an_approved_slot_says_that_its_disk_is_of_slices_and_by_which_record() {
    let manifest = "/var/log/gpuaas/slice-storage-transition-20260417152532.txt";
    let (ready, discovery) = Ready::start(|topology| {
        manifest.clone_into(&mut topology.inspected_devices[1].storage_transition_manifest);
    })
    .await;
    let approved = ready.approve("a1", &discovery, &[0, 1]).await;
    let approved = approved.expect("approved");
    let storage = |slot: &api::ResourceSlot| {
        [
            slot.storage_ownership.clone(),
            slot.storage_mode.clone(),
            slot.storage_transition_manifest.clone(),
        ]
    };
    // the disk of slot 0 was raw without a transition
    let expected = [["slice", "slice", ""], ["slice", "slice", manifest]];
    assert_eq!(approved.iter().map(storage).collect::<Vec<_>>(), expected);
    let listed = ready.slots().await;
    assert_eq!(listed.iter().map(storage).collect::<Vec<_>>(), expected);
}

/// CON-17: every binding.
#[tokio::test]
async fn a_118_an_incomplete_candidate_approves_nothing_and_names_field_and_rule() {
    let (ready, discovery) = Ready::start(|topology| {
        topology.candidates[1]
            .bindings
            .as_mut()
            .expect("bindings")
            .management_mac
            .clear();
    })
    .await;
    let error = ready
        .approve("a1", &discovery, &[0, 1])
        .await
        .expect_err("refused");
    assert_eq!(
        (error.code(), error.reason()),
        (Code::FailedPrecondition, ErrorReason::CandidateIncomplete)
    );
    assert_eq!(error.fields()[0].0, "candidates[1].management_mac");
    assert!(
        error.fields()[0].1.contains("MAC"),
        "{}",
        error.fields()[0].1
    );
    ready.assert_nothing().await;
    ready
        .approve("a1", &discovery, &[0])
        .await
        .expect("a refusal uses no key up");
}

/// what stands against a disk is a blocker of its candidate, a file system too.
#[tokio::test]
async fn a_119_a_candidate_with_a_mounted_partition_is_refused() {
    let (ready, discovery) = Ready::start(|topology| {
        topology.candidates[0].blockers = vec!["disk_partition_mounted".into()];
    })
    .await;
    let error = ready
        .approve("a1", &discovery, &[0])
        .await
        .expect_err("refused");
    assert_eq!(
        (error.code(), error.reason()),
        (Code::FailedPrecondition, ErrorReason::CandidateBlocked)
    );
    assert_eq!(error.metadata()["blockers"], "disk_partition_mounted");
    ready.assert_nothing().await;
}

/// CON-02, CON-17, CON-21.
#[tokio::test]
async fn a_122_a_whole_gpu_slot_without_its_function_is_refused() {
    // a host that calls itself lab cannot offer GPUs, so this one says it is none
    let (ready, _) = Ready::start(|_| {}).await;
    let real = ReadinessReport {
        lab: false,
        ..good()
    };
    ready.host.heartbeat(real).await.expect("taken");
    {
        let mut topology = ready.host.topology.lock().expect("not poisoned");
        let candidate = &mut topology.candidates[0];
        candidate.slot_class = "h200_sxm".into();
        let bindings = candidate.bindings.as_mut().expect("bindings");
        bindings.gpu_pci_address = "0000:1b:00.0".into();
        bindings.nvme_device = "/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331".into();
        bindings.storage_identity_kind = "nvme_wwn_by_id".into();
        bindings.fabric_claim_mode = "per_slot_vf".into();
    }
    let discovery = ready.inspect("d2").await;
    let error = ready
        .approve("a1", &discovery, &[0])
        .await
        .expect_err("refused");
    assert_eq!(error.reason(), ErrorReason::CandidateIncomplete);
    assert_eq!(
        error
            .fields()
            .iter()
            .map(|f| f.0.as_str())
            .collect::<Vec<_>>(),
        ["candidates[0].fabric_vf_pci_address"]
    );
    ready.assert_nothing().await;
}

#[tokio::test]
async fn a_125_candidates_that_share_a_device_are_refused_beside_each_other_and_beside_slots() {
    let (ready, discovery) = Ready::start(|topology| {
        let mac = topology.candidates[0]
            .bindings
            .as_ref()
            .expect("bindings")
            .management_mac
            .clone();
        topology.candidates[1]
            .bindings
            .as_mut()
            .expect("bindings")
            .management_mac = mac;
    })
    .await;
    let both = ready
        .approve("a1", &discovery, &[0, 1])
        .await
        .expect_err("refused");
    assert_eq!(
        (both.reason(), both.fields()[0].0.as_str()),
        (
            ErrorReason::CandidateBlocked,
            "candidates[1].management_mac"
        )
    );
    ready.assert_nothing().await;
    ready
        .approve("a2", &discovery, &[0])
        .await
        .expect("one alone shares nothing");
    let beside = ready
        .approve("a3", &discovery, &[1])
        .await
        .expect_err("refused");
    assert_eq!(beside.reason(), ErrorReason::CandidateBlocked);
    assert_eq!(ready.slots().await.len(), 1);
}

#[tokio::test]
async fn a_128_a_host_that_is_not_ready_now_gets_no_slots() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    let broken = ReadinessReport {
        blockers: vec!["libvirt".into()],
        ..good()
    };
    ready.host.heartbeat(broken).await.expect("taken");
    let error = ready
        .approve("a1", &discovery, &[0])
        .await
        .expect_err("refused");
    assert_eq!(
        (error.code(), error.reason()),
        (Code::FailedPrecondition, ErrorReason::HostNotReady)
    );
    assert_eq!(error.metadata()["blockers"], "libvirt");
    ready.assert_nothing().await;
}

#[tokio::test]
async fn a_72_blockers_of_the_discovery_block_its_candidates() {
    let (ready, discovery) = Ready::start(|topology| topology.blockers = vec!["nat".into()]).await;
    let error = ready
        .approve("a1", &discovery, &[0])
        .await
        .expect_err("refused");
    assert_eq!(
        (error.reason(), error.metadata()["blockers"].as_str()),
        (ErrorReason::HostNotReady, "nat")
    );
    ready.assert_nothing().await;
}

#[tokio::test]
async fn bad_approvals_are_refused_and_change_nothing() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    let other = ready.world.create_node("n2").await;
    let unknown = uuid::Uuid::now_v7().to_string();
    let cases: [(&str, &[u32], Code, ErrorReason); 5] = [
        (
            &discovery,
            &[],
            Code::InvalidArgument,
            ErrorReason::FieldRequired,
        ),
        (
            &discovery,
            &[0, 0],
            Code::InvalidArgument,
            ErrorReason::FieldInvalid,
        ),
        (
            &discovery,
            &[9],
            Code::InvalidArgument,
            ErrorReason::FieldInvalid,
        ),
        ("x", &[0], Code::InvalidArgument, ErrorReason::FieldInvalid),
        (
            &unknown,
            &[0],
            Code::NotFound,
            ErrorReason::DiscoveryNotFound,
        ),
    ];
    for (number, (id, indexes, code, reason)) in cases.into_iter().enumerate() {
        let error = ready
            .approve(&format!("a{number}"), id, indexes)
            .await
            .expect_err("refused");
        assert_eq!(
            (error.code(), error.reason()),
            (code, reason),
            "case {number}"
        );
    }
    let foreign = api::ApproveResourceSlotsRequest {
        node_id: other.id,
        ..ready.request(&discovery, &[0])
    };
    let error = refused(
        ready
            .world
            .nodes()
            .approve_resource_slots(ready.world.admin("f", foreign))
            .await,
    );
    assert_eq!(error.reason(), ErrorReason::DiscoveryNotFound);
    let keyless = ready.world.admin("", ready.request(&discovery, &[0]));
    let error = refused(ready.world.nodes().approve_resource_slots(keyless).await);
    assert_eq!(error.reason(), ErrorReason::IdempotencyKeyMissing);
    ready.assert_nothing().await;
}

/// H-16: disable.
#[tokio::test]
async fn a_116_a_slot_is_disabled_and_enabled_on_record() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    let slot = ready
        .approve_and_wipe("a1", &discovery, &[0])
        .await
        .expect("approved")
        .remove(0);
    let disable = |key: &'static str, slot_id: &str| {
        let request = api::DisableResourceSlotRequest {
            node_id: ready.host.node_id().into(),
            slot_id: slot_id.into(),
            reason: "swap of the disk".into(),
            etag: String::new(),
        };
        let request = ready.world.admin(key, request);
        let mut client = ready.world.nodes();
        async move { client.disable_resource_slot(request).await }
    };
    let disabled = disable("x1", &slot.id)
        .await
        .expect("disabled")
        .into_inner();
    assert_eq!(
        (disabled.disabled, disabled.status()),
        (true, SlotStatus::Disabled)
    );
    assert!(
        disable("x1", &slot.id)
            .await
            .expect("replayed")
            .into_inner()
            .disabled
    );
    let unknown = refused(disable("x2", &uuid::Uuid::now_v7().to_string()).await);
    assert_eq!(
        (unknown.code(), unknown.reason()),
        (Code::NotFound, ErrorReason::SlotNotFound)
    );
    let enable = api::EnableResourceSlotRequest {
        node_id: ready.host.node_id().into(),
        slot_id: slot.id,
        etag: String::new(),
    };
    let enabled = ready
        .world
        .nodes()
        .enable_resource_slot(ready.world.admin("x3", enable))
        .await
        .expect("enabled");
    assert_eq!(enabled.into_inner().status(), SlotStatus::Available);
    let audited = ready.world.audited().await;
    assert_eq!(
        audited[audited.len() - 2..],
        ["slot.disable", "slot.enable"]
    );
}
