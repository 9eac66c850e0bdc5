//! How a step's effect can fail: for now, for good, or because the work is another's by now.
use std::time::Duration;

use gpuaas_common::Error;
use gpuaas_common::time::backoff;
use gpuaas_proto::gpuaas::agent::v1::{FailureClass, OperationFailure};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde::{Deserialize, Serialize};

/// Why a workflow failed; stored with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A name of `ErrorReason` without prefix.
    pub reason: String,
    /// For operators.
    pub message: String,
    /// The step, for example `provision.wait_login`.
    pub step: String,
    /// `guest`, `device` or `host`: decides who may correct the cause.
    pub failure_class: String,
    /// False when something may be left on the host.
    pub host_clean: bool,
    /// What the guest printed last on its serial console: for its tenant, and for no log.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub serial_log_end: Box<str>,
}

impl Failure {
    /// No retry can help: the host that was claimed is no more.
    pub fn of_replaced_host(&self) -> bool {
        self.reason == gpuaas_common::error::reason_name(ErrorReason::HostReplaced)
    }

    /// For operators: `<what> failed at <step>: <reason>: <message>`.
    pub fn detail_of(&self, what: &str) -> String {
        format!(
            "{what} failed at {}: {}: {}",
            self.step, self.reason, self.message
        )
    }
}

/// Why an effect did not come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepError {
    /// It may work later.
    Retry {
        /// A name of `ErrorReason` without prefix.
        reason: String,
        /// For operators.
        message: String,
    },
    /// It will not work.
    Fail(Failure),
    /// Another runner has the work; stop without a trace.
    Lost,
}

impl StepError {
    /// A failure for good.
    pub fn fail(reason: ErrorReason, message: impl Into<String>, class: FailureClass) -> Self {
        Self::Fail(Failure {
            reason: gpuaas_common::error::reason_name(reason).to_owned(),
            message: message.into(),
            step: String::new(),
            failure_class: class_name(class).to_owned(),
            host_clean: true,
            serial_log_end: Box::default(),
        })
    }

    /// The host's instance is another than the one that was claimed. Final for every step: what was there is gone with
    /// the instance, and the new one is not to be touched.
    pub fn replaced() -> Self {
        Self::fail(
            ErrorReason::HostReplaced,
            "the host was installed anew since the slots were claimed",
            FailureClass::Host,
        )
    }

    /// The failure as a host reported it.
    pub fn of_operation(kind: &str, failure: &OperationFailure) -> Self {
        Self::Fail(Failure {
            reason: failure.reason.clone(),
            message: failure.message.clone(),
            step: format!("{kind}.{}", failure.step),
            failure_class: class_name(failure.failure_class()).to_owned(),
            host_clean: failure.host_clean,
            serial_log_end: failure.serial_log_end.as_str().into(),
        })
    }

    /// A wrong clock of the host is a state that ends without anybody's doing more than setting it: what failed of it is
    /// tried again for as long as its step may take.
    pub fn until_clock_is_set(self) -> Self {
        match self {
            Self::Fail(Failure {
                reason, message, ..
            }) if reason == gpuaas_common::error::reason_name(ErrorReason::HostClockSkewed) => {
                Self::Retry { reason, message }
            }
            other => other,
        }
    }

    /// An answer of a host: no answer at all is distinguished from a platform service that is down.
    pub fn of_host(error: &Error) -> Self {
        match Self::from_error(error) {
            Self::Retry { reason, message }
                if reason == "DEPENDENCY_UNAVAILABLE" || reason == "DEADLINE_EXCEEDED" =>
            {
                Self::Retry {
                    reason: "HOST_UNREACHABLE".into(),
                    message,
                }
            }
            Self::Fail(failure) => {
                let device = matches!(failure.reason.as_str(), "DISK_UNSAFE" | "DEVICE_MISSING");
                let class = if device {
                    FailureClass::Device
                } else {
                    FailureClass::Host
                };
                Self::Fail(Failure {
                    failure_class: class_name(class).to_owned(),
                    ..failure
                })
            }
            other => other,
        }
    }

    fn from_error(error: &Error) -> Self {
        // a fault inside a peer is not the caller's doing and may pass
        if error.is_transient() || error.code() == tonic::Code::Internal {
            return Self::Retry {
                reason: error.reason_name().to_owned(),
                message: error.chain(),
            };
        }
        Self::Fail(Failure {
            reason: error.reason_name().to_owned(),
            message: error.chain(),
            step: String::new(),
            failure_class: class_name(FailureClass::Host).to_owned(),
            host_clean: true,
            serial_log_end: Box::default(),
        })
    }
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        Self::from_error(&error)
    }
}

impl From<sqlx::Error> for StepError {
    fn from(error: sqlx::Error) -> Self {
        Self::from_error(&Error::from(error))
    }
}

/// The stored value for a class.
pub fn class_name(class: FailureClass) -> &'static str {
    match class {
        FailureClass::Guest => "guest",
        FailureClass::Device => "device",
        FailureClass::Host | FailureClass::Unspecified => "host",
    }
}

/// Seconds to wait before the next attempt: doubling from half a second, at most `cap`.
pub fn backoff_seconds(attempts: i32, cap: f64) -> f64 {
    let attempts = u32::try_from(attempts).unwrap_or(1);
    let longest = Duration::from_secs_f64(cap);
    backoff(attempts, Duration::from_millis(500), longest).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn a_host_that_does_not_answer_is_told_apart() {
        let down = Error::new(
            Code::Unavailable,
            ErrorReason::DependencyUnavailable,
            "connect",
        );
        assert!(
            matches!(StepError::of_host(&down), StepError::Retry { reason, .. } if reason == "HOST_UNREACHABLE")
        );
        assert!(
            matches!(StepError::from(down), StepError::Retry { reason, .. } if reason == "DEPENDENCY_UNAVAILABLE")
        );
        let mounted = Error::new(Code::FailedPrecondition, ErrorReason::DiskUnsafe, "mounted");
        assert!(
            matches!(StepError::of_host(&mounted), StepError::Fail(f) if f.failure_class == "device")
        );
    }

    #[test]
    fn backoff_grows_to_its_cap() {
        let waits: Vec<f64> = [0, 1, 2, 3, 4, 100]
            .iter()
            .map(|n| backoff_seconds(*n, 5.0))
            .collect();
        assert_eq!(waits, [0.5, 0.5, 1.0, 2.0, 4.0, 5.0]);
    }
}
