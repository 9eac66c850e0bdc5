//! Which files of `driverctl` this agent wrote: they go with the approval that they were written for, and no other file
//! does. An operator may have chosen the same driver for a device of their own.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{HostResult, io_error};
use crate::ids::PciAddress;
use crate::prepare::{Machine, apply};

/// One address a line, in the agent's state.
const FILE: &str = "vfio-devices";

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join(FILE)
}

/// The devices whose file is ours.
///
/// # Errors
/// The record cannot be read.
pub fn read(machine: &Machine, state_dir: &Path) -> HostResult<BTreeSet<PciAddress>> {
    let path = file(state_dir);
    let text = machine.root.value(&path);
    let text = text.map_err(io_error(format_args!("cannot read {}", path.display())))?;
    let lines = text.unwrap_or_default();
    Ok(lines.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Changes the record; the edit says whether it did. A device enters it before its file is written, and leaves it after the file is gone, so that a
/// host that loses power in between forgets none.
///
/// # Errors
/// The record cannot be read or written.
pub fn change(
    machine: &Machine,
    state_dir: &Path,
    edit: impl FnOnce(&mut BTreeSet<PciAddress>) -> bool,
) -> HostResult<()> {
    let mut devices = read(machine, state_dir)?;
    if !edit(&mut devices) {
        return Ok(());
    }
    let text: String = devices.iter().map(|one| format!("{one}\n")).collect();
    let path = file(state_dir);
    apply::write_file(&machine.root.path(&path), &text, 0o644)
        .map_err(io_error(format_args!("cannot write {}", path.display())))
}
