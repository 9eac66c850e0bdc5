//! Waiting for the system, with a deadline instead of a guess.
use std::time::Duration;

pub use gpuaas_dev::until::{until, until_ok};

/// Time for one launch or release on a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(150);
