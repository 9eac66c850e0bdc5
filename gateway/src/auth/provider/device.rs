//! Device authorization (RFC 8628): a program shows a code, and somebody confirms it in a browser.
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::json;

use super::authorize::failed;
use super::clients::Client;
use super::grants::{DEVICE_SECONDS, INTERVAL_SECONDS};
use super::pages::{self, Choice};
use super::request::{database, provider, subject_of};
use super::{OAuthError, Provider, json_response};
use crate::app::{App, Id};
use crate::auth::form::Form;
use crate::error::ApiError;
use crate::store;

const UNKNOWN: &str = "No program waits with this code. Start its sign-in again.";

/// `POST /dev/device/authorize`: codes for a program.
pub(super) async fn begin(State(app): State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    let begun = async {
        let provider = provider(&app, &headers)?;
        let form = Form::read(&headers, body, app.body_timeout).await;
        let form = form.ok_or_else(|| OAuthError::new("invalid_request", "not a form"))?;
        if Client::find(form.get("client_id")) != Some(Client::Cli) {
            let said = "client_id names no client that may use device authorization";
            return Err(OAuthError::new("unauthorized_client", said));
        }
        let scope = form.get("scope");
        if !scope.split(' ').any(|scope| scope == "openid") {
            return Err(OAuthError::new("invalid_scope", "scope must have openid"));
        }
        let now = Timestamp::now().as_second();
        let codes = provider.grants.device(Client::Cli, scope, now);
        let codes = codes.ok_or_else(|| OAuthError::from(ApiError::unavailable()))?;
        let complete = provider.at(&format!("/sign-in/device?user_code={}", codes.user_code));
        Ok(json!({
            "device_code": codes.device_code,
            "user_code": codes.user_code,
            "verification_uri": provider.at("/dev/device"),
            "verification_uri_complete": complete,
            "expires_in": DEVICE_SECONDS,
            "interval": INTERVAL_SECONDS,
        }))
    };
    match begun.await {
        Ok(codes) => json_response(&codes),
        Err(error) => error.into_response(),
    }
}

/// `GET /dev/device`: asks for the code, or whom the program may sign in as.
pub(super) async fn show(
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
    let user_code = form.get("user_code");
    if user_code.is_empty() {
        return pages::ask_user_code("");
    }
    choose(&app, provider, user_code, form.get("ticket"), "").await
}

/// `POST /dev/device`: somebody has chosen.
pub(super) async fn decide(
    State(app): State<Arc<App>>,
    Extension(Id(id)): Extension<Id>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let provider = match provider(&app, &headers) {
        Ok(provider) => provider,
        Err(error) => return failed(&error, &id),
    };
    let form = Form::read(&headers, body, app.body_timeout).await;
    let form = form.unwrap_or_default();
    let user_code = form.get("user_code");
    let now = Timestamp::now().as_second();
    if !form.get("deny").is_empty() {
        return match provider.grants.decide(user_code, None, now) {
            true => done("The program is not signed in", "You can close this page."),
            false => pages::ask_user_code(UNKNOWN),
        };
    }
    let principal = form.get("principal");
    let subject = match subject_of(&app, principal).await {
        Ok(Some(subject)) => subject,
        Ok(None) => {
            let problem = "This principal is not registered with the embedded issuer.";
            return choose(&app, provider, user_code, form.get("ticket"), problem).await;
        }
        Err(error) => return failed(&error, &id),
    };
    if !provider.proves(&form, now) {
        let problem = "This code is not that of this stack.";
        return choose(&app, provider, user_code, "", problem).await;
    }
    if !provider
        .grants
        .decide(user_code, Some((&subject, principal)), now)
    {
        return pages::ask_user_code(UNKNOWN);
    }
    tracing::info!(
        principal,
        request_id = id,
        "sign in a device with the embedded issuer"
    );
    done(
        "The program is signed in",
        "Go back to it. You can close this page.",
    )
}

async fn choose(
    app: &App,
    provider: &Provider,
    user_code: &str,
    ticket: &str,
    problem: &str,
) -> Response {
    let now = Timestamp::now().as_second();
    let Some(client) = provider.grants.waiting(user_code, now) else {
        return pages::ask_user_code(UNKNOWN);
    };
    let principals = store::list_principals(&app.pool, provider.issuer.issuer()).await;
    let principals = match principals {
        Ok(principals) => principals,
        Err(error) => return failed(&database(&error), ""),
    };
    let name = client.name();
    let text = format!("Sign in {name} as one of these, if it shows this code:");
    let choice = Choice {
        title: "Sign in a program",
        text: &text,
        shown: user_code,
        problem,
        action: "/dev/device",
        hidden: &[("user_code", user_code), ("ticket", ticket)],
        asks_code: ticket.is_empty(),
        refusal: "Do not sign in",
        ..Choice::default()
    };
    let status = match problem.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::FORBIDDEN,
    };
    choice.page(&principals, status)
}

fn done(title: &str, text: &str) -> Response {
    pages::message(title, text, StatusCode::OK)
}
