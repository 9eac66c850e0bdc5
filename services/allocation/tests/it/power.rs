//! Stop, start and reboot through the API and on a host.

use gpuaas_common::Error;
use gpuaas_placement::model::SlotStatus;
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::PowerState;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::expect::{step_names, timeline};
use crate::platform::{Platform, good};
use crate::world::{World, assert_of_projects};

async fn active(platform: &Platform) -> Uuid {
    let created = platform.create(good("web"), "create").await;
    let id = created.expect("created").id.parse().expect("a uuid");
    platform.world.until_state(id, "active").await;
    platform.world.until_idle(id).await;
    id
}

async fn ask(
    platform: &Platform,
    id: Uuid,
    verb: &str,
    key: &str,
) -> Result<pb::Allocation, Error> {
    let (mut users, allocation_id) = (platform.users.clone(), id.to_string());
    let force = verb.starts_with("forced ");
    let answer = match verb.trim_start_matches("forced ") {
        "stop" => {
            let request = pb::StopAllocationRequest {
                allocation_id,
                force,
            };
            users
                .stop_allocation(platform.user(request, Some(key)))
                .await
        }
        "start" => {
            let request = pb::StartAllocationRequest { allocation_id };
            users
                .start_allocation(platform.user(request, Some(key)))
                .await
        }
        _ => {
            let request = pb::RebootAllocationRequest {
                allocation_id,
                force,
            };
            users
                .reboot_allocation(platform.user(request, Some(key)))
                .await
        }
    };
    answer.map(tonic::Response::into_inner).map_err(Error::from)
}

async fn status(platform: &Platform, id: Uuid) -> pb::AllocationStatus {
    platform
        .get(&id.to_string())
        .await
        .status
        .expect("a status")
}

/// Asks and waits until the workflow has ended.
async fn done(platform: &Platform, id: Uuid, verb: &str, key: &str) -> pb::AllocationStatus {
    ask(platform, id, verb, key).await.expect("accepted");
    platform.world.until_idle(id).await;
    status(platform, id).await
}

