//! Parts of a host are killed while an operation is in each of its steps, and started again as systemd would: libvirtd, the VM's
//! own QEMU, dnsmasq, the switch. An agent stands still beyond its lease; the way to the control plane is gone for a while. After
//! each, journal, hypervisor and host agree and nothing is left over.
//!
//! `make test-host` has one step of each operation per part; with `GPUAAS_EVERY_STEP` set, as in `make test-chaos`, it is every one.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gpuaas_agent::ids::AllocationId;
use gpuaas_agent::journal::Kind;
use gpuaas_agent::operation::steps_of;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_tests::hold::Hold;
use gpuaas_tests::parts::{Part, every_step};
use gpuaas_tests::runner::{Case, Place};
use nix::sys::signal::Signal;
use uuid::Uuid;

use super::host::{LabHost, Tenant, until};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    // some fifteen slices in place of two
    let factor = if every_step() { 8 } else { 1 };
    gpuaas_tests::cases![Place::Host;
        p5_libvirtd_is_killed_in_a_step: 20 * factor,
        p5_the_vm_is_killed_in_a_step: 20 * factor,
        p5_dnsmasq_is_killed_in_a_step: 15 * factor,
        p5_the_switch_is_killed_in_a_step: 15 * factor,
        p5_libvirtd_is_killed_in_a_repair: 20 * factor,
        p5_the_vm_is_killed_in_a_repair: 20 * factor,
        p5_dnsmasq_is_killed_in_a_repair: 15 * factor,
        p5_the_switch_is_killed_in_a_repair: 20 * factor,
        d_10_an_agent_that_stood_still_beyond_its_lease_goes_on_and_is_fenced: 15,
        p5_a_host_that_is_cut_off_ends_its_work: 15,
    ]
}

/// Most tries of a release: each may meet one part that is gone.
const TRIES: usize = 8;

/// The steps in which a part is killed.
fn steps_of_kills(part: Part, kind: Kind) -> VecDeque<&'static str> {
    if every_step() {
        return steps_of(kind).iter().map(|step| step.name).collect();
    }
    let one = match (part, kind) {
        // the clean-up before it has ended the VM
        (Part::Qemu, Kind::RepairSlot) => return VecDeque::new(),
        (Part::Libvirt, Kind::Provision) => "define",
        (Part::Libvirt, Kind::RepairSlot) => "prove_disk",
        (Part::Libvirt, _) => "undefine",
        (Part::Qemu, Kind::Provision) => "wait_login",
        (Part::Dhcp, Kind::Provision) => "reserve_address",
        (Part::Switch, Kind::Provision) => "start",
        (Part::Dhcp, _) | (Part::Switch, Kind::CleanUp | Kind::RepairSlot) => "remove_reservation",
        (Part::Qemu | Part::Switch, _) => "stop",
    };
    VecDeque::from([one])
}

/// Waits until the agent stays there; whether it does, or the operation ended before.
async fn held(host: &LabHost, hold: &Hold<'_>, operation: Uuid) -> bool {
    until(&format!("the agent before {}", hold.step), async || {
        if hold.is_held() {
            return Some(true);
        }
        let request = pb::GetOperationRequest {
            operation_id: operation.to_string(),
        };
        let now = host.vms().get_operation(request).await.ok()?;
        let has_ended = now.into_inner().state() != pb::OperationState::Running;
        // it may have come here and on between the two
        (has_ended && !hold.is_held()).then_some(false)
    })
    .await
}

/// Kills the part in each of these steps of one operation, as far as it comes. What is left then is for the next one.
async fn through(
    part: Part,
    host: &LabHost,
    tenant: &Tenant,
    left: &mut VecDeque<&'static str>,
    first: Hold<'_>,
    operation: Uuid,
) -> pb::HostOperation {
    let mut hold = Some(first);
    while let Some(now) = hold.take() {
        if !held(host, &now, operation).await {
            left.push_front(now.step);
            now.take_back();
            break;
        }
        let vm = AllocationId(tenant.allocation).vm_name();
        let killed = part.kill(&host.lab, vm.as_str()).await;
        println!("{part:?} before {}: killed {}", now.step, killed.is_some());
        // the order of the next stop first: the agent goes on at once
        let next = left.pop_front().map(|step| Hold::order(&host.lab, step));
        now.let_go();
        if let Some(killed) = killed {
            killed.start(&host.lab);
        }
        hold = next;
    }
    let ended = host.ended(operation).await;
    if let Some(failure) = &ended.failure {
        println!(
            "{part:?}: {} in {}: {}",
            failure.reason, failure.step, failure.message
        );
        assert!(
            !failure.reason.is_empty() && failure.reason != "INTERNAL",
            "{failure:?}"
        );
    }
    ended
}

