//! Every step and every host step failing in turn; what is left, and how it is repaired.

use gpuaas_agent::journal::Kind;
use gpuaas_placement::model::{Health, SlotStatus};
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::expect::{host_steps, step_names, timeline};
use crate::host::DISK_BYTES;
use crate::world::World;
use uuid::Uuid;

/// Launches, and returns when the allocation is active and nothing works on it.
async fn running(world: &World, name: &str) -> Uuid {
    let id = world.reserve(name).await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    id
}

/// Launches what fails, and returns when nothing works on it.
async fn failed(world: &World) -> Uuid {
    let id = world.reserve("web").await;
    world.until_state(id, "failed").await;
    world.until_idle(id).await;
    id
}

/// Releases, and returns when nothing works on the allocation.
async fn released(world: &World, id: Uuid) {
    world.release(id).await;
    world.until_state(id, "released").await;
    world.until_idle(id).await;
}

/// Repairs a slot, and returns when nothing works on it.
async fn repaired(world: &World, slot_id: Uuid) {
    world.repair(slot_id).await;
    world.until_idle(slot_id).await;
}

#[tokio::test]
async fn c_07_every_step_failing_in_turn_leaves_nothing_behind() {
    for step in step_names("provision", false) {
        let world = World::start().await;
        world.overdue_at(step).await;
        let runner = world.runner(World::config());
        let id = world.reserve("web").await;
        let survives = matches!(step, "report_image" | "release_lease");
        world
            .until_state(id, if survives { "active" } else { "failed" })
            .await;
        world.until_idle(id).await;
        if survives {
            assert_eq!(world.periods(id).await, (1, 1), "{step}");
            runner.stop().await;
            continue;
        }
        let failure = world.allocation(id).await.failure.expect("a reason").0;
        assert_eq!(failure.reason, "DEADLINE_EXCEEDED", "{step}");
        assert_eq!(failure.step, format!("provision.{step}"));
        assert!(
            !failure.message.is_empty() && !failure.advice.is_empty(),
            "{step}"
        );
        assert_eq!(
            world.periods(id).await,
            (0, 0),
            "g_10: {step} is not billed"
        );
        let slot = world.slot_of(id).await;
        // the host keeps its hold until a repair proves the disk empty; before the first call it has none
        let touched = !matches!(step, "begin");
        if touched && !matches!(step, "acquire_lease") {
            assert_eq!(
                (slot.status, slot.health_state),
                (SlotStatus::CleanupBlocked, Health::Failed),
                "{step}"
            );
            world.host_is_clean(true, step).await;
        } else {
            assert_eq!(slot.status, SlotStatus::Available, "{step}");
            assert!(
                slot.clean_evidence
                    .expect("evidence")
                    .starts_with("untouched"),
                "{step}"
            );
            world.host_is_clean(false, step).await;
        }
        runner.stop().await;
    }
}

#[tokio::test]
async fn inc_14_every_failure_of_the_host_gives_a_reason_and_keeps_the_slot() {
    for step in host_steps(Kind::Provision) {
        let world = World::start().await;
        let (reason, class) = match step {
            "wait_login" => (ErrorReason::GuestNoLogin, FailureClass::Guest),
            "wait_address" => (ErrorReason::GuestNoAddress, FailureClass::Guest),
            "prove_disk" => (ErrorReason::DiskUnsafe, FailureClass::Device),
            "verify_image" => (ErrorReason::ImagePullFailed, FailureClass::Host),
            _ => (ErrorReason::HypervisorFailed, FailureClass::Host),
        };
        world
            .host
            .script(|script| script.fail = Some(("provision", step, reason, class)));
        let runner = world.runner(World::config());
        let id = failed(&world).await;
        let failure = world.allocation(id).await.failure.expect("a reason").0;
        assert_eq!(
            failure.reason,
            gpuaas_common::error::reason_name(reason),
            "{step}"
        );
        assert_eq!(failure.step, format!("provision.{step}"));
        if step == "wait_login" {
            assert!(
                failure.message.contains("30 seconds"),
                "c_05: {}",
                failure.message
            );
            assert!(
                failure.advice.contains("another image"),
                "c_05: {}",
                failure.advice
            );
        }
        let slot = world.slot_of(id).await;
        assert_eq!(
            (slot.status, slot.health_state),
            (SlotStatus::CleanupBlocked, Health::Failed),
            "{step}"
        );
        assert!(
            slot.health_detail.contains(&failure.reason),
            "{step}: {}",
            slot.health_detail
        );
        assert_eq!(world.periods(id).await, (0, 0), "g_10: {step}");
        world.host_is_clean(true, step).await;
        world.nothing_runs(id, step).await;
        let entries = timeline(&world, id).await;
        assert!(
            entries.iter().all(|(_, _, state)| state != "running"),
            "{step}: {entries:?}"
        );
        assert!(entries.iter().any(|(_, reported, state)| *reported
            == format!("provision.{step}")
            && state == "failed"));

        // con_25: a repair with fresh proof is the way back
        world.host.script(|script| script.fail = None);
        repaired(&world, slot.id).await;
        let repaired = world.slot_of(id).await;
        assert_eq!(
            (repaired.status, repaired.health_state),
            (SlotStatus::Available, Health::Healthy),
            "{step}"
        );
        assert!(repaired.generation > slot.generation);
        world.host_is_clean(false, step).await;
        runner.stop().await;
    }
}

