//! Binds a device of the slot under repair to VFIO, after another driver took it (D-56, D-80). Before the first wipe of an
//! approved slot no device of it was bound, and `bind-devices` does it afterwards. Every later repair ends well only with devices
//! that VFIO has, also on a host that has no record of what it bound; but one that is for bare metal now keeps its drivers.
use std::path::Path;

use super::devices::{Binder, bind, held_by_services, is_kept};
use super::record;
use crate::error::HostResult;
use crate::host::root::HostRoot;
use crate::ids::{PciAddress, SlotId};
use crate::journal::DeviceRow;
use crate::prepare::Machine;
use crate::prepare::mode::Modes;
use crate::settings::GpuFabric;
use crate::topology::pci;
use crate::vm::Domain;
use crate::vm::disk_sources::pci_device;

/// What is known of the host right before.
pub struct Host<'a> {
    pub machine: &'a Machine,
    pub modes: Modes,
    pub state_dir: &'a Path,
    pub fabric: &'a GpuFabric,
    /// Devices that slots were held with, as the journal has them.
    pub known: &'a [DeviceRow],
    /// All domains of the hypervisor, running and shut off.
    pub domains: &'a [Domain],
}

/// What became of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebound {
    /// VFIO has it.
    Bound,
    /// It has the driver of the host as it should, and why.
    Left(String),
    /// It was to be bound and is not, and why.
    Refused(String),
}

/// Whether a device is there and VFIO does not have it.
pub fn is_unbound(root: &HostRoot, address: &PciAddress) -> bool {
    let driver = root.link_name(format!("{}/driver", pci::folder(address)));
    pci::exists(root, address) && !driver.is_some_and(|driver| pci::is_vfio(&driver))
}

/// Binds one device of a slot that its repair holds. When it is broken off, the next call goes on.
///
/// # Errors
/// Something that must be known cannot be observed.
pub fn rebind(host: &Host<'_>, slot: SlotId, address: &PciAddress) -> HostResult<Rebound> {
    let machine = host.machine;
    let is_first = !was_proven(host, slot);
    if let Err(why) = host.modes.slice() {
        let is_left = is_first || host.modes.is_baremetal();
        return Ok(match is_left {
            true => Rebound::Left(why),
            false => Rebound::Refused(why),
        });
    }
    let was_bound =
        is_kept(machine, address) || record::read(machine, host.state_dir)?.contains(address);
    if is_first && !was_bound {
        let why = "it was never bound on this host: bind-devices binds it";
        return Ok(Rebound::Left(why.to_owned()));
    }
    if let Some(why) = in_use(host, slot, address) {
        return Ok(Rebound::Refused(why));
    }
    // what its own slot holds is the repair's to bind; whoever else holds it was found above
    let device = match Binder::new(machine)?.plan(address, false)? {
        Ok(device) => device,
        Err(why) => return Ok(Rebound::Refused(why)),
    };
    Ok(match bind(machine, host.state_dir, &device) {
        Err(why) => Rebound::Refused(why),
        Ok(()) => Rebound::Bound,
    })
}

/// Whether a wipe of the slot was proven on this host, so that the slot was offered with what it has.
fn was_proven(host: &Host<'_>, slot: SlotId) -> bool {
    let mut own = host.known.iter().filter(|row| row.slot == slot);
    own.any(|row| row.proven_generation.is_some())
}

/// Why nobody may take the device from whoever has it now.
fn in_use(host: &Host<'_>, slot: SlotId, address: &PciAddress) -> Option<String> {
    let text = address.to_string();
    let known = host.known.iter().filter(|row| row.device == text);
    let (own, others): (Vec<_>, Vec<_>) = known.partition(|row| row.slot == slot);
    if let Some(other) = others.iter().find(|row| row.held) {
        return Some(format!("slot {} is held with it", other.slot));
    }
    if !own.iter().any(|row| row.held) {
        return Some(format!("slot {slot} is not held with it"));
    }
    let device = pci_device(address);
    let mut domains = host.domains.iter();
    if let Some(domain) = domains.find(|domain| domain.disk_sources.contains(&device)) {
        return Some(format!("domain {} has it", domain.name));
    }
    held_by_services(host.machine, host.fabric)
}
