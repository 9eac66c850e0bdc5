//! The HTTP side: one request's way through it, headers and limits.
pub(crate) mod answer;
pub mod authorize;
pub mod call;
pub mod cors;
pub mod deprecation;
pub mod document;
pub mod headers;
pub mod listener;
pub(crate) mod reach;
mod reserved;
mod streamed;
pub(crate) mod subscribe;
mod ticket;
pub mod tls;
