//! From a host's report to the slots of the ledger, and what an operator reads of it (D-80, A-111).
use gpuaas_proto::gpuaas::agent::v1::{HostDevices, HostDisk, ReadinessReport};
use gpuaas_proto::gpuaas::common::v1::{EvidenceStatus, HealthState};
use gpuaas_proto::gpuaas::inventory::v1 as api;

use crate::host::{evidence, good};
use crate::ready::Ready;
use crate::world::until;

fn disk(index: u32) -> HostDisk {
    HostDisk {
        identity: format!("lab-disk:0190a5b0-0000-7000-8000-00000000000{index}"),
        bytes: 1 << 30,
        ..HostDisk::default()
    }
}

fn report(devices: HostDevices) -> ReadinessReport {
    ReadinessReport {
        devices: Some(devices),
        // what an agent sends for a control plane of the release before
        drifted_disks: vec![disk(0).identity],
        ..good()
    }
}

fn with_disks(disks: Vec<HostDisk>) -> HostDevices {
    HostDevices {
        disks,
        ..HostDevices::default()
    }
}

#[tokio::test]
async fn d_80_one_dead_disk_takes_its_own_slot_off_the_market_and_no_other() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    ready
        .approve_and_wipe("a1", &discovery, &[0, 1])
        .await
        .expect("approved");
    let node_id = ready.host.node_id().to_owned();
    let dead = report(with_disks(vec![disk(1)]));
    ready.host.heartbeat(dead).await.expect("taken");
    until("the slot is not offered", || async {
        ready.slots().await[0].health_state() == HealthState::Degraded
    })
    .await;
    let slots = ready.slots().await;
    assert_eq!(slots[0].drift.len(), 1);
    let drift = &slots[0].drift[0];
    assert_eq!(
        (drift.kind.as_str(), drift.field.as_str()),
        ("disk_missing", "nvme_device")
    );
    assert!(drift.message.contains(&disk(0).identity) && !drift.remediation.is_empty());
    assert!(drift.since.is_some() && drift.needs_wipe);
    assert_eq!(slots[1].health_state(), HealthState::Healthy);
    assert!(slots[1].drift.is_empty());
    let status = ready.world.status(&node_id).await;
    assert!(
        status.schedulable,
        "the host is not at fault: {:?}",
        status.blockers
    );
}

#[tokio::test]
async fn a_domain_that_nobody_allocated_is_evidence_and_blocks_no_other_slot() {
    let (ready, _) = Ready::start(|_| {}).await;
    let devices = HostDevices {
        unknown_domains: vec!["somebody".into()],
        ..with_disks(vec![disk(0), disk(1)])
    };
    let seen = report(devices);
    ready.host.heartbeat(seen).await.expect("taken");
    let status = ready.world.status(ready.host.node_id()).await;
    let found = status
        .evidence
        .iter()
        .find(|one| one.check == "unknown_domains")
        .expect("evidence");
    assert_eq!(found.status(), EvidenceStatus::Warn);
    assert!(found.detail.contains("somebody") && status.schedulable);
}

///
#[tokio::test]
async fn a_111_an_operator_reads_candidates_beside_the_slots_that_were_approved() {
    let (ready, first) = Ready::start(|_| {}).await;
    ready.approve("a1", &first, &[0]).await.expect("approved");
    let comparisons = async || {
        let get = api::GetTopologyDiscoveryRequest {
            node_id: ready.host.node_id().into(),
        };
        let request = ready.world.admin("", get);
        let mut nodes = ready.world.nodes();
        let found = nodes.get_topology_discovery(request).await;
        found.expect("found").into_inner().comparisons
    };
    let states = |all: &[api::SlotComparison]| -> Vec<api::ComparisonState> {
        all.iter().map(api::SlotComparison::state).collect()
    };
    let slot = ready.slots().await[0].clone();
    let found = comparisons().await;
    assert_eq!(
        states(&found),
        [api::ComparisonState::Same, api::ComparisonState::New]
    );
    assert_eq!(
        (found[0].slot_id.as_str(), found[1].slot_id.as_str()),
        (slot.id.as_str(), "")
    );
    ready.host.topology.lock().expect("not poisoned").candidates[0]
        .bindings
        .as_mut()
        .expect("bindings")
        .private_ip = "10.100.0.99".into();
    ready.inspect("d2").await;
    let found = comparisons().await;
    assert_eq!(found[0].state(), api::ComparisonState::Different);
    let differs: Vec<_> = found[0].bindings.iter().filter(|one| one.differs).collect();
    assert_eq!(
        (
            differs.len(),
            differs[0].field.as_str(),
            differs[0].found.as_str()
        ),
        (1, "private_ip", "10.100.0.99")
    );
    ready
        .host
        .topology
        .lock()
        .expect("not poisoned")
        .candidates
        .clear();
    ready.inspect("d3").await;
    assert_eq!(
        states(&comparisons().await),
        [api::ComparisonState::NotFound]
    );
}

#[tokio::test]
async fn d_80_a_check_that_names_a_device_takes_its_slot_off_the_market_and_no_other() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    ready
        .approve_and_wipe("a1", &discovery, &[0, 1])
        .await
        .expect("approved");
    let mut failed = evidence("slot_disks", EvidenceStatus::Fail);
    failed.devices = vec![disk(1).identity];
    let mut seen = report(with_disks(vec![disk(0), disk(1)]));
    seen.evidence.push(failed);
    ready.host.heartbeat(seen).await.expect("taken");
    until("the slot is not offered", || async {
        ready.slots().await[1].health_state() == HealthState::Degraded
    })
    .await;
    let slots = ready.slots().await;
    assert_eq!(slots[1].drift[0].kind, "check_failed");
    assert!(slots[1].drift[0].message.contains("slot_disks"));
    assert_eq!(slots[0].health_state(), HealthState::Healthy);
}
