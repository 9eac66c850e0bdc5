//! The NVRAM of VMs: libvirt keeps the UEFI settings of each in a file that is named by the VM.
use std::path::Path;

use crate::error::{HostResult, io_error};
use crate::host::root::HostRoot;
use crate::ids::AllocationId;

/// Where the files are.
pub const FOLDER: &str = "/var/lib/libvirt/qemu/nvram";
/// What follows the name of the VM there.
const ENDING: &str = "_VARS";

/// Whose VM a file is of.
pub fn owner(file: &str) -> Option<AllocationId> {
    let (vm, _) = file.split_once(ENDING)?;
    AllocationId::of_vm(vm)
}

/// Removes the NVRAM of a VM that the hypervisor has no more (D-72, INC-26): it removes the file with the domain, and a domain that
/// was undefined without it leaves the file.
///
/// # Errors
/// The folder cannot be read, or the file not be removed.
pub fn remove(root: &HostRoot, of: AllocationId) -> HostResult<()> {
    remove_in(&root.path(FOLDER), of)
}

/// The same in another folder.
///
/// # Errors
/// See [`remove`].
pub fn remove_in(folder: &Path, of: AllocationId) -> HostResult<()> {
    if !folder.exists() {
        return Ok(());
    }
    let failed = || io_error(format!("cannot remove NVRAM in {}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        if entry.file_name().to_str().and_then(owner) == Some(of) {
            std::fs::remove_file(entry.path()).map_err(failed())?;
        }
    }
    Ok(())
}
