//! Back-channel logout (OpenID Connect Back-Channel Logout 1.0): an issuer says that somebody has signed out.
//!
//! From then on the tokens of that sign-in are refused, however long they are valid, and the streams and terminals that
//! were opened by them end at their next check. A logout with a `sid` ends the tokens that name this `sid`; of tokens
//! that name none, and by a logout without `sid`, it ends those of the subject that were issued before.
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::form::Form;
use super::provider::{OAuthError, is_temporary};
use super::verify::{Candidate, SubjectClaim, Verifier, invalid};
use crate::app::{App, Id};
use crate::error::ApiError;
use crate::store::{self, Logout};

/// Where issuers send logout tokens.
pub const PATH: &str = "/api/v1/auth/back-channel-logout";
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
/// A logout token older than this, in seconds, is refused: issuers send them at once.
const MAX_AGE: i64 = 600;

/// The address for issuers.
pub fn router() -> Router<Arc<App>> {
    Router::new().route(PATH, post(take))
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    oid: Option<String>,
    sid: Option<String>,
    jti: Option<String>,
    iat: f64,
    events: Map<String, Value>,
    nonce: Option<Value>,
}

impl Verifier {
    /// Checks a logout token; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// What is wrong with it; `DEPENDENCY_UNAVAILABLE` when the key may be one that the issuer has but the gateway has not
    /// fetched.
    pub async fn verify_logout(&self, token: &str, now: i64) -> Result<Logout, ApiError> {
        let Candidate {
            issuer,
            key,
            mut validation,
            kind,
        } = self.candidate(token).await?;
        if issuer.clients.is_empty() {
            return Err(invalid("its issuer has no client here"));
        }
        let kind = kind.map(|kind| kind.to_ascii_lowercase());
        if !matches!(kind.as_deref(), None | Some("jwt" | "logout+jwt")) {
            return Err(invalid("it is not a logout token"));
        }
        validation.set_required_spec_claims(&["aud", "iss"]);
        validation.set_audience(&issuer.clients);
        let claims = jsonwebtoken::decode::<Claims>(token, &key, &validation)
            .map_err(|_| invalid("its signature or claims are wrong"))?
            .claims;
        let event = claims.events.get(EVENT);
        if !event.is_some_and(Value::is_object) || claims.nonce.is_some() {
            return Err(invalid("it is not a logout token"));
        }
        let issued = claims.iat as i64;
        if (now - issued).abs() > MAX_AGE {
            return Err(invalid("it was not issued just now"));
        }
        let short = |text: Option<String>| text.filter(|text| is_short(text));
        let jti = short(claims.jti).ok_or_else(|| invalid("it lacks the claim jti"))?;
        // by the same claim as its tokens: another one may be of somebody else
        let (claim, named) = match issuer.subject_claim {
            SubjectClaim::Sub => ("sub", claims.sub),
            SubjectClaim::Oid => ("oid", claims.oid),
        };
        let (subject, sid) = (short(named), short(claims.sid));
        if subject.is_none() && sid.is_none() {
            return Err(invalid(&format!("it names neither {claim} nor sid")));
        }
        Ok(Logout {
            issuer: issuer.name.clone(),
            jti,
            subject,
            sid,
            issued,
            days: issuer.logout_days,
        })
    }
}

fn is_short(text: &str) -> bool {
    (1..=255).contains(&text.len()) && !text.contains(char::is_control)
}

async fn take(
    State(app): State<Arc<App>>,
    Extension(Id(id)): Extension<Id>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let form = Form::read(&headers, body, app.body_timeout).await;
    let taken = async {
        let form = form.ok_or_else(|| invalid("the body is not a form with logout_token"))?;
        let now = jiff::Timestamp::now().as_second();
        let logout = app
            .verifier
            .verify_logout(form.get("logout_token"), now)
            .await?;
        let is_new = store::end_sign_in(&app.pool, &logout)
            .await
            .map_err(|error| {
                tracing::error!("record a logout: {error}");
                ApiError::unavailable()
            })?;
        if !is_new {
            return Err(invalid("it was sent before"));
        }
        app.sessions.forget_all();
        Ok(logout)
    };
    match taken.await {
        Ok(logout) => {
            tracing::info!(issuer = logout.issuer, request_id = id, "end a sign-in");
            Response::new(Body::empty())
        }
        Err(error) => {
            tracing::info!(
                request_id = id,
                "refuse a logout token: {}",
                error.message()
            );
            refused(error).into_response()
        }
    }
}

/// The answer that the specification asks for.
fn refused(error: ApiError) -> OAuthError {
    match is_temporary(&error) {
        true => error.into(),
        false => OAuthError::new("invalid_request", error.message()),
    }
}
