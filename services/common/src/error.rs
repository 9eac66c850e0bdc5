//! The one error of all services, and its two-way bridge to `google.rpc.Status` with `ErrorInfo`.
use std::collections::BTreeMap;
use std::fmt;

use gpuaas_proto::google::rpc;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost::Message as _;
use tonic::{Code, Status};

/// Domain of all error reasons.
pub const DOMAIN: &str = "gpuaas";

/// Result with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error that a caller can act on: a gRPC code, a closed reason, a sentence, offending fields, details.
///
/// The cause, if any, is for the log of the process that made the error and never crosses the wire.
pub struct Error(Box<Inner>);

struct Inner {
    code: Code,
    reason: ErrorReason,
    message: String,
    fields: Vec<(String, String)>,
    metadata: BTreeMap<String, String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error with a code, a reason and a sentence for people.
    pub fn new(code: Code, reason: ErrorReason, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            reason,
            message: message.into(),
            fields: Vec::new(),
            metadata: BTreeMap::new(),
            source: None,
        }))
    }

    /// A field that breaks a rule.
    pub fn invalid(field: impl Into<String>, rule: impl Into<String>) -> Self {
        let (field, rule) = (field.into(), rule.into());
        Self::new(
            Code::InvalidArgument,
            ErrorReason::FieldInvalid,
            format!("{field}: {rule}"),
        )
        .field(field, rule)
    }

    /// A field that must be given.
    pub fn required(field: impl Into<String>) -> Self {
        let field = field.into();
        Self::new(
            Code::InvalidArgument,
            ErrorReason::FieldRequired,
            format!("{field}: must be given"),
        )
        .field(field, "must be given")
    }

    /// A fault of ours. The cause is logged where the error leaves the process, and not shown.
    pub fn internal(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::new(
            Code::Internal,
            ErrorReason::Internal,
            "internal error; the request id finds it in the logs",
        )
        .source(source)
    }

    /// Something this call needs does not answer; trying again may help.
    pub fn unavailable(
        what: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::new(
            Code::Unavailable,
            ErrorReason::DependencyUnavailable,
            format!("{what} is not available; try again"),
        )
        .source(source)
    }

    /// Adds an offending field with the rule it breaks.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>, rule: impl Into<String>) -> Self {
        self.0.fields.push((field.into(), rule.into()));
        self
    }

    /// Adds a machine-readable detail.
    #[must_use]
    pub fn meta(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// gRPC code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// Closed reason.
    pub fn reason(&self) -> ErrorReason {
        self.0.reason
    }

    /// The reason's public name, for example "GUEST_NO_LOGIN".
    pub fn reason_name(&self) -> &'static str {
        reason_name(self.0.reason)
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Offending fields with their rules.
    pub fn fields(&self) -> &[(String, String)] {
        &self.0.fields
    }

    /// Machine-readable details.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.0.metadata
    }

    /// Whether the same call may succeed later without anything else changing.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.0.code,
            Code::Unavailable | Code::Aborted | Code::DeadlineExceeded | Code::ResourceExhausted
        ) && !matches!(
            self.0.reason,
            ErrorReason::Quota | ErrorReason::ReservationLimit | ErrorReason::EtagStale
        )
    }

    /// The chain of causes, for logs.
    pub fn chain(&self) -> String {
        let mut text = self.0.message.clone();
        let mut cause: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

/// Public name of a reason: the enum value without its prefix.
pub fn reason_name(reason: ErrorReason) -> &'static str {
    reason.as_str_name().trim_start_matches("ERROR_REASON_")
}

/// The reason of a public name; unknown names are `Unspecified`.
pub fn reason_from_name(name: &str) -> ErrorReason {
    ErrorReason::from_str_name(&format!("ERROR_REASON_{name}")).unwrap_or(ErrorReason::Unspecified)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} {}: {}",
            self.0.code,
            self.reason_name(),
            self.chain()
        )
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

