//! Recorded hosts: a good one, and what each change of it does to what the host reports.
mod again;
mod changes;
mod checks;
mod discovery;
mod facts;
pub mod hosts;
mod partitions;
pub mod reference_host;
mod shipped;
