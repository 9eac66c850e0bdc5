//! Parts of a host are killed while a stop, a start, a reboot, a rescue or its end is in each of its steps, and started again as
//! systemd would: libvirtd, the VM's own QEMU, dnsmasq, the switch. After each change the allocation has the power that was wanted,
//! or the change failed with a reason; ledger, host and hypervisor agree; and the guest answers if it runs.
//!
//! `make test-host` kills each part in one step of each change, on one VM; with `GPUAAS_EVERY_STEP` set, as in `make test-chaos`,
//! it is every step, on a VM for each part.
use std::collections::VecDeque;
use std::time::Duration;

use gpuaas_agent::journal::Kind;
use gpuaas_agent::operation::steps_of;
use gpuaas_dev::seed;
use gpuaas_tests::api::text;
use gpuaas_tests::parts::{Kill, Kills, Part, every_step};
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::{until, until_ok};
use serde_json::{Value, json};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    if !every_step() {
        return gpuaas_tests::cases![Place::System; p5_parts_are_killed_in_every_change_of_power: 180];
    }
    gpuaas_tests::cases![Place::System;
        p5_libvirtd_is_killed_in_every_step_of_power: 150,
        p5_the_vm_is_killed_in_every_step_of_power: 170,
        p5_dnsmasq_is_killed_in_every_step_of_power: 150,
        p5_the_switch_is_killed_in_every_step_of_power: 150,
    ]
}

/// A change of power, from what it is asked for to what is wanted.
#[derive(Debug, Clone, Copy)]
struct Change {
    verb: &'static str,
    from: &'static str,
    to: &'static str,
    /// What the host does for it.
    kind: Kind,
}

const STOP: Change = Change {
    verb: "stop",
    from: "running",
    to: "stopped",
    kind: Kind::Stop,
};
const START: Change = Change {
    verb: "start",
    from: "stopped",
    to: "running",
    kind: Kind::Start,
};
const REBOOT: Change = Change {
    verb: "reboot",
    from: "running",
    to: "running",
    kind: Kind::Reboot,
};
const RESCUE: Change = Change {
    verb: "rescue",
    from: "running",
    to: "rescued",
    kind: Kind::Rescue,
};
const UNRESCUE: Change = Change {
    verb: "unrescue",
    from: "rescued",
    to: "running",
    kind: Kind::Reboot,
};
/// In an order in which each begins where the one before it ends.
const CHANGES: [Change; 5] = [STOP, START, REBOOT, RESCUE, UNRESCUE];

/// One of each: those that come in one line are met by the same change.
const ONE_OF_EACH: [(Change, &[Kill]); 9] = [
    (
        STOP,
        &[
            (Part::Libvirt, "stop"),
            (Part::Switch, "deactivate_partition"),
        ],
    ),
    (
        START,
        &[
            (Part::Libvirt, "define"),
            (Part::Switch, "start"),
            (Part::Dhcp, "wait_login"),
        ],
    ),
    (
        STOP,
        &[(Part::Qemu, "stop"), (Part::Dhcp, "deactivate_partition")],
    ),
    (START, &[(Part::Qemu, "wait_login")]),
    (
        REBOOT,
        &[
            (Part::Switch, "stop"),
            (Part::Libvirt, "prove_disk"),
            (Part::Dhcp, "start"),
        ],
    ),
    (REBOOT, &[(Part::Qemu, "find_partition")]),
    (
        RESCUE,
        &[
            (Part::Libvirt, "seed"),
            (Part::Dhcp, "start"),
            (Part::Switch, "wait_login"),
        ],
    ),
    (UNRESCUE, &[(Part::Libvirt, "define")]),
    (RESCUE, &[(Part::Qemu, "wait_login")]),
];

async fn p5_parts_are_killed_in_every_change_of_power() {
    let kills = ONE_OF_EACH.map(|(change, kills)| (change, kills.to_vec()));
    kill_in_changes(kills.to_vec()).await;
}

/// The part in each step of each change.
async fn in_every_step(part: Part) {
    let kills = CHANGES.map(|change| {
        let steps = steps_of(change.kind).iter();
        (change, steps.map(|step| (part, step.name)).collect())
    });
    kill_in_changes(kills.to_vec()).await;
}

async fn p5_libvirtd_is_killed_in_every_step_of_power() {
    in_every_step(Part::Libvirt).await;
}

async fn p5_the_vm_is_killed_in_every_step_of_power() {
    in_every_step(Part::Qemu).await;
}

async fn p5_dnsmasq_is_killed_in_every_step_of_power() {
    in_every_step(Part::Dhcp).await;
}

async fn p5_the_switch_is_killed_in_every_step_of_power() {
    in_every_step(Part::Switch).await;
}

/// A VM whose power is changed while parts of its host are killed.
struct PoweredVm<'a> {
    system: &'a System,
    id: String,
    /// Name of the VM.
    vm: String,
}

