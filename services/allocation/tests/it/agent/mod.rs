//! A scripted host: speaks the agent's real protocol over mutual TLS and keeps what a host would keep (holds,
//! fences, leases, domains, reservations, dirty disks, journaled operations), so that a test can make any part
//! of it fail and count what is left. Operations run on when the server goes away, as a real journal's would.

mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpuaas_common::CancellationToken;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tokio::sync::watch;
use tonic::{Response, Status};

use services::refusal;

pub const PROVISION: [&str; 9] = [
    "verify_image",
    "prove_disk",
    "clone",
    "seed",
    "reserve_address",
    "define",
    "start",
    "wait_address",
    "wait_login",
];
pub const RELEASE: [&str; 5] = [
    "stop",
    "undefine",
    "remove_reservation",
    "wipe",
    "verify_wipe",
];
const CLEAN_UP: [&str; 3] = ["stop", "undefine", "remove_reservation"];
pub const STOP: [&str; 1] = ["stop"];
pub const START: [&str; 4] = ["prove_disk", "define", "start", "wait_login"];
pub const REBOOT: [&str; 5] = ["stop", "prove_disk", "define", "start", "wait_login"];
const REPAIR: [&str; 3] = ["prove_disk", "wipe", "verify_wipe"];

/// Kinds that ask what else runs for the allocation to stop.
const ENDS_OTHERS: [&str; 3] = ["release", "clean_up", "repair_slot"];

/// What the host is told to do wrong.
#[derive(Default)]
pub struct Script {
    /// Refuse every lease with this reason.
    pub refuse_lease: Option<ErrorReason>,
    /// Fail this step of this kind of operation, every time.
    pub fail: Option<(&'static str, &'static str, ErrorReason, pb::FailureClass)>,
    /// Stay in this step of this kind until the script says otherwise.
    pub stay: Option<(&'static str, &'static str)>,
    /// Say that a wipe was verified without having wiped.
    pub short_wipe: bool,
    /// Call a provision a success although nobody can log in.
    pub no_login: bool,
    /// Call a start a success although the guest is at the boot it was at.
    pub same_boot: bool,
}

/// What the host has.
#[derive(Default)]
pub struct State {
    pub holds: BTreeMap<String, String>,
    pub fences: BTreeMap<String, (u64, u64, u64)>,
    pub leases: BTreeMap<String, pb::AcquireLeaseRequest>,
    pub domains: BTreeSet<String>,
    /// Domains that do not run.
    pub off: BTreeSet<String>,
    /// Domains that went off by themselves; true: with the host.
    pub unexpected_shutdown: BTreeMap<String, bool>,
    /// Leases whose ids a caller read from the list; to end one takes tokens.
    pub listed: BTreeSet<String>,
    pub reservations: BTreeSet<String>,
    pub dirty: BTreeSet<String>,
    pub operations: BTreeMap<String, pb::HostOperation>,
    cancelled: BTreeSet<String>,
}

struct Shared {
    state: Mutex<State>,
    script: Mutex<Script>,
    changed: watch::Sender<u64>,
    down: Mutex<CancellationToken>,
}

#[derive(Clone)]
pub struct Agent(Arc<Shared>);

