//! The token endpoint: tokens for a code, a refresh token, or a device that somebody has confirmed.
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::clients::Client;
use super::grants::{Refusal, SignIn};
use super::leave::end;
use super::request::{provider, subject_of};
use super::{OAuthError, Provider, json_response};
use crate::app::{App, Id};
use crate::auth::dev_issuer::Kind;
use crate::auth::form::Form;

/// Grant type of RFC 8628.
pub(super) const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Lifetime of an id token, in seconds: it is read at once.
const ID_SECONDS: i64 = 300;

/// `POST /dev/token`.
pub(super) async fn token(
    State(app): State<Arc<App>>,
    Extension(Id(id)): Extension<Id>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let given = async {
        let provider = provider(&app, &headers)?;
        let form = Form::read(&headers, body, app.body_timeout).await;
        let form = form.ok_or_else(|| OAuthError::new("invalid_request", "not a form"))?;
        give(&app, provider, &form).await
    };
    match given.await {
        Ok(tokens) => json_response(&tokens),
        Err(error) => {
            tracing::debug!(request_id = id, "give no tokens: {}", error.name);
            error.into_response()
        }
    }
}

async fn give(app: &App, provider: &Provider, form: &Form) -> Result<Value, OAuthError> {
    let client = Client::find(form.get("client_id"));
    let said = "client_id names no client of this issuer";
    let client = client.ok_or_else(|| OAuthError::new("invalid_client", said))?;
    let grants = &provider.grants;
    let now = Timestamp::now();
    let seconds = now.as_second();
    let granted = match form.get("grant_type") {
        "authorization_code" => grants.redeem(
            form.get("code"),
            client,
            form.get("redirect_uri"),
            form.get("code_verifier"),
            seconds,
        ),
        "refresh_token" => grants
            .refresh(form.get("refresh_token"), client, seconds)
            .map(|sign_in| (sign_in, String::new())),
        DEVICE_CODE => grants
            .poll(form.get("device_code"), client, seconds)
            .map(|sign_in| (sign_in, String::new())),
        _ => {
            let said = "grant_type is not one of this issuer's";
            return Err(OAuthError::new("unsupported_grant_type", said));
        }
    };
    let (sign_in, nonce) = match granted {
        Ok(granted) => granted,
        Err(refusal) => return Err(refused(app, provider, refusal).await),
    };
    // who was disabled meanwhile gets no more tokens
    if subject_of(app, &sign_in.principal).await?.as_deref() != Some(&*sign_in.subject) {
        grants.end(&sign_in.sid);
        return Err(OAuthError::new("invalid_grant", "the principal is gone"));
    }
    tokens(provider, &sign_in, &nonce, now)
}

async fn refused(app: &App, provider: &Provider, refusal: Refusal) -> OAuthError {
    let (name, description) = match refusal {
        Refusal::Unknown => ("invalid_grant", "it is not known, or not for this request"),
        Refusal::Reused(sid) => {
            tracing::warn!("end a sign-in whose code or refresh token came twice");
            if let Err(error) = end(app, provider, &sid).await {
                return error.into();
            }
            ("invalid_grant", "it was used before; the sign-in has ended")
        }
        Refusal::Pending => ("authorization_pending", "nobody has confirmed the code yet"),
        Refusal::SlowDown => ("slow_down", "wait five seconds longer between two requests"),
        Refusal::Expired => ("expired_token", "the code has expired; begin again"),
        Refusal::Denied => ("access_denied", "the sign-in was refused"),
    };
    OAuthError::new(name, description)
}

fn tokens(
    provider: &Provider,
    sign_in: &SignIn,
    nonce: &str,
    now: Timestamp,
) -> Result<Value, OAuthError> {
    let client = sign_in.client.id();
    let issuer = &provider.issuer;
    let sign = |kind, seconds, claims: Value| {
        let claims: Map<String, Value> = claims.as_object().cloned().unwrap_or_default();
        let signed = issuer.sign_with(kind, &sign_in.subject, now, seconds, claims);
        signed.map_err(|error| {
            tracing::error!("sign a development token: {error}");
            OAuthError::internal()
        })
    };
    let lifetime = issuer.token_seconds();
    let access = json!({ "sid": sign_in.sid, "client_id": client, "scope": sign_in.scope });
    let mut id = json!({
        "sid": sign_in.sid,
        "auth_time": sign_in.time,
        "preferred_username": sign_in.principal,
    });
    if !nonce.is_empty() {
        id["nonce"] = nonce.into();
    }
    let refresh = provider.grants.refresh_token(sign_in, now.as_second());
    Ok(json!({
        "access_token": sign(Kind::Access, lifetime, access)?,
        "token_type": "Bearer",
        "expires_in": lifetime,
        "scope": sign_in.scope,
        "id_token": sign(Kind::Id(client), ID_SECONDS, id)?,
        "refresh_token": refresh,
    }))
}
