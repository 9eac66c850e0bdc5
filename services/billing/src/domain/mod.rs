//! Pure rules of billing: money, what a ledger event does to usage, and how usage is proven right.
pub mod event;
pub mod inconsistency;
pub mod money;
pub mod reconcile;
pub mod usage;
