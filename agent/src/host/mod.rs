//! The host as files, programs and clocks.
pub mod clock;
pub mod exec;
pub mod root;
