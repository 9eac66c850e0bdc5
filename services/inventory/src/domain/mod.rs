//! Pure types and decisions of inventory: names, bindings, readiness, approval. No clock, no database, no network.
pub mod approval;
pub mod bindings;
pub mod candidate;
pub mod choice;
pub mod comparison;
pub mod history;
pub mod host_report;
pub mod lifecycle;
pub mod names;
pub mod readiness;
pub mod renewal;
pub mod report;
pub mod report_digest;
pub mod report_fields;
pub mod rollout;
pub mod token;
pub mod topology_report;
