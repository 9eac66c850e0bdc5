//! What the host has (discovery) and how it is (readiness). Both observe behaviour, below a configurable root
//! where they read files (A-61..A-86).
pub mod describe;
pub mod device_faults;
pub mod discover;
pub mod disk_details;
pub mod fabric;
pub mod in_use;
pub mod inspect;
pub mod machine;
mod model;
pub mod nat;
pub mod neighbors;
pub mod network;
pub mod nvme;
pub mod observed;
pub mod packet;
pub mod pci;
pub mod platform;
pub mod printable;
pub mod readiness;
pub mod wipe_policies;
