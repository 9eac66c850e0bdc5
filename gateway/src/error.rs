//! The one error shape of the API: `google.rpc.Status` as JSON, and the HTTP status of each code.
use axum::body::Body;
use axum::response::Response;
use gpuaas_proto::google::rpc::{
    BadRequest, ErrorInfo, RequestInfo, RetryInfo, Status, bad_request::FieldViolation,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderValue, StatusCode, header};
use prost::Message as _;
use prost_types::Any;
use tonic::Code;

use crate::json::Json;
use crate::json::write::write_any;

/// The `ErrorInfo.domain` of all our errors.
pub const DOMAIN: &str = "gpuaas";

/// An answer that is not a success.
#[derive(Clone, Debug)]
pub struct ApiError(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    code: Code,
    http: StatusCode,
    reason: String,
    message: String,
    violations: Vec<(String, String)>,
    metadata: Vec<(String, String)>,
    /// Details of an upstream's error that are neither `ErrorInfo` nor `BadRequest`, passed through.
    others: Vec<Any>,
    headers: Vec<(header::HeaderName, HeaderValue)>,
}

impl ApiError {
    /// An error of the gateway itself. `message` is a sentence for the caller.
    pub fn new(code: Code, reason: ErrorReason, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            code,
            http: http_status(code),
            reason: reason_name(reason),
            message: message.into(),
            violations: Vec::new(),
            metadata: Vec::new(),
            others: Vec::new(),
            headers: Vec::new(),
        }))
    }

    /// Our own fault; the caller learns only that.
    pub fn internal() -> Self {
        Self::new(
            Code::Internal,
            ErrorReason::Internal,
            "Something went wrong on our side. Give the request id to support.",
        )
    }

    /// A part behind the gateway does not answer.
    pub fn unavailable() -> Self {
        Self::new(
            Code::Unavailable,
            ErrorReason::DependencyUnavailable,
            "A part of the platform does not answer right now. Try again in a moment with the same idempotency key.",
        )
        .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// Adds a field and the rule it breaks.
    #[must_use]
    pub fn violation(mut self, field: impl Into<String>, rule: impl Into<String>) -> Self {
        self.0.violations.push((field.into(), rule.into()));
        self
    }

    /// Adds an entry of `ErrorInfo.metadata`.
    #[must_use]
    pub fn meta(mut self, key: &str, value: impl Into<String>) -> Self {
        self.0.metadata.push((key.to_owned(), value.into()));
        self
    }

    /// Overrides the HTTP status that the code implies.
    #[must_use]
    pub fn http(mut self, status: StatusCode) -> Self {
        self.0.http = status;
        self
    }

    /// Adds a response header.
    #[must_use]
    pub fn header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    /// The HTTP status it is answered with.
    pub fn http_status(&self) -> StatusCode {
        self.0.http
    }

    /// The `ErrorInfo.reason`.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Fields and rules.
    pub fn violations(&self) -> &[(String, String)] {
        &self.0.violations
    }

    /// Translates an upstream's status. What a service says with an `ErrorInfo` of ours is passed on; what
    /// has none (transport, panics, a refused internal token) never shows its text to the caller.
    pub fn from_status(status: &tonic::Status) -> Self {
        let details = Status::decode(status.details())
            .map(|s| s.details)
            .unwrap_or_default();
        let mut info: Option<ErrorInfo> = None;
        let mut violations = Vec::new();
        let mut others = Vec::new();
        for any in details {
            match any.type_url.rsplit('/').next() {
                Some("google.rpc.ErrorInfo") => info = ErrorInfo::decode(any.value.as_slice()).ok(),
                Some("google.rpc.BadRequest") => {
                    let bad = BadRequest::decode(any.value.as_slice()).unwrap_or_default();
                    violations.extend(
                        bad.field_violations
                            .into_iter()
                            .map(|v| (v.field, v.description)),
                    );
                }
                Some("google.rpc.RequestInfo") => {}
                _ => others.push(any),
            }
        }
        // the caller's own credential was good: an upstream that refuses ours is our misconfiguration
        let ours = matches!(status.code(), Code::Unauthenticated)
            || info
                .as_ref()
                .is_some_and(|i| i.reason == reason_name(ErrorReason::PeerNotAllowed));
        match info.filter(|i| i.domain == DOMAIN && !ours) {
            Some(info) => {
                let mut metadata: Vec<(String, String)> = info.metadata.into_iter().collect();
                metadata.sort();
                let mut error = Self(Box::new(Parts {
                    code: status.code(),
                    http: http_status_of(status.code(), &info.reason),
                    reason: info.reason,
                    message: status.message().to_owned(),
                    violations,
                    metadata,
                    others,
                    headers: Vec::new(),
                }));
                if error.0.code == Code::Unavailable {
                    error = error.header(header::RETRY_AFTER, HeaderValue::from_static("1"));
                }
                error
            }
            None => match status.code() {
                Code::Unavailable => Self::unavailable(),
                // a connection that broke while the answer was awaited; what a service says has no source
                Code::Unknown | Code::Internal if std::error::Error::source(status).is_some() => {
                    Self::unavailable()
                }
                // the channel reports its own timeout as cancelled
                Code::DeadlineExceeded | Code::Cancelled => Self::new(
                    Code::DeadlineExceeded,
                    ErrorReason::DeadlineExceeded,
                    "The platform took too long to answer. Try again with the same idempotency key.",
                ),
                Code::ResourceExhausted => overloaded(),
                _ => Self::internal(),
            },
        }
    }

    /// The header `Retry-After`, in seconds.
    pub fn retry_after(&self) -> Option<i64> {
        let mut headers = self.0.headers.iter();
        let (_, value) = headers.find(|(name, _)| *name == header::RETRY_AFTER)?;
        value.to_str().ok()?.parse().ok()
    }

    /// The JSON body.
    pub fn body(&self, request_id: &str) -> Json {
        let mut details = vec![pack(
            "google.rpc.ErrorInfo",
            &ErrorInfo {
                reason: self.0.reason.clone(),
                domain: DOMAIN.to_owned(),
                metadata: self.0.metadata.iter().cloned().collect(),
            },
        )];
        if !self.0.violations.is_empty() {
            let field_violations = self
                .0
                .violations
                .iter()
                .map(|(field, rule)| FieldViolation {
                    field: field.clone(),
                    description: rule.clone(),
                    ..Default::default()
                })
                .collect();
            details.push(pack(
                "google.rpc.BadRequest",
                &BadRequest { field_violations },
            ));
        }
        if let Some(seconds) = self.retry_after() {
            let retry_delay = Some(prost_types::Duration { seconds, nanos: 0 });
            details.push(pack("google.rpc.RetryInfo", &RetryInfo { retry_delay }));
        }
        details.extend(self.0.others.iter().cloned());
        details.push(pack(
            "google.rpc.RequestInfo",
            &RequestInfo {
                request_id: request_id.to_owned(),
                ..Default::default()
            },
        ));
        Json::Object(vec![(
            "error".to_owned(),
            Json::Object(vec![
                ("code".to_owned(), Json::Number(self.0.http.as_u16().into())),
                (
                    "status".to_owned(),
                    Json::String(code_name(self.0.code).to_owned()),
                ),
                ("message".to_owned(), Json::String(self.0.message.clone())),
                (
                    "details".to_owned(),
                    Json::List(details.iter().map(write_any).collect()),
                ),
            ]),
        )])
    }

    /// The HTTP answer.
    pub fn into_response(self, request_id: &str) -> Response {
        let mut response = Response::new(Body::from(self.body(request_id).to_text()));
        *response.status_mut() = self.0.http;
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        for (name, value) in self.0.headers {
            response.headers_mut().append(name, value);
        }
        response
    }
}

