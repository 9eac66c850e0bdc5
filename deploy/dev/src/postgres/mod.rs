//! A private PostgreSQL: the server itself, and a fresh database per test.

mod server;
mod test_db;
mod vanishing;

pub use server::{Access, Server, exists};
pub use test_db::{TestDb, stop_test_server};
pub use vanishing::Vanishing;
