//! A service behind the gateway: the common server with the real access layer, and answers made for tests.
mod allocations;
mod ledger;
mod record;
mod serial_log;

pub use allocations::{Allocations, FOREIGN, NO_LOG, SILENT};
pub use ledger::Log;
pub use record::Record;