#[tokio::test]
async fn c_05_a_step_whose_time_is_over_gives_the_reason_of_its_last_attempt() {
    let world = World::start().await;
    world.overdue_at_second_attempt("acquire_lease").await;
    world.host_gone().await;
    let runner = world.runner(World::config());
    let id = world.reserve("web").await;
    let turned = "SELECT coalesce(bool_or(direction = 'undo'), false) FROM workflows WHERE allocation_id = $1";
    world.until("the workflow to turn round", turned, id).await;
    world.host_up().await;
    world.until_state(id, "failed").await;
    let failure = world.allocation(id).await.failure.expect("a reason").0;
    assert_eq!(failure.reason, "HOST_UNREACHABLE", "{}", failure.message);
    assert_eq!(failure.step, "provision.acquire_lease");
    runner.stop().await;
}

/// C-04
#[tokio::test]
async fn inc_41_a_vm_that_nobody_can_log_in_to_is_never_active() {
    let world = World::start().await;
    world.host.script(|script| script.no_login = true);
    let runner = world.runner(World::config());
    let id = world.reserve_of("web", 1).await;
    world.until_state(id, "failed").await;
    world.until_idle(id).await;
    assert_eq!(
        world
            .allocation(id)
            .await
            .failure
            .expect("a reason")
            .0
            .reason,
        "GUEST_NO_LOGIN"
    );
    world.host_is_clean(true, "cleaned up").await;
    assert_eq!(world.periods(id).await, (0, 0));
    runner.stop().await;
}

/// Somebody else answers at the VM's address and lets the host in, as a neighbour on the wire could.
#[tokio::test]
async fn p11_a_login_that_meets_another_host_key_fails_the_launch() {
    let world = World::start().await;
    world.host.script(|script| script.other_host_key = true);
    let runner = world.runner(World::config());
    let id = failed(&world).await;
    let allocation = world.allocation(id).await;
    let failure = allocation.failure.expect("a reason").0;
    assert_eq!(failure.reason, "HOST_KEY_MISMATCH", "{}", failure.message);
    assert_eq!(failure.step, "provision.wait_login");
    assert!(failure.message.contains("host key"), "{}", failure.message);
    assert!(allocation.access.is_none(), "no key is learned");
    assert_eq!(world.periods(id).await, (0, 0));
    world.host_is_clean(true, "cleaned up").await;
    runner.stop().await;
}

#[tokio::test]
async fn c_07_a_refused_lease_frees_the_slot_unless_the_refusal_is_about_the_slot() {
    for (reason, status) in [
        (ErrorReason::HostNotReady, SlotStatus::Available),
        (ErrorReason::DiskUnsafe, SlotStatus::CleanupBlocked),
        (ErrorReason::LeaseHeld, SlotStatus::CleanupBlocked),
    ] {
        let world = World::start().await;
        match reason {
            ErrorReason::HostNotReady => world.host.end_dnsmasq(),
            ErrorReason::DiskUnsafe => world.host.sign_disk(0),
            _ => {
                let token = (1, 1, 1);
                let other = world.acquire_on_host(Uuid::now_v7(), token);
                other.await.expect("a lease for somebody else");
            }
        }
        let before = world.host.state().await;
        let runner = world.runner(World::config());
        let id = failed(&world).await;
        assert_eq!(world.slot_of(id).await.status, status, "{reason:?}");
        let failure = world.allocation(id).await.failure.expect("a reason").0;
        assert_eq!(failure.reason, gpuaas_common::error::reason_name(reason));
        let after = world.host.state().await;
        assert_eq!(after.holds, before.holds, "{reason:?}");
        assert_eq!(after.leases, before.leases, "{reason:?}");
        assert!(after.domains.is_empty() && after.reservations.is_empty());
        runner.stop().await;
    }
}

/// Why a wipe proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unproven {
    /// The disk is as it was, and the host sees that.
    Lie,
    /// The host says so.
    Failure,
    /// The host reads back less than the control plane asks for.
    Samples,
}

