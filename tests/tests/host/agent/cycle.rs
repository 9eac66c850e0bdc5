//! The whole life of a slice, and what a caller may do twice.
use std::time::{Duration, SystemTime};

use gpuaas_agent::ids::{AllocationId, Mac};
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::{GuestMetricsState, VmMetric};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_tests::runner::{Case, Place};
use uuid::Uuid;

use super::host::{LabHost, Tenant, USER, until};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        d_67_from_image_to_login_and_back_to_an_empty_disk: 15,
        b_16_b_19_the_host_plans_a_bundle_of_approved_slots_and_leases_what_it_has_proved: 2,
        d_08_leases_are_fenced_and_operations_need_them: 3,
        d_71_a_release_stops_a_provision_that_still_runs: 4,
        p5_a_restart_of_libvirtd_breaks_neither_a_guest_nor_its_release: 20,
    ]
}

async fn d_67_from_image_to_login_and_back_to_an_empty_disk() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let tenant = host.tenant(0, 1).await;
    let operation = host.provision(&tenant, image.clone()).await;

    let mut watch = host
        .vms()
        .watch_operation(pb::GetOperationRequest {
            operation_id: operation.to_string(),
        })
        .await;
    let watch = watch.as_mut().expect("a stream").get_mut();
    let mut seen = Vec::new();
    while let Some(update) = watch.message().await.expect("an update") {
        seen.push(update);
    }
    assert!(
        seen.len() > 9,
        "progress is streamed at every change: {}",
        seen.len()
    );
    let done = host.succeeded(operation).await;
    assert_eq!(seen.last(), Some(&done));

    let result = done.provision_result.expect("a result");
    let bindings = tenant.slot.bindings.clone().expect("bindings");
    assert_eq!(result.mac, bindings.management_mac);
    assert_eq!(result.actual_ip, bindings.private_ip);
    assert_eq!(
        (result.lease_state.as_str(), result.ssh_ready),
        ("bound", true)
    );
    assert_eq!(result.image_digest, image.digest);
    assert!(result.ssh_host_keys[0].starts_with("ssh-ed25519 "));
    let login = host.ssh(
        &tenant,
        "id -un; hostname; printf secret-of-a-%s tenant | dd of=/dev/vda bs=1M seek=100; sync",
    );
    let login = login.expect("ssh");
    assert_eq!(
        String::from_utf8_lossy(&login.stdout),
        format!("{USER}\nguest\n"),
        "{login:?}"
    );
    assert_eq!(host.occurrences(0, b"secret-of-a-tenant"), 1);
    a_68_its_port_is_the_slots(&host, &tenant);
    d_90_it_is_measured(&host, &tenant).await;

    // the same call again is the same operation; another one under its id is refused
    let again = host.provision_request(&tenant, operation, image.clone());
    assert_eq!(
        host.vms()
            .provision(again.clone())
            .await
            .expect("again")
            .into_inner()
            .operation_id,
        done.operation_id
    );
    let other = pb::ProvisionRequest {
        hostname: "other".to_owned(),
        ..again
    };
    let refused =
        gpuaas_common::Error::from(host.vms().provision(other).await.expect_err("a conflict"));
    assert_eq!(refused.reason(), ErrorReason::OperationConflict);

    let released = host.succeeded(host.release(&tenant).await).await;
    let stop = &released.steps[0];
    assert_eq!(stop.message, "the guest shut down", "graceful first");
    let evidence = &released.wipe_evidence[0];
    assert_eq!(evidence.verified_bytes, bindings.nvme_bytes);
    assert!(evidence.no_signatures);
    assert_eq!(evidence.token, tenant.slot.token);
    assert_eq!(host.occurrences(0, b"secret-of-a-tenant"), 0);
    assert!(host.is_empty(0));
    host.assert_no_residue().await;
    assert_eq!(host.holds().await.holds, []);
}

