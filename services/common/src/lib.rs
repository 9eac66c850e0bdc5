//! What every process of the control plane shares, written once: configuration, telemetry, the gRPC server
//! and client, identities, errors, database pool, idempotency, audit, wake-ups, pages, watching.
//!
//! Nothing here is global: a [`Context`] carries all of it, so several services can run in one process.
//! Only [`run_main`] installs process-wide things (log subscriber, signal handlers).

pub mod access;
pub mod audit;
pub mod client;
pub mod config;
mod context;
pub mod db;
pub mod digest;
pub mod drift;
pub mod error;
pub mod etag;
pub mod id;
pub mod idempotency;
pub mod identity;
pub mod image;
pub mod labels;
pub mod launch;
mod main_entry;
pub mod origin;
pub mod page;
pub mod rate;
pub mod readiness;
pub mod retention;
pub mod select;
pub mod server;
pub mod ssh;
pub mod telemetry;
pub mod text;
pub mod time;
pub mod tls;
pub mod trace;
pub mod user_data;
pub mod value;
pub mod wake;
pub mod watch;

pub use context::Context;
pub use error::{Error, Result};
pub use main_entry::{run_main, stop_on_signal};

/// Re-exported so that every service cancels by the same type.
pub use tokio_util::sync::CancellationToken;