async fn kill_in_changes(rows: Vec<(Change, Vec<Kill>)>) {
    let system = System::get().await;
    seed::add_rescue(&system.stack, &|_: &str| {})
        .await
        .unwrap_or_else(|error| panic!("{}", gpuaas_dev::error::chain(&error)));
    let id = system
        .user
        .launch("faults", "lab-mini", &system.public_key)
        .await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    let vm = PoweredVm {
        system: &system,
        vm: text(&active, "/status/vm").to_owned(),
        id,
    };
    for (change, kills) in rows {
        let mut left = VecDeque::from(kills);
        while !left.is_empty() {
            let before = left.len();
            vm.bring_to(change.from).await;
            vm.change(change, &mut left).await;
            assert!(left.len() < before, "{}: no step was reached", change.verb);
        }
    }
    system.user.release(&vm.id).await;
    system.user.wait_state(&vm.id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
    let folder = system.hosts[0].lab.agent_folder();
    for files in ["seeds", "rescue"] {
        let names = std::fs::read_dir(folder.join(files));
        let names: Vec<_> = names.into_iter().flatten().flatten().collect();
        assert!(names.is_empty(), "{names:?}");
    }
}

impl PoweredVm<'_> {
    async fn shown(&self) -> Option<Value> {
        let path = format!("/api/v1/allocations/{}", self.id);
        self.system.user.get(&path).await.ok()
    }

    /// The power, unless it is being changed.
    async fn power(&self) -> Option<String> {
        let power = text(&self.shown().await?, "/status/power").to_owned();
        ["running", "stopped", "rescued"]
            .contains(&power.as_str())
            .then_some(power)
    }

    async fn ask(&self, change: Change) {
        let body = match change.verb {
            "rescue" => json!({ "image": seed::RESCUE_IMAGE }),
            _ => json!({}),
        };
        let path = format!("/api/v1/allocations/{}:{}", self.id, change.verb);
        let accepted = self.system.user.post(&path, body).await;
        accepted.unwrap_or_else(|refusal| panic!("{}: {}", change.verb, refusal.body));
    }

    /// Without a kill: what failed can be tried again.
    async fn bring_to(&self, wanted: &str) {
        let power = until("the power", TIMEOUT, async || self.power().await).await;
        let change = match (power.as_str(), wanted) {
            (now, wanted) if now == wanted => return,
            ("stopped", "running") => START,
            ("rescued", "running") => UNRESCUE,
            ("running" | "rescued", "stopped") => STOP,
            ("running" | "stopped", "rescued") => RESCUE,
            other => panic!("no way from one to the other: {other:?}"),
        };
        self.ask(change).await;
        self.agreed(change, &self.ended(change).await).await;
        let power = self.power().await;
        assert_eq!(power.as_deref(), Some(wanted), "{}", change.verb);
    }

    /// What the timeline says of the change at its end.
    async fn ended(&self, change: Change) -> Value {
        let what = format!("the {} to end", change.verb);
        until(&what, 2 * TIMEOUT, async || self.power().await).await;
        let entries = self.system.user.timeline(&self.id).await;
        // the platform adds what it sees later, as that a VM is off
        let of_change = |entry: &&Value| !text(entry, "/message").contains("shut down");
        let last = entries.iter().rfind(of_change);
        last.expect("an entry").clone()
    }

    /// Asks for a change and kills parts while the host is in these steps, as far as it comes. What is left then is for the next.
    async fn change(&self, change: Change, left: &mut VecDeque<Kill>) {
        let kills = Kills::order(&self.system.hosts[0].lab, left);
        self.ask(change).await;
        let has_ended = async || self.power().await.is_some();
        kills.carry_out(change.verb, &self.vm, has_ended).await;
        let last = self.ended(change).await;
        self.agreed(change, &last).await;
    }

    /// Waits until ledger, host and hypervisor agree; then the change was carried out, or it failed with a reason.
    async fn agreed(&self, change: Change, last: &Value) {
        let what = format!("all to agree after {}", change.verb);
        // a VM that ended after its proof is found by the comparison
        let (now, domain) = until_ok(&what, Duration::from_secs(60), async || {
            self.in_agreement().await
        })
        .await;
        let power = text(&now, "/status/power");
        let has_failed = text(last, "/state") == "failed";
        println!("{}: {power}, {}", change.verb, text(last, "/message"));
        if has_failed {
            let entries = self.system.user.timeline(&self.id).await;
            let reason = entries.iter().rev().find_map(|entry| {
                let details = entry["error"]["details"].as_array()?;
                details.iter().find_map(|one| one["reason"].as_str())
            });
            let reason = reason.unwrap_or_default();
            assert!(!["", "INTERNAL"].contains(&reason), "{entries:#?}");
            return;
        }
        if domain == "running" {
            assert_eq!(power, change.to, "{last}");
            // a switch that was just started again learns its ways first
            let boot = until("a login", TIMEOUT, async || {
                let boot = "cat /proc/sys/kernel/random/boot_id";
                let login = self.system.ssh(&now, boot);
                login.status.success().then_some(login.stdout)
            })
            .await;
            let boot = String::from_utf8_lossy(&boot);
            assert_eq!(text(&now, "/status/boot_id"), boot.trim());
        } else {
            assert_eq!(power, "stopped", "{last}");
        }
    }

    /// The allocation, and the state of its domain.
    async fn in_agreement(&self) -> Result<(Value, String), String> {
        let system = self.system;
        let path = format!("/api/v1/admin/nodes/{}/comparison", system.node_id);
        let compared = system.admin.get(&path).await;
        let compared = compared.map_err(|refusal| refusal.body.to_string())?;
        let mut rows = compared["rows"].as_array().into_iter().flatten();
        let row = rows.find(|row| row["allocation_id"] == self.id.as_str());
        let row = row.ok_or_else(|| compared.to_string())?;
        if row["verdict"] != "agrees" {
            return Err(row.to_string());
        }
        let arguments = ["-q", "-c", "qemu:///system", "domstate", &self.vm];
        let domain = system.hosts[0].lab.exec("virsh", &arguments);
        let domain = domain.map_err(|error| error.to_string())?.trim().to_owned();
        let now = self.shown().await.ok_or("the allocation is not shown")?;
        let power = text(&now, "/status/power");
        match (power, domain.as_str()) {
            ("running" | "rescued", "running") | ("stopped", "shut off") => Ok((now, domain)),
            _ => Err(format!("{power}, and its domain is {domain}")),
        }
    }
}
