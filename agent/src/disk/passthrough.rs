//! NVMe disks whose controllers are passed through to VMs (D-47, `agent.profile.nvme`). libvirt takes a controller from the host's
//! driver when its VM starts and gives it back when the VM ends: a disk is cloned to, proven and wiped by the host as every
//! other one, while no VM has it.
//!
//! While a VM has it the kernel shows no disk. What the disk was is on record then, below the agent's state, so that discovery
//! and reports still have it. The guest has every command of the controller: one that made a namespace besides its own could
//! leave something there for the next tenant, so a controller with more than one is neither given to a new VM nor called clean.
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpuaas_proto::gpuaas::common::v1 as common;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost::Message as _;

use super::identity::{DiskIdentity, Resolution};
use super::method::NvmeFacts;
use super::nvme::{self, is_alone};
use super::stack::controllers;
use crate::binding::holders::Holders;
use crate::error::{HostError, HostResult, io_error};
use crate::host::blocking;
use crate::host::root::HostRoot;
use crate::ids::{PciAddress, VmName};
use crate::node::Node;
use crate::topology::{disk_details, pci};

const PROBE: &str = "/sys/bus/pci/drivers_probe";
/// How long a controller that came back may take until its disk is there, and the pause between two looks.
const APPEARS: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

/// A disk whose controller a VM was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    pub controller: PciAddress,
    /// As it was then.
    pub disk: common::NvmeDisk,
}

/// Puts the disks of a VM that is about to be defined on record, and returns their controllers, in their order.
///
/// # Errors
/// `DISK_UNSAFE` for one whose controller cannot be given to a VM alone; something cannot be read or written.
pub async fn prepare(node: &Node, vm: &VmName, devices: &[PathBuf]) -> HostResult<Vec<PciAddress>> {
    forget(node, vm)?;
    let mut found = Vec::new();
    for device in devices {
        let name = device.file_name().unwrap_or_default().to_string_lossy();
        let address = blocking::here(|| controller(&node.root, &name))?;
        let answers = disk_details::ask(&node.root, &name).await;
        let disk = blocking::here(|| {
            let disk = crate::topology::nvme::disk(&node.root, &name, &[]);
            disk_details::describe(&node.root, &disk, &answers)
        });
        let disk = common::NvmeDisk {
            // the host's name for it means nothing while the VM has it, nor do its users then
            kernel_name: String::new(),
            uses: Vec::new(),
            health: None,
            ..disk
        };
        blocking::here(|| put(&node.passthrough_dir(), vm, &address, &disk))?;
        found.push(address);
    }
    Ok(found)
}

/// Why a disk cannot be passed through, with what its controller reported.
pub fn faults(root: &HostRoot, name: &str, facts: Option<&NvmeFacts>) -> Vec<String> {
    let by_place = controller(root, name).err().map(|error| error.message);
    let by_content = match facts {
        Some(facts) => besides(facts),
        None => Some("its controller does not report its namespaces".to_owned()),
    };
    by_place.into_iter().chain(by_content).collect()
}

/// The one controller by which the host has a disk.
fn controller(root: &HostRoot, name: &str) -> HostResult<PciAddress> {
    let unsafe_to_give = |why: String| {
        let message = format!("{name} cannot be passed through: {why}");
        HostError::device(ErrorReason::DiskUnsafe, message)
    };
    let mut all = controllers(root, name)?.into_iter();
    let (Some(address), None) = (all.next(), all.next()) else {
        return Err(unsafe_to_give(
            "it is not reached by one controller alone".to_owned(),
        ));
    };
    match pci::group_faults(root, &address).as_slice() {
        [] => Ok(address),
        faults => Err(unsafe_to_give(format!(
            "its controller {address} {}",
            faults.join(", ")
        ))),
    }
}

/// Why a disk is not all that its controller has.
pub fn besides(facts: &NvmeFacts) -> Option<String> {
    let alone = is_alone(
        &facts.controller,
        facts.namespaces.as_deref(),
        facts.namespace,
    );
    (!alone).then(|| match &facts.namespaces {
        Some(all) => format!("its controller has {} namespaces", all.len()),
        None => "its controller does not list its namespaces".to_owned(),
    })
}

