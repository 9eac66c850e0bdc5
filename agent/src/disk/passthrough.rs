//! NVMe disks whose controllers are passed through to VMs (D-47, `agent.profile.nvme`). libvirt takes a controller from the host's
//! driver when its VM starts and gives it back when the VM ends: a disk is cloned to, proven and wiped by the host as every
//! other one, while no VM has it.
//!
//! While a VM has it the kernel shows no disk. What the disk was is on record then, from the definition of the VM to the end of
//! the disk's wipe, so that discovery and reports still have it. The guest has every command of the controller: it can make
//! another namespace, format its own with other sectors, or change the firmware. None of that passes as clean.
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::common::v1 as common;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost::Message as _;

use super::ProvenDisk;
use super::identity::{DiskIdentity, Resolution};
use super::method::NvmeFacts;
use super::nvme::{self, is_alone};
use super::on_their_way::OnTheirWay;
use super::stack::controllers;
use super::wipe::nvme_facts;
use crate::binding::holders::Holders;
use crate::error::{HostError, HostResult, io_error};
use crate::host::blocking;
use crate::host::root::HostRoot;
use crate::ids::{PciAddress, VmName};
use crate::node::Node;
use crate::settings::NvmeAttachment;
use crate::topology::{disk_details, pci};
use crate::vm::PowerState;

const PROBE: &str = "/sys/bus/pci/drivers_probe";
/// Of NVMe controllers, in `class`.
const CLASS: &str = "0x0108";
/// How long a controller that came back may take until its disk is there, and the pause between two looks.
const APPEARS: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of the sectors that images are made for.
const SECTOR: &str = "512";

/// A disk whose controller a VM was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    pub vm: VmName,
    pub controller: PciAddress,
    /// As it was then.
    pub disk: common::NvmeDisk,
}

/// Puts the disks of a VM that is about to be defined on record, and returns their controllers, in their order.
///
/// # Errors
/// `DISK_UNSAFE` for one whose controller cannot be given to a VM alone; something cannot be read or written.
pub async fn prepare(node: &Node, vm: &VmName, devices: &[PathBuf]) -> HostResult<Vec<PciAddress>> {
    let folder = node.passthrough_dir();
    let before = blocking::here(|| of_vm(&folder, vm))?;
    let mut found = Vec::new();
    for device in devices {
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        let address = blocking::here(|| controller(&node.root, &name))?;
        let answers = disk_details::ask(&node.root, &name).await;
        // another slot's disk would go with it
        match &answers.wipe {
            Some(facts) => namespace_fault(facts).map_or(Ok(()), |why| Err(unfit(&name, &why)))?,
            None => {
                return Err(unfit(
                    &name,
                    "its controller does not report its namespaces",
                ));
            }
        }
        let disk = blocking::here(|| {
            let trusts = &node.settings.trusted_programs;
            let disk = crate::topology::nvme::disk(&node.root, &name, trusts);
            match &disk.unreadable {
                Some(why) => Err(unfit(&name, why)),
                None => Ok(disk_details::describe(&node.root, &disk, &answers)),
            }
        })?;
        if disk.by_id.is_empty() || disk.bytes == 0 {
            return Err(unfit(&name, "it has no stable link or no size"));
        }
        // the VM may have changed it since it had the disk first
        let first = before.iter().find(|one| one.disk.by_id == disk.by_id);
        let firmware_version = first.map(|one| one.disk.firmware_version.clone());
        let disk = common::NvmeDisk {
            firmware_version: firmware_version.unwrap_or_else(|| disk.firmware_version.clone()),
            // the host's name for it means nothing while the VM has it, nor do its users then
            kernel_name: String::new(),
            uses: Vec::new(),
            health: None,
            ..disk
        };
        blocking::here(|| put(&folder, vm, &address, &disk))?;
        found.push(address);
    }
    // of a start under other addresses
    let old = before.iter();
    for one in old.filter(|one| !found.contains(&one.controller)) {
        blocking::here(|| remove(&folder, one))?;
    }
    Ok(found)
}

fn unfit(name: &str, why: &str) -> HostError {
    let message = format!("{name} cannot be passed through: {why}");
    HostError::device(ErrorReason::DiskUnsafe, message)
}

/// The one controller by which the host has a disk.
fn controller(root: &HostRoot, name: &str) -> HostResult<PciAddress> {
    let mut all = controllers(root, name)?.into_iter();
    let (Some(address), None) = (all.next(), all.next()) else {
        return Err(unfit(name, "it is not reached by one controller alone"));
    };
    match pci::group_faults(root, &address).as_slice() {
        [] => Ok(address),
        faults => {
            let why = format!("its controller {address} {}", faults.join(", "));
            Err(unfit(name, &why))
        }
    }
}

/// Why a disk's place in the machine keeps it from being passed through.
pub fn place_fault(root: &HostRoot, name: &str) -> Option<String> {
    controller(root, name).err().map(|error| error.message)
}

