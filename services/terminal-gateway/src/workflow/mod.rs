//! Background work: following the ledger's log, and sweeping.
pub(crate) mod ledger;
pub(crate) mod sweep;
