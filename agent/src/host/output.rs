//! What a program answered.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::error::{HostError, HostResult};

/// What a program answered.
#[derive(Debug, Clone)]
pub struct Output {
    /// Exit status; -1 when a signal ended it.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Refuses a status other than zero.
    pub fn success(self, program: &str) -> HostResult<Self> {
        if self.status == 0 {
            return Ok(self);
        }
        let detail = self
            .stderr
            .trim()
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned();
        Err(HostError::host(
            ErrorReason::HostNotReady,
            format!("{program} ended with status {}: {detail}", self.status),
        ))
    }
}
