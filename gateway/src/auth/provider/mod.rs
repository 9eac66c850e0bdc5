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
mod token;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use serde_json::{Value, json};
use tonic::Code;

use super::dev_issuer::DevIssuer;
use super::form::Form;
use super::settings::default_scopes;
use crate::app::{App, Id};
use crate::error::ApiError;
use crate::store;
use grants::Grants;

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

/// The addresses of the provider.
pub fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/.well-known/openid-configuration", get(metadata))
        .route(
            "/dev/authorize",
            get(authorize::show).post(authorize::decide),
        )
        .route("/dev/token", post(token::token))
        .route("/dev/device/authorize", post(device::begin))
        .route("/dev/device", get(device::show).post(device::decide))
        .route("/dev/revoke", post(leave::revoke))
        .route("/dev/end-session", get(leave::end_session))
        .route("/dev/ticket", post(ticket))
        .route("/dev/page.css", get(|| async { pages::style() }))
}

async fn metadata(State(app): State<Arc<App>>) -> Response {
    let Some(provider) = &app.provider else {
        return OAuthError::internal().into_response();
    };
    json_response(&json!({
        "issuer": provider.issuer.address(),
        "authorization_endpoint": provider.at("/dev/authorize"),
        "token_endpoint": provider.at("/dev/token"),
        "device_authorization_endpoint": provider.at("/dev/device/authorize"),
        "revocation_endpoint": provider.at("/dev/revoke"),
        "end_session_endpoint": provider.at("/dev/end-session"),
        "jwks_uri": provider.at("/.well-known/jwks.json"),
        "scopes_supported": default_scopes(),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token", token::DEVICE_CODE],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["EdDSA"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "claims_supported": ["iss", "aud", "sub", "exp", "iat", "auth_time", "nonce", "sid", "preferred_username"],
        "authorization_response_iss_parameter_supported": true,
        "request_uri_parameter_supported": false,
    }))
}

/// Exchanges the stack's code for a ticket that a link to one of the pages carries in place of the code.
async fn ticket(
    State(app): State<Arc<App>>,
    Extension(Id(id)): Extension<Id>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let taken = async {
        let provider = provider(&app, &headers)?;
        let form = Form::read(&headers, body, app.body_timeout).await;
        if !form.is_some_and(|form| provider.issuer.is_code(form.get("code").trim())) {
            return Err(wrong_code());
        }
        let ticket = provider.grants.ticket(Timestamp::now().as_second());
        ticket.ok_or_else(ApiError::unavailable)
    };
    match taken.await {
        Ok(ticket) => json_response(&json!({ "ticket": ticket })),
        Err(error) => error.into_response(&id),
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

fn provider<'a>(app: &'a App, headers: &HeaderMap) -> Result<&'a Provider, ApiError> {
    let provider = app.provider.as_ref().filter(|_| is_local(headers));
    provider.ok_or_else(|| {
        ApiError::new(
            Code::PermissionDenied,
            ErrorReason::PermissionDenied,
            "Development sign-in works only from this machine: open the console at http://127.0.0.1 and its port.",
        )
    })
}

/// Whether the request names a loopback host and, when a page sent it, comes from a page of that host.
fn is_local(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(host) = text(header::HOST) else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let loopback = matches!(name, "127.0.0.1" | "localhost" | "[::1]");
    let same_page = match headers.get(header::ORIGIN) {
        None => true,
        Some(_) => text(header::ORIGIN)
            .and_then(|o| {
                o.strip_prefix("http://")
                    .or_else(|| o.strip_prefix("https://"))
            })
            .is_some_and(|page| page == host),
    };
    loopback && same_page
}

/// The subject of a principal that may sign in now.
async fn subject_of(app: &App, principal: &str) -> Result<Option<String>, ApiError> {
    let Some(provider) = &app.provider else {
        return Ok(None);
    };
    // what no text of the database holds
    if principal.contains(char::is_control) {
        return Ok(None);
    }
    let found = store::subject_of(&app.pool, provider.issuer.issuer(), principal);
    found.await.map_err(|error| database(&error))
}

fn database(error: &sqlx::Error) -> ApiError {
    tracing::error!("read principals: {error}");
    ApiError::unavailable()
}

/// An error of RFC 6749, 5.2.
#[derive(Debug)]
struct OAuthError {
    name: &'static str,
    description: String,
    status: StatusCode,
}

impl OAuthError {
    fn new(name: &'static str, description: &str) -> Self {
        Self {
            name,
            description: description.to_owned(),
            status: StatusCode::BAD_REQUEST,
        }
    }

    fn internal() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            ..Self::new("server_error", "Something went wrong on our side.")
        }
    }

    fn into_response(self) -> Response {
        let mut response =
            json_response(&json!({ "error": self.name, "error_description": self.description }));
        *response.status_mut() = self.status;
        response
    }
}

impl From<ApiError> for OAuthError {
    fn from(error: ApiError) -> Self {
        let name = match error.http_status().is_server_error() {
            true => "temporarily_unavailable",
            false => "access_denied",
        };
        Self {
            status: error.http_status(),
            ..Self::new(name, error.message())
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_signs_in() {
        for (host, origin, local) in [
            ("127.0.0.1:7080", None, true),
            ("localhost:7080", None, true),
            ("[::1]:7080", None, true),
            ("127.0.0.1:7080", Some("http://127.0.0.1:7080"), true),
            ("127.0.0.1:7080", Some("http://127.0.0.1:7081"), false),
            ("127.0.0.1:7080", Some("https://evil.example"), false),
            ("127.0.0.1:7080", Some("null"), false),
            ("evil.example:7080", Some("http://evil.example:7080"), false),
            ("127.0.0.1.evil.example", None, false),
            ("", None, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(is_local(&headers), local, "{host} {origin:?}");
        }
        assert!(!is_local(&HeaderMap::new()));
    }
}
