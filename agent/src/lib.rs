//! The host agent: leases, disk safety, images, VMs and topology of one host.
//!
//! It owns what happens on its host and nothing else: a local journal ([`journal`]) of holds, leases and
//! operations, and the effects ([`operation`]) that libvirt, dnsmasq, Open vSwitch and the disks see. The
//! control plane names approved slots; only the host knows whether they are fit now ([`plan`]).
pub mod api;
#[cfg(test)]
mod bad_input;
pub mod binding;
pub mod bounded;
pub mod build;
pub mod checks;
pub mod command;
pub mod dhcp;
pub mod disk;
pub mod enrol;
pub mod error;
pub mod faults;
pub mod gpu_fabric;
pub mod guest;
pub mod host;
pub mod ids;
pub mod image;
pub mod ingress;
pub mod ip;
pub mod journal;
pub mod lease;
pub mod leftovers;
pub mod metadata;
pub mod network;
pub mod node;
pub mod operation;
mod parity;
pub mod plan;
#[cfg(test)]
mod played;
pub mod prepare;
pub mod recorded;
pub mod retention;
pub mod serial;
pub mod settings;
pub mod telemetry;
pub mod terminal;
pub mod topology;
pub mod update;
pub mod validate;
pub mod vm;
pub mod vm_files;
pub mod wall_clock;