/// Refuses a disk whose controller has other namespaces, whether or not the host has them.
///
/// # Errors
/// `DISK_UNSAFE`; the controller does not answer.
pub async fn check_alone(root: &HostRoot, device: &Path) -> HostResult<()> {
    let name = device.file_name().unwrap_or_default().to_string_lossy();
    let text = root.read_value(format!("/sys/class/block/{name}/nsid"));
    let namespace = text.and_then(|text| text.parse().ok());
    let facts = NvmeFacts {
        controller: nvme::controller(device).await?,
        namespace: namespace.unwrap_or_default(),
        namespaces: nvme::namespaces(device).await?,
    };
    match besides(&facts) {
        None => Ok(()),
        Some(why) => {
            let message = format!("disk {name} is not its controller's only one: {why}");
            Err(HostError::device(ErrorReason::DiskUnsafe, message))
        }
    }
}

/// Sees that the host has the disks of a VM that does not run: libvirt gives controllers back when a VM ends, and may have been
/// stopped before it could. Nothing to do for a VM that was given none.
///
/// # Errors
/// `HYPERVISOR_FAILED` while a process has one of them open; something cannot be read or written.
pub async fn give_back(node: &Node, vm: &VmName) -> HostResult<()> {
    let given = blocking::here(|| of_vm(&node.passthrough_dir(), vm))?;
    if given.is_empty() {
        return Ok(());
    }
    blocking::here(|| {
        given
            .iter()
            .try_for_each(|one| take(&node.root, &one.controller))
    })?;
    // one that does not come is found to be missing by whoever needs it
    let there = async {
        for one in &given {
            let Ok(identity) = one.disk.by_id.parse::<DiskIdentity>() else {
                continue;
            };
            while node.probe.resolve(&identity).await? == Resolution::Missing {
                tokio::time::sleep(PAUSE).await;
            }
        }
        HostResult::Ok(())
    };
    tokio::time::timeout(APPEARS, there).await.unwrap_or(Ok(()))
}

/// Takes a controller from VFIO and leaves it to its own driver.
fn take(root: &HostRoot, address: &PciAddress) -> HostResult<()> {
    let folder = pci::folder(address);
    let driver = root.link_name(format!("{folder}/driver"));
    if !pci::exists(root, address) || driver.as_deref().is_some_and(|one| !pci::is_vfio(one)) {
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

/// Disks whose controllers VMs have now. One that is with its own driver again is the host's, whatever is on record.
///
/// # Errors
/// The record cannot be read.
pub fn given(root: &HostRoot, folder: &Path) -> HostResult<Vec<Given>> {
    let mut found = Vec::new();
    for name in names(folder)? {
        let Ok(vm) = name.parse() else { continue };
        found.extend(of_vm(folder, &vm)?);
    }
    found.retain(|one| {
        let driver = root.link_name(format!("{}/driver", pci::folder(&one.controller)));
        driver.is_some_and(|driver| pci::is_vfio(&driver))
    });
    Ok(found)
}

/// Removes the record of a VM.
///
/// # Errors
/// It cannot be removed.
pub fn forget(node: &Node, vm: &VmName) -> HostResult<()> {
    let folder = node.passthrough_dir().join(vm.as_str());
    blocking::here(|| match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(
            "cannot remove the record of disks that were passed through",
        )(error)),
        _ => Ok(()),
    })
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

fn of_vm(folder: &Path, vm: &VmName) -> HostResult<Vec<Given>> {
    let folder = folder.join(vm.as_str());
    let mut found = Vec::new();
    for name in names(&folder)? {
        // one that was not written to its end has another name
        let Ok(controller) = name.parse() else {
            continue;
        };
        let bytes = std::fs::read(folder.join(&name));
        let bytes = bytes.map_err(io_error(format_args!("cannot read {name}")))?;
        let disk = common::NvmeDisk::decode(bytes.as_slice());
        let disk =
            disk.map_err(|_| HostError::internal(format!("{name} is no record of a disk")))?;
        found.push(Given { controller, disk });
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
