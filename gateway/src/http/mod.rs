//! The HTTP side: one request's way through it, headers and limits.
pub mod admission;
mod answer;
pub mod authorize;
pub mod call;
pub mod cors;
pub mod deprecation;
pub mod headers;
pub mod listener;
pub mod metrics;
pub mod peer;
mod piece;
pub mod rates;
pub(crate) mod reach;
pub(crate) mod shares;
pub mod stream;
mod streamed;
pub(crate) mod subscribe;
pub mod tls;