impl Agent {
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            script: Mutex::default(),
            changed: watch::channel(0).0,
            down: Mutex::default(),
        }))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.0.script.lock().unwrap_or_else(PoisonError::into_inner));
        self.touch();
    }

    /// Streams of a server end with this token: the host is gone.
    pub fn up(&self, down: CancellationToken) {
        *self.0.down.lock().unwrap_or_else(PoisonError::into_inner) = down;
    }

    /// Waits until the host is in this state.
    pub async fn until(&self, what: &str, mut holds: impl FnMut(&State) -> bool) {
        let mut changed = self.0.changed.subscribe();
        let wait = async {
            loop {
                changed.borrow_and_update();
                if holds(&self.state()) {
                    return;
                }
                changed.changed().await.expect("the sender lives");
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait)
            .await
            .unwrap_or_else(|_| panic!("host never: {what}"));
    }

    fn touch(&self) {
        self.0.changed.send_modify(|n| *n += 1);
    }

    fn edit(&self, id: &str, change: impl FnOnce(&mut pb::HostOperation)) {
        if let Some(operation) = self.state().operations.get_mut(id) {
            change(operation);
        }
        self.touch();
    }

    fn begin(
        &self,
        kind: &'static str,
        steps: &[&'static str],
        id: &str,
        lease_id: &str,
        allocation_id: &str,
    ) -> Result<Response<pb::HostOperation>, Status> {
        let mut state = self.state();
        if let Some(known) = state.operations.get(id) {
            return Ok(Response::new(known.clone()));
        }
        let lease = state
            .leases
            .get(lease_id)
            .filter(|lease| lease.allocation_id == allocation_id)
            .cloned();
        let Some(lease) = lease else {
            return Err(refusal(ErrorReason::LeaseRequired, "no such lease"));
        };
        let operation = pb::HostOperation {
            operation_id: id.to_owned(),
            kind: kind.to_owned(),
            allocation_id: allocation_id.to_owned(),
            state: pb::OperationState::Running.into(),
            steps: steps
                .iter()
                .map(|name| pb::OperationStep {
                    name: (*name).to_owned(),
                    state: pb::StepState::Pending.into(),
                    ..pb::OperationStep::default()
                })
                .collect(),
            ..pb::HostOperation::default()
        };
        state.operations.insert(id.to_owned(), operation.clone());
        if ENDS_OTHERS.contains(&kind) {
            // what runs for the allocation is stopped first, as on a real host
            let running: Vec<String> = state
                .operations
                .values()
                .filter(|other| {
                    !ENDS_OTHERS.contains(&other.kind.as_str())
                        && other.allocation_id == allocation_id
                        && other.state() == pb::OperationState::Running
                })
                .map(|other| other.operation_id.clone())
                .collect();
            state.cancelled.extend(running);
        }
        drop(state);
        self.touch();
        tokio::spawn(self.clone().run(kind, id.to_owned(), lease));
        Ok(Response::new(operation))
    }

    async fn run(self, kind: &'static str, id: String, lease: pb::AcquireLeaseRequest) {
        let vm = format!("gpuaas-slice-{}", lease.allocation_id.replace('-', ""));
        if ENDS_OTHERS.contains(&kind) {
            self.until("earlier operations ended", |state| {
                state.operations.values().all(|other| {
                    ENDS_OTHERS.contains(&other.kind.as_str())
                        || other.allocation_id != lease.allocation_id
                        || other.state() != pb::OperationState::Running
                })
            })
            .await;
        }
        let names: Vec<String> = self.state().operations[&id]
            .steps
            .iter()
            .map(|step| step.name.clone())
            .collect();
        for (at, name) in names.iter().enumerate() {
            self.edit(&id, |op| op.steps[at].state = pb::StepState::Running.into());
            if let Some((reason, class)) = self.trouble(kind, name, &id).await {
                return self.fail(kind, &id, at, name, reason, class, &vm);
            }
            self.effect(name, &vm, &lease);
            self.edit(&id, |op| {
                op.steps[at].state = pb::StepState::Done.into();
                op.steps[at].percent = 100;
            });
        }
        self.succeed(kind, &id, &lease);
    }

    /// Waits while the script says stay; then says whether the step fails.
    async fn trouble(
        &self,
        kind: &str,
        name: &str,
        id: &str,
    ) -> Option<(ErrorReason, pb::FailureClass)> {
        let mut changed = self.0.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if self.state().cancelled.contains(id) {
                return Some((ErrorReason::StateConflict, pb::FailureClass::Host));
            }
            {
                let script = self.0.script.lock().unwrap_or_else(PoisonError::into_inner);
                if script.stay != Some((leak(kind), leak(name))) {
                    let fails = script.fail.filter(|fail| (fail.0, fail.1) == (kind, name));
                    return fails.map(|fail| (fail.2, fail.3));
                }
            }
            changed.changed().await.ok()?;
        }
    }

    fn effect(&self, name: &str, vm: &str, lease: &pb::AcquireLeaseRequest) {
        let mut state = self.state();
        let slots = lease.slots.iter().map(|slot| slot.slot_id.clone());
        match name {
            "clone" => state.dirty.extend(slots),
            "reserve_address" => {
                state.reservations.insert(vm.to_owned());
            }
            "define" => {
                state.domains.insert(vm.to_owned());
            }
            "undefine" => {
                state.domains.remove(vm);
                state.off.remove(vm);
                state.unexpected_shutdown.remove(vm);
            }
            "stop" => {
                state.off.insert(vm.to_owned());
            }
            "start" => {
                state.off.remove(vm);
                state.unexpected_shutdown.remove(vm);
            }
            "remove_reservation" => {
                state.reservations.remove(vm);
            }
            "wipe" => {
                for slot in slots {
                    state.dirty.remove(&slot);
                }
            }
            _ => {}
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn fail(
        &self,
        kind: &str,
        id: &str,
        at: usize,
        step: &str,
        reason: ErrorReason,
        class: pb::FailureClass,
        vm: &str,
    ) {
        if kind == "provision" {
            let mut state = self.state();
            state.domains.remove(vm);
            state.reservations.remove(vm);
        }
        self.edit(id, |op| {
            op.steps[at].state = pb::StepState::Failed.into();
            op.state = pb::OperationState::Failed.into();
            op.failure = Some(pb::OperationFailure {
                reason: gpuaas_common::error::reason_name(reason).to_owned(),
                message: format!("scripted failure at {step}"),
                step: step.to_owned(),
                failure_class: class.into(),
                host_clean: true,
            });
        });
    }

    fn succeed(&self, kind: &str, id: &str, lease: &pb::AcquireLeaseRequest) {
        let script = self.0.script.lock().unwrap_or_else(PoisonError::into_inner);
        let (short_wipe, no_login) = (script.short_wipe, script.no_login);
        let boot_id = if script.same_boot {
            uuid::Uuid::nil()
        } else {
            uuid::Uuid::now_v7()
        };
        drop(script);
        let bindings = |slot: &pb::SlotGrant| slot.bindings.clone().unwrap_or_default();
        let evidence: Vec<pb::WipeEvidence> = lease
            .slots
            .iter()
            .filter(|_| matches!(kind, "release" | "repair_slot"))
            .map(|slot| pb::WipeEvidence {
                slot_id: slot.slot_id.clone(),
                token: slot.token,
                method: bindings(slot).destructive_wipe_policy,
                disk_identity: bindings(slot).nvme_device,
                disk_bytes: bindings(slot).nvme_bytes,
                verified_bytes: if short_wipe {
                    0
                } else {
                    bindings(slot).nvme_bytes
                },
                no_signatures: true,
                ..pb::WipeEvidence::default()
            })
            .collect();
        if !evidence.is_empty() {
            let mut state = self.state();
            for slot in &lease.slots {
                state.holds.remove(&slot.slot_id);
            }
        }
        let first = lease.slots.first().map(bindings).unwrap_or_default();
        let digest = "sha256:".to_owned() + &"a".repeat(64);
        self.edit(id, |op| {
            op.state = pb::OperationState::Succeeded.into();
            op.wipe_evidence = evidence;
            op.provision_result = (kind == "provision").then(|| pb::ProvisionResult {
                mac: first.management_mac.clone(),
                expected_ip: first.private_ip.clone(),
                actual_ip: first.private_ip.clone(),
                lease_state: "bound".into(),
                ssh_ready: !no_login,
                ssh_port: 22,
                access_host: "127.0.0.1".into(),
                access_port: 2222,
                ssh_host_keys: vec!["ssh-ed25519 AAAA".into()],
                domain_uuid: "d".into(),
                image_digest: digest,
                boot_id: uuid::Uuid::nil().to_string(),
            });
            op.power_result = matches!(kind, "start" | "reboot").then(|| pb::PowerResult {
                boot_id: boot_id.to_string(),
            });
        });
    }
}

/// The script's names are those of the constants above.
fn leak(name: &str) -> &'static str {
    let known = [
        "provision",
        "release",
        "clean_up",
        "repair_slot",
        "start",
        "reboot",
    ]
    .into_iter();
    known
        .chain(PROVISION)
        .chain(RELEASE)
        .find(|constant| *constant == name)
        .unwrap_or("")
}
