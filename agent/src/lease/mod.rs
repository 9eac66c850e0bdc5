//! Leases and holds (D-04, D-07..D-10): what may be granted, decided on plain data. The document that defined them is
//! lost (D-06); they are as docs/architecture.md has them.
//!
//! A *hold* binds a slot to an allocation until proof of release; a *lease* is the right to new effects, ended
//! by its time, by a reboot or by its owner. A token only grows per slot: a lower one is refused, and another
//! allocation's is refused however high it is while a hold exists.
mod decide;

pub use decide::{
    Elsewhere, Grant, LeaseSpec, LiveLease, MAX_SLOTS, Purpose, Refusal, SlotFacts, decide,
};
