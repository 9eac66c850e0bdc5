//! What stands against PCI functions: each by itself, and a virtual one by its fabric device too (A-144, D-56).
use super::fabric;
use super::pci::{self, PciDevice, PciKind, passthrough_faults};
use crate::host::root::HostRoot;

/// The same as [`pci::devices`], with what stands against each: some thousand reads on a host with many virtual functions,
/// so only an inspection does it.
pub fn inspected(root: &HostRoot) -> Vec<PciDevice> {
    let mut found = pci::devices(root);
    for device in &mut found {
        device.passthrough_faults = passthrough_faults(root, &device.address);
        if device.kind == PciKind::Fabric {
            judge_functions(root, device);
        }
    }
    found
}

fn judge_functions(root: &HostRoot, device: &mut PciDevice) {
    let whole = fabric::device(root, device);
    device.fabric_faults = fabric::faults(&whole);
    for (address, one) in device.functions.iter().zip(&whole.virtual_functions) {
        let passthrough = passthrough_faults(root, address);
        let faults = fabric::function_faults(&whole, one, &passthrough);
        if !faults.is_empty() {
            device.function_faults.insert(address.clone(), faults);
        }
    }
}
