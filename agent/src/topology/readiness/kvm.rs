//! Proof of hardware virtualisation: the emulator makes a VM with KVM, which never runs (INC-08). That a device and a
//! module are there (D-14) says nothing about what the firmware allows.
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

use super::CheckResult;
use crate::checks::KVM;
use crate::host::exec;
use crate::host::root::HostRoot;
use crate::settings::{HostProfile, Hypervisor};

/// What the firmware allows stays so while the host runs; it is proven again all the same.
const PROVEN_FOR: Duration = Duration::from_secs(600);
const LIMIT: Duration = Duration::from_secs(20);
/// Said of a proof of now and of lately alike: a report that says the same is known by its words.
const MADE: &str = "; a VM was made";
/// Ends the emulator as soon as it has made the VM.
const QUIT: &str = "{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"quit\"}\n";

/// When a VM was made the last time.
#[derive(Debug, Default)]
pub struct KvmProof(Mutex<Option<Instant>>);

impl KvmProof {
    fn is_recent(&self) -> bool {
        let proven = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        proven.is_some_and(|at| at.elapsed() < PROVEN_FOR)
    }

    fn set(&self, proven: bool) {
        let at = proven.then(Instant::now);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }
}

/// Makes a VM where files say that it could be made, and puts the outcome in place of what they say.
pub(super) async fn prove(
    root: &HostRoot,
    profile: &HostProfile,
    proof: &KvmProof,
    results: &mut [CheckResult],
) {
    let Some(kvm) = results.iter_mut().find(|result| result.check == &KVM) else {
        return;
    };
    let by_files = kvm.status == EvidenceStatus::Pass;
    if profile.hypervisor != Hypervisor::Kvm || !root.is_live() || !by_files {
        return;
    }
    if proof.is_recent() {
        kvm.detail.push_str(MADE);
        return;
    }
    let made = make_vm(&profile.emulator.to_string_lossy()).await;
    proof.set(made.is_ok());
    match made {
        Ok(()) => kvm.detail.push_str(MADE),
        Err(why) => *kvm = CheckResult::judge(&KVM, false, format!("a VM cannot be made: {why}")),
    }
}

/// Makes a VM with one stopped virtual CPU, and ends it.
async fn make_vm(emulator: &str) -> Result<(), String> {
    let arguments = [
        "-accel",
        "kvm",
        "-cpu",
        "host",
        "-machine",
        "q35",
        "-m",
        "16",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-S",
        "-qmp",
        "stdio",
    ];
    let ended = exec::run_with_input(emulator, &arguments, QUIT, LIMIT).await;
    let ended = ended.and_then(|output| output.success("the emulator"));
    ended.map(|_| ()).map_err(|error| error.message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn emulator(folder: &std::path::Path, script: &str) -> String {
        let file = folder.join("emulator");
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        file.display().to_string()
    }

    /// Behaviour and not presence (I-15).
    /// D-17
    // partly D-17: the log of the kernel is not read; what it would say shows in that no VM can be made
    #[tokio::test]
    async fn inc_08_kvm_is_proven_by_a_vm_and_not_by_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let made = emulator(
            dir.path(),
            r#"case "$*" in *"-accel kvm"*) cat > "$(dirname "$0")/asked";; esac"#,
        );
        assert_eq!(make_vm(&made).await, Ok(()));
        let requested = std::fs::read_to_string(dir.path().join("asked")).unwrap();
        assert!(
            requested.ends_with("{\"execute\":\"quit\"}\n"),
            "{requested}"
        );

        let refused = "echo 'failed to initialize kvm: Operation not supported' >&2; exit 1";
        let error = make_vm(&emulator(dir.path(), refused)).await.unwrap_err();
        assert!(error.contains("Operation not supported"), "{error}");
        assert!(make_vm("/no/such/emulator").await.is_err());
    }

    #[test]
    fn a_failure_is_tried_again_at_once() {
        let proof = KvmProof::default();
        assert!(!proof.is_recent());
        proof.set(true);
        assert!(proof.is_recent());
        proof.set(false);
        assert!(!proof.is_recent());
    }
}