async fn killed_in_its_steps(part: Part) {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let (mut up, mut down) = (
        steps_of_kills(part, Kind::Provision),
        steps_of_kills(part, Kind::Release),
    );
    let mut generation = 1;
    while !up.is_empty() || !down.is_empty() {
        let begun = (up.len(), down.len());
        let mut tenant = host.tenant(0, generation).await;
        generation += 1;
        let first = up.pop_front().map(|step| Hold::order(&host.lab, step));
        let operation = host.provision(&tenant, image.clone()).await;
        let provisioned = match first {
            Some(first) => through(part, &host, &tenant, &mut up, first, operation).await,
            None => host.ended(operation).await,
        };
        let is_up = provisioned.state() == pb::OperationState::Succeeded;
        if is_up && part != Part::Qemu {
            until("a login", async || {
                let login = host.ssh(&tenant, "true").ok()?;
                login.status.success().then_some(())
            })
            .await;
        }
        // a release of a VM that never ran is no proof
        let mut none = VecDeque::new();
        let steps = if is_up { &mut down } else { &mut none };
        until_done(part, &host, &mut tenant, steps, async |tenant| {
            host.release(tenant).await
        })
        .await;
        assert!((up.len(), down.len()) < begun, "no step was reached");
        host.wait_ready().await;
        assert!(host.is_empty(0), "the disk");
        host.assert_no_residue().await;
        assert_eq!(host.holds().await.holds, []);
    }
}

/// Has it done again until it succeeds, and kills the part in these steps on the way.
async fn until_done(
    part: Part,
    host: &LabHost,
    tenant: &mut Tenant,
    left: &mut VecDeque<&'static str>,
    begin: impl AsyncFn(&mut Tenant) -> Uuid,
) {
    for tries in 1.. {
        let first = left.pop_front().map(|step| Hold::order(&host.lab, step));
        let operation = begin(tenant).await;
        let ended = match first {
            Some(first) => through(part, host, tenant, left, first, operation).await,
            None => host.ended(operation).await,
        };
        if ended.state() == pb::OperationState::Succeeded {
            break;
        }
        assert!(tries < TRIES, "{ended:?}");
    }
}

/// What a launch left is cleaned up and its slot repaired, as by the workflow of a repair.
async fn killed_in_its_repair(part: Part) {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let (mut clean_up, mut repair) = (
        steps_of_kills(part, Kind::CleanUp),
        steps_of_kills(part, Kind::RepairSlot),
    );
    let mut generation = 1;
    while !clean_up.is_empty() || !repair.is_empty() {
        let begun = (clean_up.len(), repair.len());
        let mut tenant = host.tenant(0, generation).await;
        // each repair raises it once
        generation += 1 + TRIES as u64;
        let provisioned = host.provision(&tenant, image.clone()).await;
        host.succeeded(provisioned).await;
        until_done(part, &host, &mut tenant, &mut clean_up, async |tenant| {
            host.clean_up(tenant).await
        })
        .await;
        assert_eq!(host.holds().await.holds.len(), 1, "the slot is held");
        until_done(part, &host, &mut tenant, &mut repair, async |tenant| {
            host.repair(tenant).await
        })
        .await;
        assert!(
            (clean_up.len(), repair.len()) < begun,
            "no step was reached"
        );
        host.wait_ready().await;
        assert!(host.is_empty(0), "the disk");
        host.assert_no_residue().await;
        assert_eq!(host.holds().await.holds, []);
    }
}

async fn p5_libvirtd_is_killed_in_a_repair() {
    killed_in_its_repair(Part::Libvirt).await;
}

async fn p5_the_vm_is_killed_in_a_repair() {
    killed_in_its_repair(Part::Qemu).await;
}

async fn p5_dnsmasq_is_killed_in_a_repair() {
    killed_in_its_repair(Part::Dhcp).await;
}

async fn p5_the_switch_is_killed_in_a_repair() {
    killed_in_its_repair(Part::Switch).await;
}

async fn p5_libvirtd_is_killed_in_a_step() {
    killed_in_its_steps(Part::Libvirt).await;
}

async fn p5_the_vm_is_killed_in_a_step() {
    killed_in_its_steps(Part::Qemu).await;
}

