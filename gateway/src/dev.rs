//! Sign-in for development: who may sign in with the embedded issuer, and a short token for one of them.
//!
//! Served only while the embedded issuer is on. Others may use this machine too, so a token is signed only for who
//! brings the code of a file that only the stack's owner can read, or a token that was signed here before and is good
//! still. Besides, these addresses answer only requests that name a loopback host and come from a page of that same
//! host: a page of another site can neither call them nor, by pointing its own name at this machine, read them.
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use bytes::Bytes;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, header};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::Code;

use crate::app::{App, Id};
use crate::auth::dev_issuer::DevIssuer;
use crate::error::ApiError;
use crate::http::call::read_body;
use crate::http::headers;
use crate::store;

/// Life of a token that is signed here, in seconds.
pub const TOKEN_SECONDS: i64 = 3600;

/// The addresses below `/dev`.
pub fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/dev/identities", get(identities))
        .route("/dev/sign-in", post(sign_in))
}

async fn identities(
    State(app): State<Arc<App>>,
    Extension(Id(id)): Extension<Id>,
    headers: HeaderMap,
) -> Response {
    let listed = async {
        let issuer = issuer(&app, &headers)?;
        let principals = store::list_principals(&app.pool, issuer.issuer())
            .await
            .map_err(|error| database(&error))?;
        let identities: Vec<Value> = principals
            .into_iter()
            .map(|principal| {
                let projects: Vec<Value> = principal
                    .projects
                    .iter()
                    .map(|(id, slug)| json!({ "id": id, "slug": slug }))
                    .collect();
                json!({ "principal": principal.name, "admin": principal.admin, "projects": projects })
            })
            .collect();
        Ok(json!({ "identities": identities }))
    };
    respond(listed.await, &id)
}

/// Whom to sign in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    principal: String,
    /// What only the stack's owner can read.
    #[serde(default)]
    code: String,
}

async fn sign_in(
    State(app): State<Arc<App>>,
    Extension(Id(id)): Extension<Id>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let signed = async {
        let issuer = issuer(&app, &headers)?;
        let body = read_body(&headers, body, app.body_timeout).await?;
        let SignIn { principal, code } = parse(&headers, &body)?;
        if principal.contains(char::is_control) {
            return Err(refused("principal", "must not contain control characters"));
        }
        let subject = store::subject_of(&app.pool, issuer.issuer(), &principal)
            .await
            .map_err(|error| database(&error))?
            .ok_or_else(|| refused("principal", "is not registered with the embedded issuer"))?;
        let now = Timestamp::now();
        let renews = || {
            let token = headers::bearer(&headers).ok();
            token.and_then(|token| issuer.remaining_seconds(token, &subject, now))
        };
        if !issuer.is_code(&code) && renews().is_none_or(|left| left <= 0) {
            return Err(wrong_code());
        }
        let token = issuer.sign(&subject, now, TOKEN_SECONDS).map_err(|error| {
            tracing::error!("sign a development token: {error}");
            ApiError::internal()
        })?;
        tracing::info!(principal, "sign in with the embedded issuer");
        let end = now + SignedDuration::from_secs(TOKEN_SECONDS);
        Ok(json!({ "token": token, "expire_time": end }))
    };
    respond(signed.await, &id)
}

fn issuer<'a>(app: &'a App, headers: &HeaderMap) -> Result<&'a DevIssuer, ApiError> {
    let issuer = app.dev.as_ref().filter(|_| is_local(headers));
    issuer.ok_or_else(|| {
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

fn parse(headers: &HeaderMap, body: &Bytes) -> Result<SignIn, ApiError> {
    let json = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|kind| kind.split(';').next().map(str::trim) == Some("application/json"));
    let parsed = json.then(|| serde_json::from_slice(body).ok()).flatten();
    parsed.ok_or_else(|| {
        ApiError::new(
            Code::InvalidArgument,
            ErrorReason::BodyMalformed,
            "The body must be JSON: {\"principal\": \"user:demo\", \"code\": \"…\"}.",
        )
    })
}

fn wrong_code() -> ApiError {
    ApiError::new(
        Code::PermissionDenied,
        ErrorReason::CredentialInvalid,
        "code: is not that of this stack. Open the link that `make status` prints.",
    )
    .violation("code", "must be that of the stack")
}

fn refused(field: &str, rule: &str) -> ApiError {
    ApiError::new(
        Code::InvalidArgument,
        ErrorReason::FieldInvalid,
        format!("{field}: {rule}."),
    )
    .violation(field, rule)
}

fn database(error: &sqlx::Error) -> ApiError {
    tracing::error!("read principals: {error}");
    ApiError::unavailable()
}

fn respond(outcome: Result<Value, ApiError>, request_id: &str) -> Response {
    match outcome {
        Ok(value) => Json(value).into_response(),
        Err(error) => error.into_response(request_id),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

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

    #[test]
    fn a_form_of_another_page_is_no_sign_in() {
        let body = Bytes::from_static(b"{\"principal\":\"user:demo\"}");
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        assert!(parse(&headers, &body).is_err());
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json; charset=utf-8"),
        );
        assert_eq!(
            parse(&headers, &body).expect("parsed").principal,
            "user:demo"
        );
        assert!(
            parse(
                &headers,
                &Bytes::from_static(b"{\"principal\":\"a\",\"admin\":true}")
            )
            .is_err()
        );
    }
}