/// The port of a VM on the switch has the identity that was proposed and approved with its slot.
fn a_68_its_port_is_the_slots(host: &LabHost, tenant: &Tenant) {
    let bindings = tenant.slot.bindings.as_ref().expect("bindings");
    let mac: Mac = bindings.management_mac.parse().expect("a MAC");
    let port = AllocationId(tenant.allocation).port_name();
    let ask = ["get", "Interface", port.as_str(), "external_ids:iface-id"];
    let reported = host.lab.exec("ovs-vsctl", &ask).expect("its port");
    assert_eq!(
        reported.trim().trim_matches('"'),
        mac.ovs_interface_id().to_string()
    );
}

/// CPU, network and disk are those of the real VM, memory is what its guest says, and there is no GPU.
async fn d_90_it_is_measured(host: &LabHost, tenant: &Tenant) {
    let measured = until("metrics of the VM", async || {
        let at = |time: SystemTime| Some(prost_types::Timestamp::from(time));
        let now = SystemTime::now();
        let request = pb::ReadMetricsRequest {
            allocation_id: tenant.allocation.to_string(),
            start_time: at(now - Duration::from_secs(600)),
            end_time: at(now + Duration::from_secs(60)),
            step_seconds: 1,
        };
        let read = host.vms().read_metrics(request).await.expect("metrics");
        let read = read.into_inner();
        (read.guest_state() == GuestMetricsState::NoGpuTool && read.series.len() == 7)
            .then_some(read)
    })
    .await;
    let most = |metric| {
        let series = measured.series.iter().find(|one| one.metric() == metric);
        let points = series.expect("a series").points.iter();
        points.map(|point| point.value).fold(0.0, f64::max)
    };
    assert!(most(VmMetric::CpuPercent) > 0.0, "{measured:?}");
    // the login itself goes both ways
    assert!(most(VmMetric::NetworkReceivedBytesPerSecond) > 0.0);
    assert!(most(VmMetric::NetworkSentBytesPerSecond) > 0.0);
    let (used, total) = (
        most(VmMetric::MemoryUsedBytes),
        most(VmMetric::MemoryTotalBytes),
    );
    assert!(used > 0.0 && used < total, "{measured:?}");
}

/// The caller names approved slots; what they are on this host, the host finds out and proves before it leases anything.
/// D-01, D-02, D-05: approved slots in, a concrete plan out, before anything is made.
async fn b_16_b_19_the_host_plans_a_bundle_of_approved_slots_and_leases_what_it_has_proved() {
    let host = LabHost::get().await;
    let slot = host.slot(0, 5).await;
    let bindings = slot.bindings.clone().expect("bindings");
    let mut elsewhere = slot.clone();
    if let Some(bindings) = &mut elsewhere.bindings {
        bindings.nvme_device = format!("lab-disk:{}", Uuid::now_v7());
    }
    let allocation = Uuid::now_v7();
    let refused = host
        .acquire(allocation, &elsewhere, pb::LeasePurpose::Provision)
        .await;
    assert_eq!(
        refused.expect_err("no such disk").reason(),
        ErrorReason::DeviceMissing
    );
    assert_eq!(host.holds().await.holds, [], "nothing was leased");

    let leased = host
        .acquire(allocation, &slot, pb::LeasePurpose::Provision)
        .await
        .expect("a lease");
    let plan = leased.plan.expect("a plan");
    assert_eq!(
        (&plan.mac, &plan.private_ip),
        (&bindings.management_mac, &bindings.private_ip)
    );
    let [disk] = plan.disks.as_slice() else {
        panic!("one slot has one disk: {:?}", plan.disks);
    };
    assert_eq!(
        (&disk.slot_id, disk.bytes),
        (&slot.slot_id, bindings.nvme_bytes)
    );
    // not what the caller sent, but what that is here
    assert!(disk.block_device.starts_with("/dev/"), "{disk:?}");
    assert!(
        std::path::Path::new(&disk.block_device).exists(),
        "{disk:?}"
    );
    assert_eq!(host.holds().await.holds.len(), 1);
}

