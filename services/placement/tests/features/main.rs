//! What placement offers beyond one slice: whole nodes, batches, constraints, the operator's hand, explanations.
mod backfill;
mod batch;
mod busy;
mod claims;
mod constraints;
mod explain;
mod history;
mod hugepages;
mod marks;
mod operators;
mod plans;
mod policy;
mod prewarmed;
mod quotas;
mod reports;
mod reservations;
mod sweep;
mod ties;
mod whole;
mod whole_waits;
#[path = "../ledger/world.rs"]
mod world;
