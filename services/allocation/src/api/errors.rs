//! Errors of the API.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::domain::FieldError;

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        if error.missing {
            Self::required(error.field)
        } else {
            Self::invalid(error.field, error.rule)
        }
    }
}

/// A statement that failed by a deadlock or contention may be retried.
pub(super) fn worth_repeating(error: &Error) -> bool {
    error.code() == tonic::Code::Aborted && error.reason() == ErrorReason::Overloaded
}
