//! Ends sign-ins: revocation of a token (RFC 7009) and logout from a browser (OpenID Connect RP-Initiated Logout 1.0).
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::authorize::failed;
use super::clients::Client;
use super::request::{database, provider};
use super::{OAuthError, Provider, json_response, pages, redirect};
use crate::app::{App, Id};
use crate::auth::form::Form;
use crate::error::ApiError;
use crate::store::{self, Logout};

/// Ends a sign-in: its refresh tokens are forgotten and its access tokens refused.
pub(super) async fn end(app: &App, provider: &Provider, sid: &str) -> Result<(), ApiError> {
    provider.grants.end(sid);
    let logout = Logout {
        issuer: provider.issuer.issuer().to_owned(),
        jti: Uuid::now_v7().to_string(),
        subject: None,
        sid: Some(sid.to_owned()),
        issued: Timestamp::now().as_second(),
        days: 1,
    };
    let ended = store::end_sign_in(&app.pool, &logout).await;
    ended.map_err(|error| database(&error))?;
    app.sessions.forget_all();
    Ok(())
}

/// `POST /dev/revoke`. A token that is not known is as good as revoked.
pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let revoked = async {
        let provider = provider(&app, &headers)?;
        let form = Form::read(&headers, body, app.body_timeout).await;
        let form = form.ok_or_else(|| OAuthError::new("invalid_request", "not a form"))?;
        let client = Client::find(form.get("client_id"));
        let said = "client_id names no client of this issuer";
        let client = client.ok_or_else(|| OAuthError::new("invalid_client", said))?;
        let token = form.get("token");
        let now = Timestamp::now().as_second();
        let by_refresh = provider.grants.sid_of(token, client, now);
        if let Some(sid) = by_refresh.or_else(|| named_by(provider, token, client)) {
            end(&app, provider, &sid).await?;
        }
        Ok(())
    };
    match revoked.await {
        Ok(()) => json_response(&json!({})),
        Err(error) => OAuthError::into_response(error),
    }
}

/// The sign-in that an access token of this client comes from.
fn named_by(provider: &Provider, token: &str, client: Client) -> Option<String> {
    let claims = provider.issuer.read(token)?;
    (claims.get("client_id")? == client.id()).then_some(())?;
    Some(claims.get("sid")?.as_str()?.to_owned())
}

/// `GET /dev/end-session`: ends the sign-in that the id token names, then leads back.
pub(super) async fn end_session(
    State(app): State<Arc<App>>,
    Extension(Id(id)): Extension<Id>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let provider = match provider(&app, &headers) {
        Ok(provider) => provider,
        Err(error) => return failed(&error, &id),
    };
    let form = Form::parse(query.unwrap_or_default().as_bytes()).unwrap_or_default();
    let hint = provider.issuer.read(form.get("id_token_hint"));
    let text = |name: &str| Some(hint.as_ref()?.get(name)?.as_str()?.to_owned());
    let client = text("aud").and_then(|id| Client::find(&id));
    let (Some(client), Some(sid)) = (client, text("sid")) else {
        let said = "The request names no sign-in of this issuer, so nothing has ended.";
        return pages::message("Sign out", said, StatusCode::BAD_REQUEST);
    };
    if let Err(error) = end(&app, provider, &sid).await {
        return failed(&error, &id);
    }
    let to = form.get("post_logout_redirect_uri");
    if client.may_return_to(to, provider.issuer.address()) {
        let state = form.get("state");
        let parameters: &[(&str, &str)] = match state.is_empty() {
            true => &[],
            false => &[("state", state)],
        };
        return redirect(to, parameters);
    }
    pages::message(
        "You are signed out",
        "You can close this page.",
        StatusCode::OK,
    )
}
