//! Pure rules of allocations: parsing requests, naming, judging evidence, explaining failures. No I/O,
//! no clock, no randomness of its own.

pub mod advice;
pub mod comparison;
pub mod discrepancy;
pub mod fields;
pub mod host_holds;
pub mod ingress;
pub mod names;
pub mod operation;
pub mod request;
pub mod residue;
pub mod ssh_keys;
pub mod wipe;

pub use fields::FieldError;
