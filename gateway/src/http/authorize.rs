//! Who calls and whether that one may: token → identity → principal → the method's audience.
use std::sync::Arc;

use gpuaas_common::audit;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, HeaderValue, header};
use sqlx::PgPool;
use tonic::Code;

use super::headers;
use crate::app::App;
use crate::auth::sessions::Session;
use crate::auth::verify::Identity;
use crate::contract::access::{Access, Audience};
use crate::error::ApiError;
use crate::store::{self, Principal};

/// Decides for one request; a denial of someone who proved who they are is put on record.
///
/// # Errors
/// 401 without a good token, 403 for a principal that is not registered or not allowed.
pub async fn authorize(
    app: &App,
    headers: &HeaderMap,
    access: &Access,
    request_id: &str,
) -> Result<Arc<Session>, ApiError> {
    let (identity, session) = identify(app, headers).await?;
    let principal = session.as_ref().map(|session| &session.principal);
    let refused = match (decide(principal, access), session) {
        (Ok(()), Some(session)) => return Ok(session),
        (Ok(()), None) => unregistered(),
        (Err(error), session) => {
            let name = session.as_ref().map(|session| &*session.principal.name);
            record_denial(&app.pool, name, &identity, access, request_id).await;
            error
        }
    };
    Err(refused)
}

/// Who the bearer of the token is; no session for somebody who is not registered.
async fn identify(
    app: &App,
    headers: &HeaderMap,
) -> Result<(Identity, Option<Arc<Session>>), ApiError> {
    let token = headers::bearer(headers).map_err(challenge)?;
    let now = jiff::Timestamp::now().as_second();
    if let Some(session) = app.sessions.get(token, now) {
        return Ok((session.identity.clone(), Some(session)));
    }
    let identity = app.verifier.verify(token).await.map_err(challenge)?;
    let mark = app.sessions.mark();
    let principal = store::find_principal(&app.pool, &identity)
        .await
        .map_err(|error| {
            tracing::error!("find principal: {error}");
            ApiError::unavailable()
        })?;
    let session = principal.map(|principal| Arc::new(Session::new(identity.clone(), principal)));
    if let Some(session) = &session {
        app.sessions.keep(token, mark, session);
    }
    Ok((identity, session))
}

/// The pure decision.
fn decide(principal: Option<&Principal>, access: &Access) -> Result<(), ApiError> {
    let principal = principal.ok_or_else(unregistered)?;
    let allowed = match access.audience {
        Audience::User => true,
        Audience::Admin => principal.admin,
        Audience::Service | Audience::Host | Audience::Enrolment => false,
    };
    if allowed {
        return Ok(());
    }
    Err(denied("This needs a platform administrator.").meta("action", access.action.clone()))
}

fn unregistered() -> ApiError {
    denied("This identity is not registered here, or is disabled. Ask an administrator.")
}

fn denied(message: &str) -> ApiError {
    ApiError::new(
        Code::PermissionDenied,
        ErrorReason::PermissionDenied,
        message,
    )
}

fn challenge(error: ApiError) -> ApiError {
    if error.http_status() != http::StatusCode::UNAUTHORIZED {
        return error;
    }
    let challenge = if error.reason() == "CREDENTIAL_MISSING" {
        "Bearer"
    } else {
        "Bearer error=\"invalid_token\""
    };
    error.header(
        header::WWW_AUTHENTICATE,
        HeaderValue::from_static(challenge),
    )
}

async fn record_denial(
    pool: &PgPool,
    name: Option<&str>,
    identity: &Identity,
    access: &Access,
    request_id: &str,
) {
    let principal = name.map_or_else(
        || format!("{} {}", identity.issuer, identity.subject),
        str::to_owned,
    );
    let entry = audit::Entry {
        principal: &principal,
        action: &access.action,
        resource: &access.resource,
        resource_id: "",
        request_id,
        detail: serde_json::json!({ "outcome": "denied" }),
    };
    let written = async {
        let mut conn = pool.acquire().await.map_err(gpuaas_common::Error::from)?;
        audit::record(&mut conn, entry).await
    };
    // the denial stands whether or not it could be written
    if let Err(error) = written.await {
        tracing::error!(action = access.action, "record denial: {}", error.chain());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(audience: Audience) -> Access {
        Access {
            action: "a.b".to_owned(),
            resource: "c".to_owned(),
            audience,
            callers: Vec::new(),
        }
    }

    #[test]
    fn only_the_audience_is_let_through() {
        let principal = |admin| {
            Some(Principal {
                name: "user:a".to_owned(),
                admin,
                projects: Vec::new(),
            })
        };
        for (who, audience, allowed) in [
            (None, Audience::User, false),
            (principal(false), Audience::User, true),
            (principal(true), Audience::User, true),
            (principal(false), Audience::Admin, false),
            (principal(true), Audience::Admin, true),
            (principal(true), Audience::Service, false),
            (principal(true), Audience::Host, false),
            (principal(true), Audience::Enrolment, false),
        ] {
            assert_eq!(
                decide(who.as_ref(), &access(audience)).is_ok(),
                allowed,
                "{who:?} {audience:?}"
            );
        }
    }
}