async fn p5_dnsmasq_is_killed_in_a_step() {
    killed_in_its_steps(Part::Dhcp).await;
}

async fn p5_the_switch_is_killed_in_a_step() {
    killed_in_its_steps(Part::Switch).await;
}

async fn d_10_an_agent_that_stood_still_beyond_its_lease_goes_on_and_is_fenced() {
    /// The shortest lease that a host grants.
    const SHORTEST: Duration = Duration::from_secs(5);
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let slot = host.slot(0, 1).await;
    let allocation = Uuid::now_v7();
    // everything else first: the lease must live until the operation has begun
    let hold = Hold::order(&host.lab, "seed");
    let granted = host
        .acquire_for(allocation, &slot, pb::LeasePurpose::Provision, SHORTEST)
        .await
        .expect("a lease");
    let mut tenant = Tenant {
        allocation,
        slot,
        lease: granted.lease.expect("a lease").lease_id,
    };
    let begun = Instant::now();
    let operation = host.provision(&tenant, image).await;
    assert!(held(&host, &hold, operation).await);
    let agent = host.lab.agent_process().expect("an agent");
    agent.signal(Signal::SIGSTOP);
    hold.let_go();
    until("the lease to end", async || {
        (begun.elapsed() > SHORTEST + Duration::from_secs(1)).then_some(())
    })
    .await;
    agent.signal(Signal::SIGCONT);

    // what was begun under the lease ends; nothing more begins under it
    let (mut leases, mut vms) = (host.leases(), host.vms());
    let renewed = leases.renew_lease(pb::RenewLeaseRequest {
        lease_id: tenant.lease.clone(),
        tokens: vec![pb::SlotToken {
            slot_id: tenant.slot.slot_id.clone(),
            token: tenant.slot.token,
        }],
        ..pb::RenewLeaseRequest::default()
    });
    let expired = |status| gpuaas_common::Error::from(status).reason();
    let refused = expired(renewed.await.expect_err("it has ended"));
    assert_eq!(refused, ErrorReason::LeaseExpired);
    host.succeeded(operation).await;
    let stop = vms.stop(pb::PowerRequest {
        operation_id: Uuid::now_v7().to_string(),
        lease_id: tenant.lease.clone(),
        allocation_id: tenant.allocation.to_string(),
        ..pb::PowerRequest::default()
    });
    let refused = expired(stop.await.expect_err("it has ended"));
    assert_eq!(refused, ErrorReason::LeaseExpired);

    // the worker that took over; the one that slept comes back
    let late = tenant.slot.clone();
    if let Some(token) = &mut tenant.slot.token {
        token.workflow_epoch += 1;
    }
    let release = host.release(&tenant).await;
    let refused = host
        .acquire(allocation, &late, pb::LeasePurpose::Release)
        .await;
    assert_eq!(refused.expect_err("late").reason(), ErrorReason::Fenced);
    host.succeeded(release).await;
    assert!(host.is_empty(0));
    host.assert_no_residue().await;
    assert_eq!(host.holds().await.holds, []);
}

async fn p5_a_host_that_is_cut_off_ends_its_work() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let tenant = host.tenant(0, 1).await;
    let hold = Hold::order(&host.lab, "clone");
    let operation = host.provision(&tenant, image).await;
    cut_off(&host, hold, "detach_seed", operation).await;
    host.wait_ready().await;
    until("a login", async || {
        let login = host.ssh(&tenant, "true").ok()?;
        login.status.success().then_some(())
    })
    .await;
    let hold = Hold::order(&host.lab, "wipe");
    let operation = host.release(&tenant).await;
    cut_off(&host, hold, "reset_devices", operation).await;
    host.wait_ready().await;
    assert!(host.is_empty(0));
    host.assert_no_residue().await;
    assert_eq!(host.holds().await.holds, []);
}

/// Cuts the host off while its operation is held, until it comes to a step that is near its end.
async fn cut_off(host: &LabHost, hold: Hold<'_>, late: &'static str, operation: Uuid) {
    assert!(held(host, &hold, operation).await);
    host.lab.join_network(false).expect("the link");
    let last = Hold::order(&host.lab, late);
    hold.let_go();
    // nobody can ask it: that it got there is seen on the host itself
    until(late, async || last.is_held().then_some(())).await;
    host.lab.join_network(true).expect("the link");
    last.let_go();
    host.succeeded(operation).await;
}