/// The gateway or a service has as much work as it takes.
pub fn overloaded() -> ApiError {
    ApiError::new(
        Code::Unavailable,
        ErrorReason::Overloaded,
        "The platform is busy. Try again in a moment.",
    )
    .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

/// The reason's name as it is on the wire.
pub fn reason_name(reason: ErrorReason) -> String {
    reason
        .as_str_name()
        .trim_start_matches("ERROR_REASON_")
        .to_owned()
}

fn pack(name: &str, message: &impl prost::Message) -> Any {
    Any {
        type_url: format!("type.googleapis.com/{name}"),
        value: message.encode_to_vec(),
    }
}

/// The HTTP status of a code with its reason. `RESOURCE_EXHAUSTED` means three things, and clients that see 429 try
/// again by themselves: only what passes by itself is 429. What a quota refuses is forbidden, until somebody raises it;
/// what capacity refuses conflicts with what others hold.
fn http_status_of(code: Code, reason: &str) -> StatusCode {
    match (code, reason) {
        (Code::ResourceExhausted, "QUOTA" | "RESERVATION_LIMIT") => StatusCode::FORBIDDEN,
        (Code::ResourceExhausted, "RATE_LIMITED") => StatusCode::TOO_MANY_REQUESTS,
        (_, "BODY_TOO_LARGE") => StatusCode::PAYLOAD_TOO_LARGE,
        (Code::ResourceExhausted, _) => StatusCode::CONFLICT,
        (code, _) => http_status(code),
    }
}

/// The HTTP status of a gRPC code, as `google.rpc.Code` documents it.
pub fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::Cancelled => StatusCode::from_u16(499).expect("a valid status"),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(code: Code, details: Vec<Any>) -> tonic::Status {
        let status = Status {
            code: code as i32,
            message: "secret text".to_owned(),
            details,
        };
        tonic::Status::with_details(code, "secret text", status.encode_to_vec().into())
    }

    #[test]
    fn an_upstream_error_keeps_reason_fields_and_other_details() {
        let status = upstream(
            Code::FailedPrecondition,
            vec![
                pack(
                    "google.rpc.ErrorInfo",
                    &ErrorInfo {
                        reason: "QUOTA".into(),
                        domain: DOMAIN.into(),
                        metadata: [("limit".to_owned(), "2".to_owned())].into(),
                    },
                ),
                pack(
                    "google.rpc.BadRequest",
                    &BadRequest {
                        field_violations: vec![FieldViolation {
                            field: "gpu_count".into(),
                            description: "at most 2".into(),
                            ..Default::default()
                        }],
                    },
                ),
                pack(
                    "google.rpc.RequestInfo",
                    &RequestInfo {
                        request_id: "inner".into(),
                        ..Default::default()
                    },
                ),
                pack("google.rpc.Unknown", &ErrorInfo::default()),
            ],
        );
        let body = ApiError::from_status(&status).body("r-1").to_text();
        assert_eq!(
            body,
            concat!(
                r#"{"error":{"code":400,"status":"FAILED_PRECONDITION","message":"secret text","details":["#,
                r#"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"QUOTA","domain":"gpuaas","metadata":{"limit":"2"}},"#,
                r#"{"@type":"type.googleapis.com/google.rpc.BadRequest","field_violations":[{"field":"gpu_count","description":"at most 2"}]},"#,
                r#"{"@type":"type.googleapis.com/google.rpc.Unknown","value":""},"#,
                r#"{"@type":"type.googleapis.com/google.rpc.RequestInfo","request_id":"r-1"}]}}"#
            )
        );
    }

    #[test]
    fn only_what_passes_by_itself_is_429() {
        for (reason, http) in [
            ("QUOTA", 403),
            ("RESERVATION_LIMIT", 403),
            ("NO_CAPACITY", 409),
            ("FRAGMENTED", 409),
            ("CAPACITY_RESERVED", 409),
            ("SLOTS_IN_USE", 409),
            ("RATE_LIMITED", 429),
            ("BODY_TOO_LARGE", 413),
        ] {
            let info = pack(
                "google.rpc.ErrorInfo",
                &ErrorInfo {
                    reason: reason.into(),
                    domain: DOMAIN.into(),
                    ..Default::default()
                },
            );
            let error = ApiError::from_status(&upstream(Code::ResourceExhausted, vec![info]));
            assert_eq!(error.http_status().as_u16(), http, "{reason}");
            let body = error.body("r").to_text();
            assert!(body.contains(r#""status":"RESOURCE_EXHAUSTED""#), "{body}");
        }
    }

    #[test]
    fn text_without_our_error_info_never_reaches_the_caller() {
        for (code, http) in [
            (Code::Unknown, 500),
            (Code::Internal, 500),
            (Code::Unauthenticated, 500),
            (Code::Unimplemented, 500),
            (Code::Unavailable, 503),
            (Code::DeadlineExceeded, 504),
            (Code::ResourceExhausted, 503),
        ] {
            let error = ApiError::from_status(&upstream(code, Vec::new()));
            assert_eq!(error.http_status().as_u16(), http, "{code:?}");
            assert!(!error.body("r").to_text().contains("secret"), "{code:?}");
        }
        let denied = pack(
            "google.rpc.ErrorInfo",
            &ErrorInfo {
                reason: "PEER_NOT_ALLOWED".into(),
                domain: DOMAIN.into(),
                ..Default::default()
            },
        );
        assert_eq!(
            ApiError::from_status(&upstream(Code::PermissionDenied, vec![denied]))
                .http_status()
                .as_u16(),
            500
        );
    }
}
