//! What the cross-service tests share: the running system, its JSON API, its ledger, its host and its traces.
//!
//! All tests of this crate use one stack (see [`system::System`]), started by the first of them as a user would
//! start it, and leave it as they found it: no allocation, both slots available. They run one after another
//! (nextest group `lab`), since two cores carry one lab host.

pub mod api;
pub mod canary;
pub mod invariants;
pub mod kill;
pub mod otlp;
pub mod system;
pub mod until;