fn any(type_name: &str, value: Vec<u8>) -> prost_types::Any {
    prost_types::Any {
        type_url: format!("type.googleapis.com/{type_name}"),
        value,
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        if matches!(error.0.code, Code::Internal | Code::Unknown) {
            tracing::error!(
                reason = error.reason_name(),
                "answer internal error: {}",
                error.chain()
            );
        } else if error.0.source.is_some() {
            tracing::warn!(
                reason = error.reason_name(),
                "answer error: {}",
                error.chain()
            );
        }
        let info = rpc::ErrorInfo {
            reason: error.reason_name().to_owned(),
            domain: DOMAIN.to_owned(),
            metadata: error.0.metadata.clone(),
        };
        let mut details = vec![any("google.rpc.ErrorInfo", info.encode_to_vec())];
        if !error.0.fields.is_empty() {
            let violations =
                error
                    .0
                    .fields
                    .iter()
                    .map(|(field, rule)| rpc::bad_request::FieldViolation {
                        field: field.clone(),
                        description: rule.clone(),
                        ..Default::default()
                    });
            let bad = rpc::BadRequest {
                field_violations: violations.collect(),
            };
            details.push(any("google.rpc.BadRequest", bad.encode_to_vec()));
        }
        let status = rpc::Status {
            code: error.0.code as i32,
            message: error.0.message.clone(),
            details,
        };
        Status::with_details(error.0.code, error.0.message, status.encode_to_vec().into())
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let fallback = match status.code() {
            Code::Unavailable => ErrorReason::DependencyUnavailable,
            Code::DeadlineExceeded | Code::Cancelled => ErrorReason::DeadlineExceeded,
            Code::ResourceExhausted => ErrorReason::Overloaded,
            Code::NotFound => ErrorReason::NotFound,
            _ => ErrorReason::Internal,
        };
        let code = match status.code() {
            // tonic reports a connection that broke, and a timeout of the channel, in these two ways
            Code::Cancelled => Code::DeadlineExceeded,
            Code::Unknown if std::error::Error::source(&status).is_some() => Code::Unavailable,
            code => code,
        };
        let mut error = Self::new(code, fallback, status.message());
        if let Ok(decoded) = rpc::Status::decode(status.details()) {
            for detail in decoded.details {
                match detail.type_url.rsplit('/').next() {
                    Some("google.rpc.ErrorInfo") => {
                        if let Ok(info) = rpc::ErrorInfo::decode(detail.value.as_slice()) {
                            error.0.reason = reason_from_name(&info.reason);
                            error.0.metadata = info.metadata;
                        }
                    }
                    Some("google.rpc.BadRequest") => {
                        if let Ok(bad) = rpc::BadRequest::decode(detail.value.as_slice()) {
                            error.0.fields = bad
                                .field_violations
                                .into_iter()
                                .map(|v| (v.field, v.description))
                                .collect();
                        }
                    }
                    _ => {}
                }
            }
        }
        error
    }
}

impl From<sqlx::Error> for Error {
    fn from(source: sqlx::Error) -> Self {
        let sqlstate = source
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code)
            .map(std::borrow::Cow::into_owned);
        match (&source, sqlstate.as_deref()) {
            (sqlx::Error::RowNotFound, _) => {
                Self::new(Code::NotFound, ErrorReason::NotFound, "no such resource").source(source)
            }
            // deadlock, serialization failure, lock timeout: the same call may succeed
            (_, Some("40P01" | "40001" | "55P03")) => Self::new(
                Code::Aborted,
                ErrorReason::Overloaded,
                "the ledger is busy; try again",
            )
            .source(source),
            // what PostgreSQL cannot hold in a text: NUL
            (_, Some("22021")) => Self::new(
                Code::InvalidArgument,
                ErrorReason::FieldInvalid,
                "a text of the request contains the NUL character",
            )
            .source(source),
            // connection lost, shutting down, starting up, too many connections
            (_, Some(state))
                if state.starts_with("08") || state.starts_with("57P") || state == "53300" =>
            {
                Self::unavailable("the database", source)
            }
            (
                sqlx::Error::Io(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::Tls(_),
                _,
            ) => Self::unavailable("the database", source),
            _ => Self::internal(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_the_wire() {
        let sent = Error::invalid("gpu_count", "must be one of 1, 2").meta("sku", "lab-slice");
        let back = Error::from(Status::from(sent));
        assert_eq!(back.code(), Code::InvalidArgument);
        assert_eq!(back.reason(), ErrorReason::FieldInvalid);
        assert_eq!(
            back.fields(),
            [("gpu_count".to_owned(), "must be one of 1, 2".to_owned())]
        );
        assert_eq!(
            back.metadata().get("sku").map(String::as_str),
            Some("lab-slice")
        );
    }

    #[test]
    fn cause_never_crosses_the_wire() {
        let status = Status::from(Error::internal("password=hunter2"));
        assert!(!status.message().contains("hunter2"));
        assert!(!String::from_utf8_lossy(status.details()).contains("hunter2"));
    }

    #[test]
    fn every_reason_has_a_name_that_reads_back() {
        for reason in (0..200).filter_map(|n| ErrorReason::try_from(n).ok()) {
            assert_eq!(reason_from_name(reason_name(reason)), reason);
        }
    }

    #[test]
    fn transport_failure_is_unavailable() {
        assert!(Error::from(Status::unavailable("connection refused")).is_transient());
    }
}
