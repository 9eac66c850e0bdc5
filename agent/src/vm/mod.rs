//! VMs: the typed domain description and the libvirt connection.
pub mod calls;
pub mod disk_sources;
mod domain;
pub mod domain_xml;
pub mod hypervisor;
pub mod locality;
pub mod nvram;
pub mod serial_log;
pub mod usage;
mod workers;

pub use calls::{Hypervisor, without_waiting};
pub use domain::{Domain, PowerState};
pub use usage::{Transferred, Usage};
