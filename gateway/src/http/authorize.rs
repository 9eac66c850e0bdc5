//! Who calls and whether that one may: token → identity → principal → the method's audience.
use gpuaas_common::audit;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, HeaderValue, header};
use sqlx::PgPool;
use tonic::Code;

use super::headers;
use crate::auth::verify::{Identity, Verifier};
use crate::contract::access::{Access, Audience};
use crate::error::ApiError;
use crate::store::{self, Principal};

/// Decides for one request; a denial of someone who proved who they are is put on record.
///
/// # Errors
/// 401 without a good token, 403 for a principal that is not registered or not allowed.
pub async fn authorize(
    verifier: &Verifier,
    pool: &PgPool,
    headers: &HeaderMap,
    access: &Access,
    request_id: &str,
) -> Result<(Principal, Identity), ApiError> {
    let identity = async { verifier.verify(headers::bearer(headers)?).await }
        .await
        .map_err(challenge)?;
    let principal = store::find_principal(pool, &identity)
        .await
        .map_err(|error| {
            tracing::error!("find principal: {error}");
            ApiError::unavailable()
        })?;
    let decision = decide(principal, access);
    if let Err((name, _)) = &decision {
        record_denial(pool, name.as_deref(), &identity, access, request_id).await;
    }
    match decision {
        Ok(principal) => Ok((principal, identity)),
        Err((_, error)) => Err(error),
    }
}

/// The pure decision; a refusal comes with the principal's name when it is registered.
fn decide(
    principal: Option<Principal>,
    access: &Access,
) -> Result<Principal, (Option<String>, ApiError)> {
    let Some(principal) = principal else {
        let error =
            denied("This identity is not registered here, or is disabled. Ask an administrator.");
        return Err((None, error));
    };
    let allowed = match access.audience {
        Audience::User => true,
        Audience::Admin => principal.admin,
        Audience::Service | Audience::Host | Audience::Enrolment => false,
    };
    if allowed {
        return Ok(principal);
    }
    let error =
        denied("This needs a platform administrator.").meta("action", access.action.clone());
    Err((Some(principal.name), error))
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
                decide(who.clone(), &access(audience)).is_ok(),
                allowed,
                "{who:?} {audience:?}"
            );
        }
    }
}
