//! The files that a VM has on its host beside its disk: the seed of its first boot, and its NVRAM. What is there of whom, what
//! a domain misses, and the removal of what nobody owns any more, its port on the bridge with it.
use std::collections::BTreeSet;
use std::path::Path;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::error::{HostError, HostResult, io_error};
use crate::host::blocking;
use crate::host::root::HostRoot;
use crate::ids::AllocationId;
use crate::node::Node;
use crate::operation::{remove_reservation, remove_seed};
use crate::settings::BridgeKind;
use crate::vm::{Domain, nvram};

/// Kinds of files, as reports name them.
pub const SEED: &str = "seed";
pub const NVRAM_FILE: &str = "nvram";

/// Allocations by what the host has of their VMs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    pub seeds: BTreeSet<AllocationId>,
    pub nvram: BTreeSet<AllocationId>,
}

/// Lists them.
///
/// # Errors
/// A folder cannot be read.
pub fn list(node: &Node) -> HostResult<Files> {
    Ok(Files {
        seeds: of_folder(&node.seeds_dir(), AllocationId::of_vm)?,
        nvram: of_folder(&node.root.path(nvram::FOLDER), nvram::owner)?,
    })
}

fn of_folder(
    folder: &Path,
    of: impl Fn(&str) -> Option<AllocationId>,
) -> HostResult<BTreeSet<AllocationId>> {
    let failed = || io_error(format!("cannot read {}", folder.display()));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        // no VM was ever here
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(failed()(error)),
    };
    let mut found = BTreeSet::new();
    for entry in entries {
        let name = entry.map_err(failed())?.file_name();
        found.extend(name.to_str().and_then(&of));
    }
    Ok(found)
}

/// The kinds of files that a domain's descriptions name and that are not there. Without a folder of seeds they are not looked
/// for.
pub fn missing(root: &HostRoot, seeds_dir: Option<&Path>, domain: &Domain) -> Vec<&'static str> {
    let named = |folder: &Path| -> Vec<&Path> {
        let named = domain.disk_sources.iter().map(Path::new);
        let of_it = named.filter(|path| path.starts_with(folder) && *path != folder);
        of_it.collect()
    };
    // what cannot be told is not said to be missing
    let is_gone = |path: &Path| matches!(std::fs::exists(path), Ok(false));
    let mut missed = Vec::new();
    if seeds_dir.is_some_and(|folder| named(folder).into_iter().any(is_gone)) {
        missed.push(SEED);
    }
    let nvram = named(Path::new(nvram::FOLDER));
    if nvram.into_iter().any(|path| is_gone(&root.path(path))) {
        missed.push(NVRAM_FILE);
    }
    missed
}

/// Removes reservation, port, seed and NVRAM of an allocation that has nothing else here. What is in use is never touched: it
/// is refused while a slot is held for it, a lease or an operation of it runs, or the hypervisor has its VM. Returns what was
/// removed; nothing there is as good as removed.
///
/// # Errors
/// `LEASE_HELD` where it has a hold or a lease, `OPERATION_CONFLICT` where work or a VM of it runs; something cannot be read
/// or removed.
pub async fn remove_leftovers(node: &Node, of: AllocationId) -> HostResult<Vec<&'static str>> {
    unused(node, of).await?;
    let vm = of.vm_name();
    let before = blocking::here(|| list(node))?;
    let mut removed = Vec::new();
    if node.dhcp.reservations()?.iter().any(|one| one.vm == vm) {
        removed.push("reservation");
    }
    // a port of a Linux bridge is gone with its VM
    let is_switch = node.settings.network.bridge_kind == BridgeKind::Ovs;
    if is_switch
        && node
            .network_rules
            .guest_ports()
            .await?
            .contains(&of.port_name())
    {
        removed.push("port");
    }
    if !removed.is_empty() {
        remove_reservation(node, of).await?;
    }
    if before.seeds.contains(&of) {
        remove_seed(node, of).await?;
        removed.push(SEED);
    }
    if before.nvram.contains(&of) {
        blocking::here(|| nvram::remove(&node.root, of))?;
        removed.push(NVRAM_FILE);
    }
    Ok(removed)
}

