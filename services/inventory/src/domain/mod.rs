//! Pure types and decisions of inventory: names, bindings, readiness, approval. No clock, no database, no network.
pub mod approval;
pub mod bindings;
pub mod choice;
pub mod comparison;
pub mod history;
pub mod host_report;
pub mod life;
pub mod names;
pub mod readiness;
pub mod renewal;
pub mod report;
pub mod report_digest;
pub mod rollout;
pub mod token;
