//! The agent on a real lab host: libvirt, QEMU, Open vSwitch, dnsmasq and loop disks in namespaces of their own,
//! with a real registry. Nothing here is a fake. The tests play the control plane and share one host.
use gpuaas_tests::runner::Case;

mod attacker;
mod calls;
mod checks;
mod cycle;
mod disks;
mod faults;
mod faults_of_parts;
mod frames;
mod full_disk;
mod host;
mod inspect;
mod setup;
mod slow_disk;
mod wire;
mod wire_former;
mod wire_ipv6;
mod wire_links;
mod wire_metadata;

pub use host::LabHost;

/// Every test of the agent.
pub fn cases() -> Vec<Case> {
    [
        checks::cases(),
        cycle::cases(),
        disks::cases(),
        faults::cases(),
        faults_of_parts::cases(),
        full_disk::cases(),
        slow_disk::cases(),
        wire::cases(),
        wire_links::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