/// Why a disk cannot be passed through, with what its controller reported.
pub fn faults(root: &HostRoot, name: &str, facts: Option<&NvmeFacts>) -> Vec<String> {
    let content = match facts {
        Some(facts) => content_fault(root, name, facts),
        None => Some("its controller does not report its namespaces".to_owned()),
    };
    place_fault(root, name).into_iter().chain(content).collect()
}

/// Why a controller has more than the one disk.
fn namespace_fault(facts: &NvmeFacts) -> Option<String> {
    let all = facts.namespaces.as_deref();
    (!is_alone(&facts.controller, all, facts.namespace)).then(|| match all {
        Some(all) => format!("its controller has {} namespaces", all.len()),
        None => "its controller does not list its namespaces".to_owned(),
    })
}

/// What of a controller is not as an image and the next tenant need it.
fn content_fault(root: &HostRoot, name: &str, facts: &NvmeFacts) -> Option<String> {
    if let Some(why) = namespace_fault(facts) {
        return Some(why);
    }
    let sector = root.read_value(format!("/sys/class/block/{name}/queue/logical_block_size"));
    match sector.as_deref() {
        Some(SECTOR) => None,
        Some(bytes) => Some(format!(
            "its sectors have {bytes} bytes, and images need {SECTOR}"
        )),
        None => Some("its sectors have no size".to_owned()),
    }
}

/// Refuses a disk whose controller is not as the next VM may have it: before one gets it, and before a wipe after one had it.
/// Nothing to do for a disk that is no VM's but by virtio.
///
/// # Errors
/// `DISK_UNSAFE`; the controller does not answer; a record cannot be read.
pub async fn check(node: &Node, disk: &ProvenDisk) -> HostResult<()> {
    let identity = disk.identity().to_string();
    let had = blocking::here(|| of_disk(&node.passthrough_dir(), &identity))?;
    if had.is_empty() && node.settings.profile.nvme != NvmeAttachment::Passthrough {
        return Ok(());
    }
    let unsafe_disk = |why: String| {
        let message = format!("disk {identity} ({}): {why}", disk.name());
        HostError::device(ErrorReason::DiskUnsafe, message)
    };
    let facts = nvme_facts(disk.name(), &disk.device()).await;
    let facts = facts.map_err(&unsafe_disk)?;
    if let Some(why) = blocking::here(|| content_fault(&node.root, disk.name(), &facts)) {
        return Err(unsafe_disk(why));
    }
    if nvme::namespace(&disk.device()).await?.has_metadata() {
        let why = "its blocks have metadata, which no image is made for";
        return Err(unsafe_disk(why.to_owned()));
    }
    let file = format!("/sys/class/block/{}/device/firmware_rev", disk.name());
    let now = node.root.read_value(file).unwrap_or_default();
    let other = |one: &&Given| one.disk.firmware_version.trim() != now.trim();
    match had.iter().find(other) {
        None => Ok(()),
        Some(one) => Err(unsafe_disk(format!(
            "its firmware was {} before {} had it, and is {now}",
            one.disk.firmware_version, one.vm
        ))),
    }
}

/// Sees that the host has a disk that no running VM has: libvirt gives controllers back when a VM ends, and may have been
/// stopped before it could. Nothing to do for a disk that is there, nor for one that no VM was given.
///
/// # Errors
/// `HYPERVISOR_FAILED` while the VM is not off or a process has the controller open; something cannot be read or written.
pub async fn reattach(node: &Node, identity: &DiskIdentity) -> HostResult<()> {
    if node.probe.resolve(identity).await? != Resolution::Missing {
        return Ok(());
    }
    let (folder, name) = (node.passthrough_dir(), identity.to_string());
    let given = blocking::here(|| of_disk(&folder, &name))?;
    for one in &given {
        match node.hypervisor.state(one.vm.as_str()).await? {
            None | Some(PowerState::ShutOff) => {}
            Some(state) => {
                let (vm, state) = (&one.vm, state.as_str());
                let message = format!("domain {vm} is {state}, and has the controller of {name}");
                return Err(HostError::host(ErrorReason::HypervisorFailed, message));
            }
        }
        blocking::here(|| take(&node.root, &one.controller))?;
    }
    if given.is_empty() {
        return Ok(());
    }
    // one that does not come is found to be missing by whoever needs it
    let there = async {
        while node.probe.resolve(identity).await? == Resolution::Missing {
            tokio::time::sleep(PAUSE).await;
        }
        HostResult::Ok(())
    };
    tokio::time::timeout(APPEARS, there).await.unwrap_or(Ok(()))
}

/// Takes a controller from VFIO and leaves it to its own driver.
fn take(root: &HostRoot, address: &PciAddress) -> HostResult<()> {
    let folder = pci::folder(address);
    let driver = root.link_name(format!("{folder}/driver"));
    let has_own = driver.as_deref().is_some_and(|one| !pci::is_vfio(one));
    if has_own || !is_controller(root, address) {
        return Ok(());
    }
    let write = |path: String, text: &str| {
        let failed = io_error(format!("cannot write {path}"));
        std::fs::write(root.path(&path), text).map_err(failed)
    };
    if let Some(driver) = driver {
        if let Some(holder) = Holders::observe(root)?.of_vfio(root, address) {
            let message = format!("controller {address} is in use: {holder}");
            return Err(HostError::host(ErrorReason::HypervisorFailed, message));
        }
        tracing::warn!(%address, "the hypervisor left a controller with VFIO; take it back");
        write(
            format!("/sys/bus/pci/drivers/{driver}/unbind"),
            &address.to_string(),
        )?;
    }
    // a line end alone clears it
    write(format!("{folder}/driver_override"), "\n")?;
    write(PROBE.to_owned(), &address.to_string())
}

