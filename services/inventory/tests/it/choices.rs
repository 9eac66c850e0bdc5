//! An operator chooses another disk and another wipe policy for a slot than its candidate has.
use gpuaas_common::Error;
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::agent::v1::{HostDevices, HostDisk, ReadinessReport};
use gpuaas_proto::gpuaas::common::v1::HealthState;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::inventory::v1 as api;

use crate::discovery::latest;
use crate::host::good;
use crate::ready::Ready;

const SPARE: &str = "lab-disk:0190a5b0-0000-7000-8000-00000000000f";

/// What a host reports that has the disks of its two candidates, and a spare one.
fn report() -> ReadinessReport {
    let own = |index| format!("lab-disk:0190a5b0-0000-7000-8000-00000000000{index}");
    let disks = [own(0), own(1), SPARE.to_owned()].map(|identity| HostDisk {
        bytes: if identity == SPARE { 2 << 30 } else { 1 << 30 },
        identity,
        ..HostDisk::default()
    });
    ReadinessReport {
        devices: Some(HostDevices {
            disks: disks.into(),
            ..HostDevices::default()
        }),
        observed_time: Some(proto_time(jiff::Timestamp::now())),
        ..good()
    }
}

impl Ready {
    async fn choose(
        &self,
        key: &str,
        discovery: &str,
        choice: api::SlotChoice,
    ) -> Result<Vec<api::ResourceSlot>, Error> {
        let request = api::ApproveResourceSlotsRequest {
            choices: vec![choice],
            ..self.request(discovery, &[0, 1])
        };
        let request = self.world.admin(key, request);
        let approved = self.world.nodes().approve_resource_slots(request).await?;
        Ok(approved.into_inner().slots)
    }
}

#[tokio::test]
async fn a_116_a_spare_disk_and_its_wipe_policy_are_approved_and_are_no_drift() {
    let manifest = "/var/log/gpuaas/slice-storage-transition-20260417152532.txt";
    let (ready, discovery) = Ready::start(|topology| {
        let mut inspected = topology.inspected_devices.iter_mut();
        let spare = inspected.find(|one| one.device == SPARE);
        let spare = spare.expect("inspected");
        manifest.clone_into(&mut spare.storage_transition_manifest);
    })
    .await;
    let wrong = |device: &str| api::SlotChoice {
        slot_index: 1,
        nvme_device: device.into(),
        ..api::SlotChoice::default()
    };
    // before the host has said what it has
    let error = ready.choose("c0", &discovery, wrong(SPARE)).await;
    assert_eq!(
        error.expect_err("not reported").reason(),
        ErrorReason::DiscoveryStale
    );
    ready.host.heartbeat(report()).await.expect("taken");
    let error = ready.choose("c1", &discovery, wrong("/dev/nvme1n1")).await;
    let error = error.expect_err("no such disk");
    assert_eq!(error.reason(), ErrorReason::FieldInvalid, "{error:?}");
    assert_eq!(error.fields()[0].0, "choices[0].nvme_device");
    ready.assert_nothing().await;

    let choice = api::SlotChoice {
        destructive_wipe_policy: "site_erase".into(),
        ..wrong(SPARE)
    };
    let approved = ready.choose("c2", &discovery, choice.clone()).await;
    let approved = approved.expect("approved");
    let bindings = approved[1].bindings.as_ref().expect("bindings");
    assert_eq!(
        (
            bindings.nvme_device.as_str(),
            bindings.nvme_bytes,
            bindings.destructive_wipe_policy.as_str()
        ),
        (SPARE, 2 << 30, "site_erase")
    );
    // the record is that of the disk that was chosen
    let records = approved
        .iter()
        .map(|slot| &slot.storage_transition_manifest);
    assert_eq!(records.collect::<Vec<_>>(), ["", manifest]);
    // the same key answers the same slots
    let again = ready.choose("c2", &discovery, choice).await;
    assert_eq!(again.expect("replayed").len(), 2);
    ready.world.ledger.wipe(ready.host.node_id()).await;
    ready.host.heartbeat(report()).await.expect("taken");
    for slot in ready.slots().await {
        assert_eq!(slot.health_state(), HealthState::Healthy);
        assert!(slot.drift.is_empty(), "{:?}", slot.drift);
    }
}

#[tokio::test]
async fn d_75_a_wipe_policy_that_the_disk_cannot_is_refused_by_field_rule_and_what_it_can() {
    let (ready, discovery) = Ready::start(|topology| {
        for one in &mut topology.inspected_devices {
            one.wipe_policies = vec!["blkdiscard".into(), "site_erase".into()];
        }
    })
    .await;
    ready.host.heartbeat(report()).await.expect("taken");
    let shown = latest(&ready.world, ready.host.node_id()).await;
    assert_eq!(
        shown.inspected_devices[0].wipe_policies,
        ["blkdiscard", "site_erase"],
        "an operator is shown what can be chosen"
    );
    let by = |policy: &str| api::SlotChoice {
        slot_index: 1,
        destructive_wipe_policy: policy.into(),
        ..api::SlotChoice::default()
    };
    let error = ready.choose("w1", &discovery, by("nvme_format")).await;
    let error = error.expect_err("the disk cannot do it");
    assert_eq!(error.reason(), ErrorReason::FieldInvalid, "{error:?}");
    let (field, rule) = &error.fields()[0];
    assert_eq!(field, "choices[0].destructive_wipe_policy");
    assert!(rule.contains("blkdiscard or site_erase"), "{rule}");
    assert_eq!(error.metadata()["wipe_policies"], "blkdiscard,site_erase");
    ready.assert_nothing().await;
    let approved = ready.choose("w2", &discovery, by("site_erase")).await;
    assert_eq!(approved.expect("approved").len(), 2);
}

#[tokio::test]
async fn d_75_what_a_host_proposes_and_cannot_do_is_approved_with_another_policy_only() {
    let (ready, discovery) = Ready::start(|topology| {
        for one in &mut topology.inspected_devices {
            one.wipe_policies = vec!["site_erase".into()];
        }
    })
    .await;
    ready.host.heartbeat(report()).await.expect("taken");
    let error = ready.approve("p1", &discovery, &[0]).await;
    let error = error.expect_err("it proposes blkdiscard");
    assert_eq!(
        error.reason(),
        ErrorReason::CandidateIncomplete,
        "{error:?}"
    );
    assert_eq!(error.fields()[0].0, "candidates[0].destructive_wipe_policy");
    assert_eq!(error.metadata()["wipe_policies"], "site_erase");
    ready.assert_nothing().await;
}
