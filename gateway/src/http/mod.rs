//! The HTTP side: one request's way through it, headers and limits.
pub mod authorize;
pub mod call;
pub mod headers;
pub mod listener;
pub mod metrics;
mod piece;
pub mod stream;