/// Whether there is an NVMe controller at an address: after a change of the machine it may be another device's.
fn is_controller(root: &HostRoot, address: &PciAddress) -> bool {
    let class = root.read_value(format!("{}/class", pci::folder(address)));
    class.is_some_and(|class| class.starts_with(CLASS))
}

/// Disks whose controllers VMs have now, or gave back a moment ago. `seen` are those that the host has itself, whatever is on
/// record of them.
///
/// # Errors
/// The record cannot be read.
pub fn given(node: &Node, seen: impl Fn(&str) -> bool) -> HostResult<Vec<Given>> {
    let mut all = Vec::new();
    for one in everything(&node.passthrough_dir())? {
        // a slot that was retired without a wipe leaves its record
        if !seen(&one.disk.by_id) && node.holder(&one.vm)?.is_some() {
            all.push(one);
        }
    }
    let way = &node.observed.on_their_way;
    all.retain(|one| has_vm(&node.root, &one.controller, way, Instant::now()));
    Ok(all)
}

fn has_vm(root: &HostRoot, controller: &PciAddress, way: &OnTheirWay, now: Instant) -> bool {
    if !is_controller(root, controller) {
        return false;
    }
    let driver = root.link_name(format!("{}/driver", pci::folder(controller)));
    if driver.is_some_and(|driver| pci::is_vfio(&driver)) {
        way.arrived(controller);
        return true;
    }
    let since = way.since(controller, now);
    now.saturating_duration_since(since) < APPEARS
}

/// Removes what is on record of a disk that was wiped.
///
/// # Errors
/// It cannot be read or removed.
pub fn forget(node: &Node, identity: &str) -> HostResult<()> {
    let folder = node.passthrough_dir();
    blocking::here(|| {
        let records = of_disk(&folder, identity)?;
        records.iter().try_for_each(|one| remove(&folder, one))
    })
}

fn remove(folder: &Path, one: &Given) -> HostResult<()> {
    let folder = folder.join(one.vm.as_str());
    let file = folder.join(one.controller.to_string());
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io_error(format!("cannot remove {}", file.display()))(error))
        }
        _ => {
            // the last one takes the VM's folder with it
            let _ = std::fs::remove_dir(&folder);
            Ok(())
        }
    }
}

fn put(
    folder: &Path,
    vm: &VmName,
    address: &PciAddress,
    disk: &common::NvmeDisk,
) -> HostResult<()> {
    let failed = || io_error("cannot put a disk on record that is passed through");
    let folder = folder.join(vm.as_str());
    std::fs::create_dir_all(&folder).map_err(failed())?;
    let whole = folder.join(address.to_string());
    let partial = whole.with_extension("partial");
    std::fs::write(&partial, disk.encode_to_vec()).map_err(failed())?;
    std::fs::File::open(&partial)
        .and_then(|file| file.sync_all())
        .map_err(failed())?;
    std::fs::rename(&partial, &whole).map_err(failed())
}

fn everything(folder: &Path) -> HostResult<Vec<Given>> {
    let mut found = Vec::new();
    for name in names(folder)? {
        let Ok(vm) = name.parse() else { continue };
        found.extend(of_vm(folder, &vm)?);
    }
    Ok(found)
}

fn of_disk(folder: &Path, identity: &str) -> HostResult<Vec<Given>> {
    let mut all = everything(folder)?;
    all.retain(|one| one.disk.by_id == identity);
    Ok(all)
}

fn of_vm(folder: &Path, vm: &VmName) -> HostResult<Vec<Given>> {
    let folder = folder.join(vm.as_str());
    let mut found = Vec::new();
    for name in names(&folder)? {
        // one that was not written to its end has another name
        let Ok(controller) = name.parse() else {
            continue;
        };
        let file = folder.join(&name);
        let bytes = std::fs::read(&file);
        let bytes = bytes.map_err(io_error(format_args!("cannot read {}", file.display())))?;
        let disk = common::NvmeDisk::decode(bytes.as_slice());
        let strange = |_| {
            let message = format!("{} is no record of a disk", file.display());
            HostError::host(ErrorReason::HostNotReady, message)
        };
        found.push(Given {
            vm: vm.clone(),
            controller,
            disk: disk.map_err(strange)?,
        });
    }
    Ok(found)
}

/// Names in a folder, in order; none in one that is not there.
fn names(folder: &Path) -> HostResult<Vec<String>> {
    let failed = || io_error(format!("cannot read {}", folder.display()));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed()(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(entry.map_err(failed())?.file_name().into_string().ok());
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
#[path = "passthrough_tests.rs"]
mod tests;
