//! The authorization endpoint: a page on which somebody chooses who to be, and the code for the client.
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;

use super::clients::Client;
use super::grants::Request;
use super::pages::{self, Choice};
use super::request::{database, provider, subject_of};
use super::{Provider, redirect};
use crate::app::{App, Id};
use crate::auth::form::Form;
use crate::error::ApiError;
use crate::store;

/// Longest value that is given back to a client.
const MAX_ECHO: usize = 512;
const TITLE: &str = "Choose who to be";

/// `GET`: checks the request and shows the page.
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
    let Some(form) = Form::parse(query.unwrap_or_default().as_bytes()) else {
        return wrong("A parameter comes twice.");
    };
    let request = match check(provider, &form) {
        Ok(request) => request,
        Err(response) => return response,
    };
    let ticket = form.get("ticket").to_owned();
    let now = Timestamp::now().as_second();
    let Some(name) = provider.grants.request(request.clone(), now) else {
        return failed(&ApiError::unavailable(), &id);
    };
    choose(&app, provider, &name, &request, &ticket, "").await
}

/// `POST`: somebody has chosen.
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
    let Some(form) = Form::read(&headers, body, app.body_timeout).await else {
        return wrong("This is not the form of the page.");
    };
    let now = Timestamp::now().as_second();
    let name = form.get("request");
    let Some(request) = provider.grants.find_request(name, now) else {
        return wrong("This page is too old. Go back to where you came from and sign in again.");
    };
    if !form.get("deny").is_empty() {
        provider.grants.cancel(name, now);
        return refuse(provider, &request, "access_denied", "Nobody was chosen.");
    }
    let principal = form.get("principal");
    let subject = match subject_of(&app, principal).await {
        Ok(Some(subject)) => subject,
        Ok(None) => {
            let problem = "This principal is not registered with the embedded issuer.";
            return choose(&app, provider, name, &request, form.get("ticket"), problem).await;
        }
        Err(error) => return failed(&error, &id),
    };
    if !provider.proves(&form, now) {
        let problem = "This code is not that of this stack.";
        return choose(&app, provider, name, &request, "", problem).await;
    }
    let Some(code) = provider.grants.approve(name, &subject, principal, now) else {
        return failed(&ApiError::unavailable(), &id);
    };
    tracing::info!(
        principal,
        request_id = id,
        "sign in with the embedded issuer"
    );
    let parameters = [("code", &*code), ("state", &*request.state)];
    lead_back(provider, &request, &parameters)
}

/// What the client asks for. What is wrong with who asks, or where the answer goes, is told to the person alone.
#[allow(
    clippy::result_large_err,
    reason = "the refusal is the whole answer, made once for a page"
)]
fn check(provider: &Provider, form: &Form) -> Result<Request, Response> {
    let client = Client::find(form.get("client_id"))
        .ok_or_else(|| wrong("client_id names no client of this issuer."))?;
    let redirect_uri = form.get("redirect_uri");
    let address = provider.issuer.address();
    if !client.may_redirect_to(redirect_uri, address) {
        return Err(wrong(&format!(
            "redirect_uri is not registered for this client. Open the console at {address}/"
        )));
    }
    let request = Request {
        client,
        redirect_uri: redirect_uri.to_owned(),
        challenge: form.get("code_challenge").to_owned(),
        state: form.get("state").to_owned(),
        nonce: form.get("nonce").to_owned(),
        scope: form.get("scope").to_owned(),
    };
    let said = |name| form.get(name);
    let refusal = if request.state.len() > MAX_ECHO || request.nonce.len() > MAX_ECHO {
        Some(("invalid_request", "state and nonce have at most 512 bytes"))
    } else if said("response_type") != "code" {
        Some(("unsupported_response_type", "response_type must be code"))
    } else if !matches!(said("response_mode"), "" | "query") {
        Some(("invalid_request", "response_mode must be query"))
    } else if !said("request").is_empty() || !said("request_uri").is_empty() {
        Some(("request_not_supported", "request objects are not supported"))
    } else if said("code_challenge_method") != "S256" || !is_challenge(&request.challenge) {
        Some((
            "invalid_request",
            "code_challenge with the method S256 is required",
        ))
    } else if !said("scope").split(' ').any(|scope| scope == "openid") {
        Some(("invalid_scope", "scope must have openid"))
    } else if said("prompt").split(' ').any(|prompt| prompt == "none") {
        Some(("login_required", "this issuer keeps nobody signed in"))
    } else {
        None
    };
    match refusal {
        Some((error, description)) => Err(refuse(provider, &request, error, description)),
        None => Ok(request),
    }
}

fn is_challenge(text: &str) -> bool {
    let base64 = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    text.len() == 43 && text.bytes().all(base64)
}

async fn choose(
    app: &App,
    provider: &Provider,
    name: &str,
    request: &Request,
    ticket: &str,
    problem: &str,
) -> Response {
    let principals = store::list_principals(&app.pool, provider.issuer.issuer()).await;
    let principals = match principals {
        Ok(principals) => principals,
        Err(error) => return failed(&database(&error), ""),
    };
    let text = format!("Sign in to {} as one of these.", request.client.name());
    let choice = Choice {
        title: TITLE,
        text: &text,
        problem,
        action: "/dev/authorize",
        hidden: &[("request", name), ("ticket", ticket)],
        asks_code: ticket.is_empty(),
        refusal: "Cancel",
        leads_to: &request.redirect_uri,
        ..Choice::default()
    };
    let status = match problem.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::FORBIDDEN,
    };
    choice.page(&principals, status)
}

fn refuse(provider: &Provider, request: &Request, error: &str, description: &str) -> Response {
    let parameters = [
        ("error", error),
        ("error_description", description),
        ("state", &*request.state),
    ];
    lead_back(provider, request, &parameters)
}

/// Back to the client, with the issuer's name so that it takes no other's answer for this one (RFC 9207).
fn lead_back(provider: &Provider, request: &Request, parameters: &[(&str, &str)]) -> Response {
    let mut parameters: Vec<(&str, &str)> = parameters
        .iter()
        .copied()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    parameters.push(("iss", provider.issuer.address()));
    redirect(&request.redirect_uri, &parameters)
}

fn wrong(text: &str) -> Response {
    pages::message("This sign-in does not work", text, StatusCode::BAD_REQUEST)
}

/// A refusal as a page.
pub(super) fn failed(error: &ApiError, request_id: &str) -> Response {
    tracing::info!(
        request_id,
        "refuse a development sign-in: {}",
        error.message()
    );
    pages::refusal(error)
}
