//! Refusals in the form of SCIM (RFC 7644, 3.12).
use axum::body::Body;
use axum::response::Response;
use gpuaas_common::Error;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::json;
use tonic::{Code, Status};

use crate::error::ApiError;

/// Of all answers.
pub(super) const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/scim+json");

/// What every function of this module answers with.
pub type Result<T> = std::result::Result<T, ScimError>;

/// A refusal.
#[derive(Debug)]
pub struct ScimError(Box<Parts>);

#[derive(Debug)]
struct Parts {
    status: StatusCode,
    scim_type: &'static str,
    detail: String,
    headers: HeaderMap,
}

impl ScimError {
    /// A refusal without a type.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            status,
            scim_type: "",
            detail: detail.into(),
            headers: HeaderMap::new(),
        }))
    }

    /// A bad request of one of the types of RFC 7644, table 9.
    pub fn bad(scim_type: &'static str, detail: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::BAD_REQUEST, detail);
        error.0.scim_type = scim_type;
        error
    }

    /// A value that an attribute does not take.
    pub fn invalid_value(attribute: &str, rule: &str) -> Self {
        Self::bad("invalidValue", format!("{attribute} {rule}."))
    }

    /// Somebody else has what must be unique.
    pub fn taken(detail: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::CONFLICT, detail);
        error.0.scim_type = "uniqueness";
        error
    }

    /// Nothing of this kind in the organisation.
    pub fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("There is no such {what}."))
    }

    /// It may not be done, whoever asks.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.insert(name, value);
        self
    }

    /// Its HTTP status.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// What the log calls it.
    pub fn reason(&self) -> &'static str {
        match self.0.scim_type {
            "" => "SCIM",
            other => other,
        }
    }

    /// As the client gets it.
    pub fn into_response(self) -> Response {
        let Parts {
            status,
            scim_type,
            detail,
            headers,
        } = *self.0;
        let mut body = json!({
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"],
            "status": status.as_str(),
            "detail": detail,
        });
        if !scim_type.is_empty() {
            body["scimType"] = scim_type.into();
        }
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = status;
        response.headers_mut().extend(headers);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, CONTENT_TYPE);
        response
    }
}

/// What the edge refuses before it knows that SCIM is meant: its status, headers and text stay.
impl From<ApiError> for ScimError {
    fn from(error: ApiError) -> Self {
        let mut converted = Self::new(error.http_status(), error.message());
        let response = error.into_response("");
        for name in [header::WWW_AUTHENTICATE, header::RETRY_AFTER, header::ALLOW] {
            if let Some(value) = response.headers().get(&name) {
                converted.0.headers.insert(name, value.clone());
            }
        }
        converted
    }
}

impl From<Error> for ScimError {
    fn from(error: Error) -> Self {
        if matches!(error.code(), Code::Internal | Code::Unavailable) {
            tracing::error!("answer SCIM: {}", error.chain());
        }
        ApiError::from_status(&Status::from(error)).into()
    }
}

impl From<sqlx::Error> for ScimError {
    fn from(error: sqlx::Error) -> Self {
        Error::from(error).into()
    }
}
