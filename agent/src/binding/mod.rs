//! Binding of devices to VFIO (D-56..D-59): those of approved slots, in slice mode, and no other.
//!
//! What is approved the host knows by its journal: every approved slot is leased once for its first wipe, and the
//! journal keeps the devices that each slot was last held with. No list of PCI addresses is written by hand (D-57).
pub mod devices;
pub mod functions;
pub mod guard;
pub mod holders;
pub mod rebind;
mod record;

use std::collections::BTreeSet;
use std::path::Path;

use crate::error::HostResult;
use crate::host::blocking;
use crate::ids::PciAddress;
use crate::journal::Journal;
use crate::prepare::{Machine, runtime};

/// The devices that this agent keeps bound to VFIO at every start of the host.
///
/// # Errors
/// The record cannot be read.
pub fn bound(machine: &Machine, state_dir: &Path) -> HostResult<BTreeSet<PciAddress>> {
    record::read(machine, state_dir)
}

/// PCI devices of approved slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approved {
    /// GPUs and virtual functions.
    pub all: BTreeSet<PciAddress>,
    /// Those that an allocation holds now.
    pub held: BTreeSet<PciAddress>,
}

impl Approved {
    /// As the journal has them.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn of(journal: &Journal) -> HostResult<Self> {
        let mut found = Self::default();
        for row in blocking::here(|| journal.devices())? {
            // a disk or its controller is given to a VM while it runs, and stays with the host otherwise
            if let Ok(address) = row.device.parse::<PciAddress>() {
                if row.held {
                    found.held.insert(address.clone());
                }
                found.all.insert(address);
            }
        }
        Ok(found)
    }

    /// As the journal of a host has them; `None` where it has no journal.
    ///
    /// # Errors
    /// As [`Approved::of`].
    pub fn find(machine: &Machine, state_dir: &Path) -> HostResult<Option<Self>> {
        let journal = runtime::journal(machine, state_dir)?;
        journal.map(|journal| Self::of(&journal)).transpose()
    }

    /// The same; none where there is no journal.
    ///
    /// # Errors
    /// As [`Approved::of`].
    pub fn read(machine: &Machine, state_dir: &Path) -> HostResult<Self> {
        Ok(Self::find(machine, state_dir)?.unwrap_or_default())
    }
}
