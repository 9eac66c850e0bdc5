//! The embedded issuer as an OpenID provider: what a browser and a command line need to sign in on a developer's machine.
//!
//! Authorization code with PKCE and device authorization, refresh tokens that are used once, revocation and logout; all of
//! its state is in memory. Others may use this machine too, so somebody signs in only with the code of a file that only
//! the stack's owner can read. Besides, its addresses answer only requests that name a loopback host and come from a page
//! of that same host: a page of another site can neither call them nor, by pointing its own name at this machine, read
//! them. It is off unless configured.
mod authorize;
pub mod clients;
mod device;
pub mod grants;
mod leave;
mod pages;
mod request;
pub mod routes;
mod token;

use axum::body::Body;
use axum::response::Response;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tonic::Code;

use super::dev_issuer::DevIssuer;
use super::form::Form;
use crate::error::ApiError;
use grants::Grants;
pub(crate) use pages::refusal as refusal_page;

/// The embedded issuer with what it remembers.
#[derive(Debug)]
pub struct Provider {
    /// Signs.
    pub issuer: DevIssuer,
    grants: Grants,
}

impl Provider {
    /// One that remembers nothing yet.
    pub fn new(issuer: DevIssuer) -> Self {
        Self {
            issuer,
            grants: Grants::default(),
        }
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.issuer.address())
    }

    /// What a page proves the right to sign in with: the stack's code, or a ticket for it.
    fn proves(&self, form: &Form, now: i64) -> bool {
        self.issuer.is_code(form.get("code").trim())
            || self.grants.take_ticket(form.get("ticket"), now)
    }
}

fn wrong_code() -> ApiError {
    ApiError::new(
        Code::PermissionDenied,
        ErrorReason::CredentialInvalid,
        "code: is not that of this stack. Open the link that `make status` prints.",
    )
    .violation("code", "must be that of the stack")
}

/// An error of RFC 6749, 5.2.
#[derive(Debug)]
pub(crate) struct OAuthError {
    name: &'static str,
    description: String,
    status: StatusCode,
    /// In seconds.
    retry_after: Option<i64>,
}

impl OAuthError {
    pub(crate) fn new(name: &'static str, description: &str) -> Self {
        Self {
            name,
            description: description.to_owned(),
            status: StatusCode::BAD_REQUEST,
            retry_after: None,
        }
    }

    fn internal() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            ..Self::new("server_error", "Something went wrong on our side.")
        }
    }

    pub(crate) fn into_response(self) -> Response {
        let mut response =
            json_response(&json!({ "error": self.name, "error_description": self.description }));
        *response.status_mut() = self.status;
        if let Some(seconds) = self.retry_after {
            let seconds = HeaderValue::from(seconds);
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        response
    }
}

impl From<ApiError> for OAuthError {
    fn from(error: ApiError) -> Self {
        let name = match is_temporary(&error) {
            true => "temporarily_unavailable",
            false => "access_denied",
        };
        Self {
            status: error.http_status(),
            retry_after: error.retry_after(),
            ..Self::new(name, error.message())
        }
    }
}

/// Whether the same request may be answered later, so that nobody has decided on it.
pub(crate) fn is_temporary(error: &ApiError) -> bool {
    let status = error.http_status();
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}

fn json_response(value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// A redirect to an address with further parameters.
fn redirect(to: &str, parameters: &[(&str, &str)]) -> Response {
    let location = url::Url::parse(to).ok().map(|mut url| {
        // an empty query would still be one
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        url.to_string()
    });
    let location = location.and_then(|text| HeaderValue::from_str(&text).ok());
    let Some(location) = location else {
        return OAuthError::internal().into_response();
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, location);
    response
}
