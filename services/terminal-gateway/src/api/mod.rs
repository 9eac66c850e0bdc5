//! The services of this process.
pub(crate) mod admin;
pub(crate) mod relay;
pub(crate) mod sessions;