/// Each VM is defined where the host says that its slot lies, at its launch and at each start.
#[tokio::test]
async fn d_47_a_vm_has_the_processors_and_memory_beside_its_slot() {
    let platform = Platform::of(
        World::with_sockets().await,
        gpuaas_scheduler::Config::default(),
        World::config(),
    )
    .await;
    let world = &platform.world;
    let id = active(&platform).await;
    let held = world.host.state().await.holds;
    let held = |slot: &Uuid| held.get(&slot.to_string()) == Some(&id.to_string());
    let index = world.slot_ids.iter().position(held);
    let (cpus, node, other) = match index.expect("one of the host's") % 2 {
        0 => ("0-31,64-95", 0, "32-63"),
        _ => ("32-63", 1, "0-31"),
    };
    let vm = status(&platform, id).await.vm;
    let is_there = |when: &str| {
        let xml = world.host.description(&vm).replace('\'', "\"");
        for part in [
            format!(r#"<vcpupin vcpu="0" cpuset="{cpus}"/>"#),
            format!(r#"<emulatorpin cpuset="{cpus}"/>"#),
            format!(r#"<memory mode="strict" nodeset="{node}"/>"#),
            format!(r#"<memnode cellid="0" mode="strict" nodeset="{node}"/>"#),
        ] {
            assert!(xml.contains(&part), "{when}: {part} in {xml}");
        }
        assert!(!xml.contains(&format!("cpuset=\"{other}")), "{when}: {xml}");
    };
    is_there("launched");
    done(&platform, id, "stop", "s1").await;
    done(&platform, id, "start", "s2").await;
    is_there("started");
}

#[tokio::test]
async fn an_allocation_is_stopped_started_and_rebooted() {
    let platform = Platform::start().await;
    let id = active(&platform).await;
    let first = status(&platform, id).await;
    let at_first = platform.world.host.boot_id(&first.vm).expect("it runs");
    assert_eq!(first.boot_id, at_first.to_string());
    let accepted = ask(&platform, id, "stop", "s1").await.expect("accepted");
    assert_eq!(
        accepted.status.expect("a status").power(),
        PowerState::Stopping
    );
    platform.world.until_idle(id).await;
    let stopped = status(&platform, id).await;
    assert_eq!(stopped.state(), pb::AllocationState::Active);
    assert_eq!(stopped.power(), PowerState::Stopped);
    assert_eq!(stopped.boot_id, "", "nothing runs");
    assert_eq!(stopped.access, first.access, "address and port are kept");
    assert!(
        stopped.billing.starts_with("Billed, "),
        "{}",
        stopped.billing
    );
    assert_eq!(platform.world.host.state().await.off.len(), 1);
    assert_eq!(platform.world.host.boot_id(&first.vm), None);
    assert_eq!(platform.world.slot_of(id).await.status, SlotStatus::Active);
    assert_eq!(platform.world.periods(id).await, (1, 1));

    let again = ask(&platform, id, "stop", "s1")
        .await
        .expect("the same call");
    assert_eq!(again.status.expect("a status").power(), PowerState::Stopped);
    let refused = ask(&platform, id, "stop", "s2").await.expect_err("stopped");
    assert_eq!(refused.reason(), ErrorReason::StateConflict);

    let started = done(&platform, id, "start", "s3").await;
    assert_eq!(started.power(), PowerState::Running);
    assert!(platform.world.host.state().await.off.is_empty());
    let rebooted = done(&platform, id, "reboot", "s4").await;
    assert_eq!(rebooted.power(), PowerState::Running);
    let boots = [&first.boot_id, &started.boot_id, &rebooted.boot_id];
    assert!(boots[0] != boots[1] && boots[1] != boots[2], "{boots:?}");
    assert_eq!(platform.world.periods(id).await, (1, 1), "one period");
    let reported: Vec<String> = timeline(&platform.world, id)
        .await
        .into_iter()
        .map(|(_, step, state)| format!("{step} {state}"))
        .collect();
    for wanted in [
        "stopping done",
        "stop.stop done",
        "stopped done",
        "start.wait_login done",
        "running done",
        "reboot.wait_login done",
    ] {
        assert!(
            reported.iter().any(|entry| entry == wanted),
            "{wanted}: {reported:?}"
        );
    }
    platform.world.nothing_runs(id, "after all").await;
    assert!(platform.world.host.state().await.leases.is_empty());
}

/// What the host did in the step that stops the VM, of each operation in turn.
async fn stops(platform: &Platform, id: Uuid) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT step->>'message'
           FROM node_tasks, jsonb_array_elements(output->'steps') AS step
          WHERE allocation_id = $1 AND step->>'name' = 'stop' ORDER BY node_tasks.created_at",
    )
    .bind(id)
    .fetch_all(&platform.world.pool)
    .await
    .expect("tasks")
}

/// D-71: a guest that hangs never answers its power button.
#[tokio::test]
async fn a_forced_stop_and_a_reset_do_not_ask_the_guest() {
    let platform = Platform::start().await;
    let id = active(&platform).await;
    let first = status(&platform, id).await;
    let reset = done(&platform, id, "forced reboot", "k1").await;
    assert_eq!(reset.power(), PowerState::Running);
    assert_ne!(reset.boot_id, first.boot_id, "the boot is proven anew");
    done(&platform, id, "reboot", "k2").await;
    let stopped = done(&platform, id, "forced stop", "k3").await;
    assert_eq!(stopped.power(), PowerState::Stopped);
    let hard = "the domain was stopped hard";
    assert_eq!(
        stops(&platform, id).await,
        [hard, "the guest shut down", hard]
    );
    let other = ask(&platform, id, "stop", "k3").await;
    assert_eq!(
        other.expect_err("another request").reason(),
        ErrorReason::IdempotencyKeyReused
    );
    let audited: Vec<bool> = sqlx::query_scalar(
        "SELECT (detail->>'force')::boolean FROM placement.audit
          WHERE action IN ('allocation.stop', 'allocation.reboot') ORDER BY id",
    )
    .fetch_all(&platform.world.owner)
    .await
    .expect("audit records");
    assert_eq!(audited, [true, false, true]);
    assert_of_projects(&platform.world.owner).await;
}

#[tokio::test]
async fn what_failed_ends_in_what_the_host_shows() {
    for (verb, step, reason, power, boot_known) in [
        (
            "stop",
            "stop",
            ErrorReason::HypervisorFailed,
            PowerState::Running,
            true,
        ),
        (
            "start",
            "prove_disk",
            ErrorReason::DiskUnsafe,
            PowerState::Stopped,
            false,
        ),
        (
            "start",
            "wait_login",
            ErrorReason::GuestNoLogin,
            PowerState::Running,
            false,
        ),
        (
            "reboot",
            "start",
            ErrorReason::HypervisorFailed,
            PowerState::Stopped,
            false,
        ),
    ] {
        let platform = Platform::start().await;
        let id = active(&platform).await;
        if verb == "start" {
            done(&platform, id, "stop", "first").await;
        }
        platform
            .world
            .host
            .script(|script| script.fail = Some((verb, step, reason, FailureClass::Host)));
        let failed = done(&platform, id, verb, "fails").await;
        assert_eq!(failed.power(), power, "{verb} {step}");
        assert_eq!(!failed.boot_id.is_empty(), boot_known, "{verb} {step}");
        let entries = timeline(&platform.world, id).await;
        let (_, last, state) = entries.last().expect("entries");
        assert_eq!(state, "failed", "{verb} {step}: {last}");
        platform.world.nothing_runs(id, step).await;
        assert_eq!(platform.world.periods(id).await, (1, 1));

        // it is not stuck: what was asked can be asked again, or the opposite
        platform.world.host.script(|script| script.fail = None);
        let next = if power == PowerState::Stopped {
            "start"
        } else {
            "reboot"
        };
        let well = done(&platform, id, next, "well").await;
        assert_eq!(well.power(), PowerState::Running, "{verb} {step}");
        platform
            .release(&id.to_string(), "end")
            .await
            .expect("released");
        platform.world.until_state(id, "released").await;
        platform.world.until_idle(id).await;
        platform.world.host_is_clean(false, step).await;
    }
}

#[tokio::test]
async fn p11_a_start_is_proven_by_the_recorded_host_key_alone() {
    let platform = Platform::start().await;
    let id = active(&platform).await;
    let recorded = platform
        .world
        .allocation(id)
        .await
        .access
        .expect("access")
        .0;
    assert_eq!(recorded.ssh_host_keys.len(), 1);
    platform
        .world
        .host
        .script(|script| script.other_host_key = true);
    let reported = done(&platform, id, "reboot", "meets another").await;
    assert_eq!(reported.boot_id, "", "nothing is proven");
    let entries = timeline(&platform.world, id).await;
    let (sequence, _, state) = entries.last().expect("entries");
    assert_eq!(state, "failed");
    let message: String = sqlx::query_scalar(
        "SELECT message FROM timeline WHERE allocation_id = $1 AND sequence = $2",
    )
    .bind(id)
    .bind(sequence)
    .fetch_one(&platform.world.pool)
    .await
    .expect("a message");
    assert!(message.contains("host key"), "{message}");
    platform
        .world
        .host
        .script(|script| script.other_host_key = false);
    let well = done(&platform, id, "reboot", "meets its guest").await;
    assert_ne!(well.boot_id, "");
    let access = platform
        .world
        .allocation(id)
        .await
        .access
        .expect("access")
        .0;
    assert_eq!(access, recorded);
}

#[tokio::test]
async fn a_guest_at_its_old_boot_proves_nothing() {
    let platform = Platform::start().await;
    let id = active(&platform).await;
    platform.world.host.script(|script| script.same_boot = true);
    let reported = done(&platform, id, "reboot", "r").await;
    assert_eq!(
        (reported.power(), reported.boot_id.as_str()),
        (PowerState::Running, "")
    );
    let entries = timeline(&platform.world, id).await;
    assert_eq!(
        entries.last().map(|(.., state)| state.as_str()),
        Some("failed")
    );
}

#[tokio::test]
async fn a_release_ends_a_change_of_power() {
    for (verb, step) in [("reboot", "wait_login"), ("start", "start")] {
        let platform = Platform::start().await;
        let id = active(&platform).await;
        if verb == "start" {
            done(&platform, id, "stop", "first").await;
        }
        platform
            .world
            .host
            .script(|script| script.stay = Some((verb, step)));
        ask(&platform, id, verb, "k").await.expect("accepted");
        platform
            .world
            .host
            .until("the operation", |state| state.count(verb) > 0)
            .await;
        platform
            .release(&id.to_string(), "end")
            .await
            .expect("released");
        platform.world.until_state(id, "released").await;
        platform.world.until_idle(id).await;
        platform.world.host_is_clean(false, verb).await;
        platform.world.nothing_runs(id, verb).await;
        assert_eq!(platform.world.periods(id).await, (1, 0));
    }
}

#[tokio::test]
async fn p5_every_step_of_power_whose_record_is_lost_is_run_again_with_one_effect() {
    for kind in ["stop", "reboot"] {
        for step in step_names(kind, false) {
            let world = World::start().await;
            let runner = world.runner(World::config());
            let id = world.reserve("web").await;
            world.until_state(id, "active").await;
            world.until_idle(id).await;
            world.lose_record_of(step).await;
            world.power(id, kind).await;
            world.until_idle(id).await;
            let row = world.allocation(id).await;
            let wanted = if kind == "stop" { "stopped" } else { "running" };
            assert_eq!(row.power.as_deref(), Some(wanted), "{kind}.{step}");
            let operations = world.host.state().await.count(kind);
            assert_eq!(operations, 1, "{kind}.{step}");
            world.nothing_runs(id, step).await;
            runner.stop().await;
        }
    }
}
