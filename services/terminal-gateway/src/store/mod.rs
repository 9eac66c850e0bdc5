//! SQL of the schema `terminal`.
pub(crate) mod recordings;
pub(crate) mod sessions;
pub(crate) mod tickets;
