//! Work that goes on by itself: usage from events, prices to the ledger, the proof of P3.
pub mod apply;
pub mod consumer;
pub mod publisher;
pub mod reconciler;
