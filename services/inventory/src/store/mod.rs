//! The SQL of schema `inventory`. Statements that must commit together take a connection in a transaction.
pub mod approvals;
pub mod enrolment;
pub mod heartbeats;
pub mod host_reports;
pub mod ledger_sync;
pub mod lifecycle;
pub mod nodes;
pub mod regions;
pub mod reports;
pub mod rollouts;
pub mod tasks;
pub mod watched;
