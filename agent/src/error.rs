//! The one error of the host: a closed reason, who may correct it, and a message for operators.
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::ids::ParseError;

/// Why something on the host was refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    /// Closed reason.
    pub reason: ErrorReason,
    /// Who may correct it.
    pub class: FailureClass,
    /// For operators.
    pub message: String,
    /// The request's field that is wrong, if one is.
    pub field: Option<&'static str>,
    /// What the guest printed last on its serial console, if it is the guest that failed.
    pub serial_log_end: String,
}

/// Result of host work.
pub type HostResult<T> = Result<T, HostError>;

impl HostError {
    /// A failure of the host's software.
    pub fn host(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            class: FailureClass::Host,
            message: message.into(),
            field: None,
            serial_log_end: String::new(),
        }
    }

    /// A failure of a device.
    pub fn device(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            class: FailureClass::Device,
            message: message.into(),
            field: None,
            serial_log_end: String::new(),
        }
    }

    /// A guest that does not answer.
    pub fn guest(reason: ErrorReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            class: FailureClass::Guest,
            message: message.into(),
            field: None,
            serial_log_end: String::new(),
        }
    }

    /// A wrong field of a request.
    pub fn invalid(field: &'static str, rule: impl Into<String>) -> Self {
        Self {
            reason: ErrorReason::FieldInvalid,
            class: FailureClass::Host,
            message: rule.into(),
            field: Some(field),
            serial_log_end: String::new(),
        }
    }

    /// Something that should not happen.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::host(ErrorReason::Internal, message)
    }

    /// A wipe that does not prove what it did.
    pub fn wipe_not_proven(message: impl Into<String>) -> Self {
        Self::device(ErrorReason::WipeNotProven, message)
    }

    /// The reason without prefix, as it stands in `OperationFailure.reason`.
    pub fn reason_name(&self) -> &'static str {
        let name = self.reason.as_str_name();
        name.strip_prefix("ERROR_REASON_").unwrap_or(name)
    }
}

impl From<ParseError> for HostError {
    fn from(error: ParseError) -> Self {
        Self::invalid(error.what, format!("must be {}", error.rule))
    }
}

impl From<rusqlite::Error> for HostError {
    fn from(error: rusqlite::Error) -> Self {
        // nothing was done: whoever called may call again, which goes well once there is space
        if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) {
            return Self::host(
                ErrorReason::Overloaded,
                "the file system of the journal is full: free some space on the host",
            );
        }
        Self::internal(format!("journal: {error}"))
    }
}

/// Puts "doing what" before an I/O error.
pub fn io_error(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> HostError {
    move |error| HostError::host(ErrorReason::HostNotReady, format!("{what}: {error}"))
}
