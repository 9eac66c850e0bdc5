//! Parts of a host are killed while a launch and a release are in their steps, and started again as systemd would: libvirtd, the
//! VM's own QEMU, dnsmasq, the switch. A launch ends active, with a guest that answers, or failed with a reason; after the
//! release, or the repair of the slot, ledger, host and hypervisor agree and nothing is left over.
//!
//! `make test-host` kills each part in a few steps; with `GPUAAS_EVERY_STEP` set, as in `make test-chaos`, in every one.
use std::collections::VecDeque;

use gpuaas_agent::ids::AllocationId;
use gpuaas_agent::journal::Kind;
use gpuaas_agent::operation::steps_of;
use gpuaas_tests::api::text;
use gpuaas_tests::parts::{Kill, Kills, Part, every_step};
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use serde_json::Value;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    let usual = if every_step() { 3600 } else { 120 };
    gpuaas_tests::cases![Place::System; p5_parts_are_killed_in_a_launch_and_a_release: usual]
}

/// What is killed in the launch and in the release of one allocation, in the order of the steps.
const ALLOCATIONS: [(&[Kill], &[Kill]); 3] = [
    (
        &[
            (Part::Dhcp, "reserve_address"),
            (Part::Libvirt, "define"),
            (Part::Switch, "start"),
        ],
        &[
            (Part::Switch, "stop"),
            (Part::Libvirt, "undefine"),
            (Part::Dhcp, "remove_reservation"),
        ],
    ),
    (&[(Part::Qemu, "wait_login")], &[]),
    (&[], &[(Part::Qemu, "stop")]),
];

/// Each part in every step of a launch, and in every step of a release.
fn all_allocations() -> Vec<(Vec<Kill>, Vec<Kill>)> {
    let kills = |part: Part, kind: Kind| {
        let steps = steps_of(kind).iter();
        steps.map(|step| (part, step.name)).collect()
    };
    let parts = Part::ALL.into_iter();
    parts
        .map(|part| (kills(part, Kind::Provision), kills(part, Kind::Release)))
        .collect()
}

async fn p5_parts_are_killed_in_a_launch_and_a_release() {
    let system = System::get().await;
    let allocations = match every_step() {
        true => all_allocations(),
        false => ALLOCATIONS
            .map(|(up, down)| (up.to_vec(), down.to_vec()))
            .into(),
    };
    for (launch, release) in allocations {
        let (mut up, mut down) = (VecDeque::from(launch), VecDeque::from(release));
        let mut rounds = 0;
        while rounds == 0 || !up.is_empty() || !down.is_empty() {
            let before = up.len() + down.len();
            launch_and_release(&system, &mut up, &mut down).await;
            assert!(
                rounds == 0 || up.len() + down.len() < before,
                "no step was reached: {up:?} {down:?}"
            );
            rounds += 1;
        }
    }
}

async fn launch_and_release(system: &System, up: &mut VecDeque<Kill>, down: &mut VecDeque<Kill>) {
    let lab = &system.hosts[0].lab;
    let kills = Kills::order(lab, up);
    let id = system
        .user
        .launch("faults", "lab-mini", &system.public_key)
        .await;
    let vm = AllocationId(id.parse().expect("a uuid")).vm_name();
    let state = async || -> Option<Value> {
        let path = format!("/api/v1/allocations/{id}");
        system.user.get(&path).await.ok()
    };
    let is = async |wanted: &[&str]| {
        let now = state().await;
        now.is_some_and(|now| wanted.contains(&text(&now, "/status/state")))
    };
    let ends = ["active", "failed"];
    kills
        .carry_out("launch", vm.as_str(), async || is(&ends).await)
        .await;
    let now = until("the launch to end", 2 * TIMEOUT, async || {
        state()
            .await
            .filter(|now| ends.contains(&text(now, "/status/state")))
    })
    .await;
    if text(&now, "/status/state") == "failed" {
        let reason = text(&now, "/status/failure/reason");
        println!("the launch failed: {reason}");
        assert!(!["", "INTERNAL"].contains(&reason), "{now}");
    } else {
        // a switch that was just started again learns its ways first
        until("a login", TIMEOUT, async || {
            system.ssh(&now, "true").status.success().then_some(())
        })
        .await;
        let kills = Kills::order(lab, down);
        system.user.release(&id).await;
        let over = ["released", "failed"];
        kills
            .carry_out("release", vm.as_str(), async || is(&over).await)
            .await;
        until("the release to end", 2 * TIMEOUT, async || {
            is(&over).await.then_some(())
        })
        .await;
    }
    // a slot without its proof waits for an operator, and no longer than for one repair
    for (index, slot) in system.slots().await.iter().enumerate() {
        if slot["status"] == "cleanup_blocked" {
            println!("slot {index} is repaired");
            system.repair(slot).await;
        }
    }
    system.assert_nothing_left().await;
}