async fn d_08_leases_are_fenced_and_operations_need_them() {
    let host = LabHost::get().await;
    let tenant = host.tenant(0, 5).await;
    let refusal = |result: Result<pb::AcquireLeaseResponse, gpuaas_common::Error>| {
        result.expect_err("refused").reason()
    };

    let foreign = pb::SlotGrant {
        token: Some(pb::FencingToken {
            cell_epoch: 9,
            slot_generation: host.generation(9),
            workflow_epoch: 9,
        }),
        ..tenant.slot.clone()
    };
    let held = host
        .acquire(Uuid::now_v7(), &foreign, pb::LeasePurpose::Provision)
        .await;
    assert_eq!(refusal(held), ErrorReason::LeaseHeld);
    let old = pb::SlotGrant {
        token: Some(pb::FencingToken {
            cell_epoch: 1,
            slot_generation: host.generation(4),
            workflow_epoch: 9,
        }),
        ..tenant.slot.clone()
    };
    assert_eq!(
        refusal(
            host.acquire(tenant.allocation, &old, pb::LeasePurpose::Release)
                .await
        ),
        ErrorReason::Fenced
    );
    let same = host
        .acquire(tenant.allocation, &tenant.slot, pb::LeasePurpose::Provision)
        .await
        .expect("the same");
    assert_eq!(same.lease.expect("lease").lease_id, tenant.lease);

    let ended = pb::ReleaseLeaseRequest {
        lease_id: tenant.lease.clone(),
        allocation_id: tenant.allocation.to_string(),
        tokens: vec![pb::SlotToken {
            slot_id: tenant.slot.slot_id.clone(),
            token: tenant.slot.token,
        }],
    };
    let unproven = pb::ReleaseLeaseRequest {
        tokens: Vec::new(),
        ..ended.clone()
    };
    let refused = host.leases().release_lease(unproven).await;
    assert_eq!(
        gpuaas_common::Error::from(refused.expect_err("no token")).reason(),
        ErrorReason::FieldInvalid
    );
    host.leases()
        .release_lease(ended.clone())
        .await
        .expect("release");
    host.leases()
        .release_lease(ended)
        .await
        .expect("release again");
    let image = host.image("lab-mini").await;
    let request = host.provision_request(&tenant, Uuid::now_v7(), image);
    let refused =
        gpuaas_common::Error::from(host.vms().provision(request).await.expect_err("no lease"));
    assert_eq!(refused.reason(), ErrorReason::LeaseRequired);
    assert_eq!(host.holds().await.holds.len(), 1, "the hold stays");

    let unknown = pb::GetOperationRequest {
        operation_id: Uuid::now_v7().to_string(),
    };
    let refused = gpuaas_common::Error::from(
        host.vms()
            .get_operation(unknown)
            .await
            .expect_err("unknown"),
    );
    assert_eq!(refused.reason(), ErrorReason::OperationNotFound);
}

async fn d_71_a_release_stops_a_provision_that_still_runs() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini-dead").await;
    let tenant = host.tenant(0, 1).await;
    let provision = host.provision(&tenant, image).await;
    until("the guest to be awaited", async || {
        let request = pb::GetOperationRequest {
            operation_id: provision.to_string(),
        };
        let now = host.vms().get_operation(request).await.ok()?.into_inner();
        (now.steps[7].state() == pb::StepState::Running).then_some(())
    })
    .await;
    let release = host.release(&tenant).await;
    let failure = host.failed(provision).await;
    assert_eq!(failure.reason, "STATE_CONFLICT");
    assert!(failure.host_clean);
    host.succeeded(release).await;
    host.assert_no_residue().await;
    assert_eq!(host.holds().await.holds, []);
}

async fn p5_a_restart_of_libvirtd_breaks_neither_a_guest_nor_its_release() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let tenant = host.tenant(0, 1).await;
    host.succeeded(host.provision(&tenant, image).await).await;
    let pid = host
        .lab
        .exec("cat", &["/run/libvirt/libvirtd.pid"])
        .expect("pid");
    host.lab
        .exec("kill", &["-9", pid.trim()])
        .expect("kill libvirtd");
    let release = host.release(&tenant).await;
    host.lab
        .exec("libvirtd", &["-d", "-p", "/run/libvirt/libvirtd.pid"])
        .expect("libvirtd");
    host.succeeded(release).await;
    host.assert_no_residue().await;
}
