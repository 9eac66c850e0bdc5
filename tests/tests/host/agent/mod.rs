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
mod network;
mod network_former;
mod network_ipv6;
mod network_links;
mod network_metadata;
mod setup;
mod slow_disk;

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
        network::cases(),
        network_links::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
