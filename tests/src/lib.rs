//! What the cross-service tests share: the running system, its JSON API, its ledger, its host and its traces.
//!
//! All tests of this crate use one stack (see [`system::System`]), started by the first of them as a user would
//! start it, and leave it as they found it: no allocation, both slots available. One test at a time has it. The programs
//! are three: `it` is part of `make test`, `host` is `make test-host`, `chaos` is part of `make test-chaos`; the last
//! two run their tests with [`runner`].

pub mod api;
pub mod canary;
pub mod hold;
pub mod invariants;
pub mod kill;
pub mod otlp;
pub mod parts;
#[cfg(test)]
mod release_paths;
pub mod runner;
pub mod system;
pub mod throttle;
pub mod until;
