//! The agent on a real lab host: libvirt, QEMU, Open vSwitch, dnsmasq and loop disks in namespaces of their own,
//! with a real registry. Nothing here is a fake; the agent program has its kill points compiled in.
mod calls;
mod cycle;
mod disks;
mod faults;
mod host;
mod looks;
mod setup;