async fn unused(node: &Node, of: AllocationId) -> HostResult<()> {
    let now = node.clock.now();
    let is_held = node.journal.holds()?.iter().any(|one| one.allocation == of);
    let mut leases = node.journal.leases()?.into_iter();
    let is_leased =
        leases.any(|one| one.allocation == of && !one.expires.remaining(&now).is_zero());
    if is_held || is_leased {
        let why = format!("the host holds slots for allocation {of}, or has leased them to it");
        return Err(HostError::host(ErrorReason::LeaseHeld, why));
    }
    let mut operations = node.journal.running_operations()?.into_iter();
    if operations.any(|one| one.allocation == of) {
        let why = format!("an operation of allocation {of} runs");
        return Err(HostError::host(ErrorReason::OperationConflict, why));
    }
    let vm = of.vm_name();
    if let Some(state) = node.hypervisor.state(vm.as_str()).await? {
        let why = format!("the hypervisor has {vm}, which is {}", state.as_str());
        return Err(HostError::host(ErrorReason::OperationConflict, why));
    }
    // a domain of another name may have been given its files
    let files = [
        node.seed_dir(&vm),
        Path::new(nvram::FOLDER).join(vm.as_str()),
    ];
    let files = files.map(|file| file.to_string_lossy().into_owned());
    for domain in node.hypervisor.domains().await? {
        let is_of_it = |path: &String| files.iter().any(|file| path.starts_with(file));
        if domain.disk_sources.iter().any(is_of_it) {
            let why = format!("domain {} names a file of {vm}", domain.name);
            return Err(HostError::host(ErrorReason::OperationConflict, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::vm::PowerState;

    fn domain(sources: &[&str]) -> Domain {
        Domain {
            name: "any".into(),
            state: PowerState::Running,
            disk_sources: sources.iter().map(|&path| path.to_owned()).collect(),
            untraced_sources: Vec::new(),
        }
    }

    #[test]
    fn inc_26_files_of_vms_are_told_by_their_names_and_others_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = [1, 2].map(|id| AllocationId(Uuid::from_u128(id)));
        for name in [
            format!("{}_VARS.fd", one.vm_name()),
            format!("{}_VARS.qcow2", two.vm_name()),
            "somebodys-vm_VARS.fd".to_owned(),
            format!("{}.fd", one.vm_name()),
        ] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let found = of_folder(dir.path(), nvram::owner).unwrap();
        assert_eq!(found, [one, two].into());
        assert!(
            of_folder(&dir.path().join("none"), nvram::owner)
                .unwrap()
                .is_empty()
        );
        nvram::remove_in(dir.path(), one).unwrap();
        nvram::remove_in(&dir.path().join("none"), one).unwrap();
        let found = of_folder(dir.path(), nvram::owner).unwrap();
        assert_eq!(found, [two].into());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn p5_a_domain_misses_the_files_that_it_names_and_the_host_has_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        let seeds = dir.path().join("seeds");
        let nvram = root.path(nvram::FOLDER);
        std::fs::create_dir_all(&nvram).unwrap();
        std::fs::create_dir_all(&seeds).unwrap();
        std::fs::write(nvram.join("there_VARS.fd"), "").unwrap();
        std::fs::write(seeds.join("seed.iso"), "").unwrap();
        let of = |sources: &[&str]| missing(&root, Some(&seeds), &domain(sources));
        let seed = seeds.join("seed.iso");
        let there = format!("{}/there_VARS.fd", nvram::FOLDER);
        assert!(of(&[&there, seed.to_str().unwrap(), "/dev/gone"]).is_empty());
        let gone = format!("{}/gone_VARS.fd", nvram::FOLDER);
        assert_eq!(of(&[&gone]), ["nvram"]);
        let gone_seed = seeds.join("gone/seed.iso");
        let both = [gone.as_str(), gone_seed.to_str().unwrap()];
        assert_eq!(of(&both), ["seed", "nvram"]);
        assert_eq!(missing(&root, None, &domain(&both)), ["nvram"]);
    }
}
