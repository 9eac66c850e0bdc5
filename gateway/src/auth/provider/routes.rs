//! The addresses of the provider.
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::json;

use super::request::provider;
use super::{OAuthError, authorize, device, json_response, leave, pages, token, wrong_code};
use crate::app::{App, Id};
use crate::auth::form::Form;
use crate::auth::settings::default_scopes;
use crate::error::ApiError;

const AUTHORIZE: &str = "/dev/authorize";
const DEVICE_PAGE: &str = "/dev/device";
const END_SESSION: &str = "/dev/end-session";
const TOKEN: &str = "/dev/token";
const DEVICE: &str = "/dev/device/authorize";
const REVOKE: &str = "/dev/revoke";

/// Whether programs ask at a path, and read refusals in the form of OAuth.
pub fn reads_oauth(path: &str) -> bool {
    matches!(path, TOKEN | DEVICE | REVOKE)
}

/// Whether a path is a page, whose refusals people read.
pub fn is_page(path: &str) -> bool {
    matches!(path, AUTHORIZE | DEVICE_PAGE | END_SESSION)
}

/// The addresses of the provider.
pub fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/.well-known/openid-configuration", get(metadata))
        .route(AUTHORIZE, get(authorize::show).post(authorize::decide))
        .route(TOKEN, post(token::token))
        .route(DEVICE, post(device::begin))
        .route(DEVICE_PAGE, get(device::show).post(device::decide))
        .route(REVOKE, post(leave::revoke))
        .route(END_SESSION, get(leave::end_session))
        .route("/dev/ticket", post(ticket))
        .route("/dev/page.css", get(|| async { pages::style() }))
}

async fn metadata(State(app): State<Arc<App>>) -> Response {
    let Some(provider) = &app.provider else {
        return OAuthError::internal().into_response();
    };
    json_response(&json!({
        "issuer": provider.issuer.address(),
        "authorization_endpoint": provider.at(AUTHORIZE),
        "token_endpoint": provider.at(TOKEN),
        "device_authorization_endpoint": provider.at(DEVICE),
        "revocation_endpoint": provider.at(REVOKE),
        "end_session_endpoint": provider.at(END_SESSION),
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
