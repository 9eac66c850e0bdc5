//! The services of this process.
pub(crate) mod admin;
mod end;
pub(crate) mod relay;
pub(crate) mod sessions;
