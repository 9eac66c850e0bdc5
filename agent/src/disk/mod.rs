//! Disk safety (P9, D-29..D-37, INC-12, INC-15, INC-43): nothing is written to or wiped from a disk before its
//! identity is resolved anew and it is proven to be ours and unused, at that very moment.
//!
//! Facts are gathered ([`facts`]), then a pure function decides ([`decide`]); only it makes a [`ProvenDisk`]. That is
//! opened exclusively and resolved again, and only such a [`ExclusiveDisk`] can be cloned to or wiped.
pub mod decide;
mod device_number;
pub mod exclusive;
pub mod facts;
pub mod holders;
pub mod identity;
pub mod method;
pub mod mounts;
pub mod nvme;
pub(crate) mod on_their_way;
pub mod overwrite;
pub mod passthrough;
pub mod policy;
pub mod probe;
mod sanitize;
pub mod signatures;
pub mod stack;
pub mod verify;
pub mod wipe;
pub mod wipe_log;

pub use decide::{Blocker, Intent, ProvenDisk, decide};
pub use exclusive::ExclusiveDisk;
pub use facts::DiskFacts;
pub use identity::DiskIdentity;
pub use probe::DiskProbe;