/// C-08
#[tokio::test]
async fn c_11_a_wipe_that_is_not_proven_keeps_the_slot_and_frees_the_user() {
    for why in [Unproven::Lie, Unproven::Failure, Unproven::Samples] {
        let world = World::start().await;
        let runner = world.runner(World::config());
        let id = running(&world, "web").await;
        world.host.script(|script| {
            let reason = ErrorReason::WipeNotProven;
            script.lie = why == Unproven::Lie;
            script.fail = (why == Unproven::Failure).then_some((
                "release",
                "verify_wipe",
                reason,
                FailureClass::Device,
            ));
        });
        let reads_back = async |bytes| {
            world.host_gone().await;
            world.host.verify_whole_up_to(bytes);
            world.host_up().await;
        };
        if why == Unproven::Samples {
            reads_back(0).await;
        }
        released(&world, id).await;
        let slot = world.slot_of(id).await;
        assert_eq!(
            (slot.status, slot.health_state),
            (SlotStatus::CleanupBlocked, Health::Failed),
            "{why:?}"
        );
        assert!(
            slot.health_detail.contains("WIPE_NOT_PROVEN"),
            "{why:?}: {}",
            slot.health_detail
        );
        assert_eq!(world.periods(id).await, (1, 0));
        let dirty = world.host.state().await.dirty;
        assert_eq!(dirty.is_empty(), why != Unproven::Lie, "{why:?}");
        // a repair that proves nothing either changes nothing
        world.host.script(|script| {
            script.lie = why != Unproven::Samples;
            script.fail = (why == Unproven::Failure).then_some((
                "repair_slot",
                "verify_wipe",
                ErrorReason::WipeNotProven,
                FailureClass::Device,
            ));
        });
        repaired(&world, slot.id).await;
        assert_eq!(
            world.slot_of(id).await.status,
            SlotStatus::CleanupBlocked,
            "{why:?}"
        );
        world.host.script(|script| {
            script.lie = false;
            script.fail = None;
        });
        if why == Unproven::Samples {
            reads_back(DISK_BYTES).await;
        }
        repaired(&world, slot.id).await;
        assert_eq!(
            world.slot_of(id).await.status,
            SlotStatus::Available,
            "{why:?}"
        );
        assert!(world.host.state().await.dirty.is_empty(), "{why:?}");
        world.host_is_clean(false, "repaired").await;
        runner.stop().await;
    }
}

/// The slot of a GPU that cannot be reset is blocked with the reason; its neighbours are not, and the disk is wiped once.
#[tokio::test]
async fn p2_a_device_that_cannot_be_reset_blocks_its_slot_and_no_neighbour() {
    let world = World::start().await;
    let runner = world.runner(World::config());
    let id = running(&world, "web").await;
    let fails_in = |kind: &'static str| {
        world.host.script(|script| {
            let (reason, class) = (ErrorReason::DeviceResetFailed, FailureClass::Device);
            script.fail = Some((kind, "reset_devices", reason, class));
        });
    };
    fails_in("release");
    released(&world, id).await;
    let slot = world.slot_of(id).await;
    assert_eq!(
        (slot.status, slot.health_state),
        (SlotStatus::CleanupBlocked, Health::Failed)
    );
    let detail = "release failed at release.reset_devices: DEVICE_RESET_FAILED: ";
    assert!(
        slot.health_detail.starts_with(detail),
        "{}",
        slot.health_detail
    );
    let mut wipes = 0;
    world.host.script(|script| wipes = script.noted.len());
    assert_eq!(wipes, 1);
    let reported = timeline(&world, id).await;
    let of_wipe = |(_, step, _): &&(i64, String, String)| step == "release.wipe";
    assert_eq!(reported.iter().filter(of_wipe).count(), 1, "{reported:?}");

    // the neighbour is launched on, and released
    let next = running(&world, "next").await;
    assert_ne!(world.slot_of(next).await.id, slot.id);
    world.host.script(|script| script.fail = None);
    released(&world, next).await;
    assert_eq!(world.slot_of(next).await.status, SlotStatus::Available);
    assert_eq!(
        world.slot_of(id).await.status,
        SlotStatus::CleanupBlocked,
        "nothing but its repair makes it schedulable"
    );

    fails_in("repair_slot");
    repaired(&world, slot.id).await;
    let blocked = world.slot_of(id).await;
    assert_eq!(blocked.status, SlotStatus::CleanupBlocked);
    assert!(
        blocked.health_detail.contains("repair.reset_devices"),
        "{}",
        blocked.health_detail
    );
    world.host.script(|script| script.fail = None);
    repaired(&world, slot.id).await;
    let repaired = world.slot_of(id).await;
    assert_eq!(
        (repaired.status, repaired.health_state),
        (SlotStatus::Available, Health::Healthy)
    );
    world.host_is_clean(false, "repaired").await;
    runner.stop().await;
}
