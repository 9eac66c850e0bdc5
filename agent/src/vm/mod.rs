//! VMs: the typed domain description and the libvirt connection.
pub mod disk_sources;
pub mod domain_xml;
pub mod hypervisor;
pub mod locality;
pub mod serial_log;
pub mod usage;
mod workers;

pub use hypervisor::{Domain, Hypervisor, PowerState, without_waiting};
pub use usage::{Transferred, Usage};
