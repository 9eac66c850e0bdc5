//! Everything that a machine needs to run the whole system for development and tests.
//!
//! One private PostgreSQL per checkout with a fresh database per test ([`postgres::TestDb`]), Redis and an OCI
//! registry ([`redis`], [`registry`]), a development certificate authority ([`ca`]) and ports that do not collide
//! ([`ports`]). Nothing here is used in production.

pub mod ca;
mod claims;
pub mod error;
pub mod health;
pub mod lab;
pub mod part;
pub mod paths;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod redis;
pub mod registry;
pub mod seed;
pub mod stack;
pub mod sweep;
pub mod until;

pub use error::{Error, Result};
