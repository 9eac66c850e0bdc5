//! Who calls and whether that one may: credential → identity → principal → what policies say of the route's action.
use std::sync::Arc;

use gpuaas_common::audit;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, HeaderValue, header};
use prost_reflect::DynamicMessage;
use sqlx::PgPool;
use tonic::Code;
use uuid::Uuid;

use super::headers;
use crate::app::App;
use crate::auth::api_keys::{self, ApiKey};
use crate::auth::second_factor;
use crate::auth::sessions::Session;
use crate::auth::verify::{Identity, NEVER};
use crate::contract::access::Access;
use crate::contract::route::Route;
use crate::contract::template::{PathVariables, Segment};
use crate::error::ApiError;
use crate::identity::note_address;
use crate::limits::rates::Class;
use crate::policy::{Grant, Refusal, named_project};
use crate::store::{self, Principal};

/// Most characters of the id of a resource on record.
const MAX_ID: usize = 200;

/// What somebody tries to do, as the audit trail names it.
#[derive(Clone, Copy)]
pub struct Attempt<'a> {
    pub access: &'a Access,
    /// Id of the resource; empty where the path names none.
    pub resource_id: &'a str,
    pub request_id: &'a str,
    /// The project that it names.
    pub project: Option<Uuid>,
    /// It is on something of a project, named or not.
    pub in_a_project: bool,
    /// With what it counts when it is refused.
    pub class: Class,
}

impl<'a> Attempt<'a> {
    /// The same, with the project that the request names.
    pub fn about(self, message: &DynamicMessage) -> Self {
        let named = named_project(message).and_then(Result::ok);
        Self {
            project: named.or(self.project),
            ..self
        }
    }

    /// The project in whose activity a denial of this principal belongs: the one that it names or, when it is on something of
    /// a project and names none, the only one that the principal is in. What a stranger tried, nobody else hears of.
    fn project_of(&self, principal: &Principal) -> Option<Uuid> {
        let only = match principal.roles.as_slice() {
            [(project, _)] if self.in_a_project => Some(*project),
            _ => None,
        };
        let project = self.project.or(only)?;
        principal.role_in(project).map(|_| project)
    }

    /// A call of a route by a path with these variables: one at the end names the resource, others what it belongs to.
    pub fn of(route: &'a Route, path: &'a PathVariables, request_id: &'a str) -> Self {
        let ends_with_id = matches!(route.template.segments.last(), Some(Segment::Variable(_)));
        let id = path.last().filter(|_| ends_with_id);
        Self {
            access: &route.access,
            resource_id: id.map_or("", |(_, value)| value),
            request_id,
            project: path
                .iter()
                .find(|(name, _)| name == "project_id")
                .and_then(|(_, value)| value.parse().ok()),
            in_a_project: route.group.is_of_a_project(),
            class: Class::of(route),
        }
    }
}

/// Who calls, and where policies allow what the route does. A denial of someone who proved who they are is put on record.
///
/// # Errors
/// 401 without a good credential, 403 for a principal that is not registered or not allowed, `RATE_LIMITED` for who is refused
/// too often.
pub async fn authorize(
    app: &App,
    headers: &HeaderMap,
    route: &Route,
    attempt: Attempt<'_>,
) -> Result<(Arc<Session>, Arc<Grant>), ApiError> {
    let session = match identify(app, headers, attempt.request_id).await? {
        Bearer::Registered(session) => session,
        Bearer::Unregistered(identity) => {
            if route.access.unregistered && !is_registered(app, &identity).await? {
                let session = Arc::new(Session::unregistered(identity));
                return Ok((session, Arc::new(Grant::default())));
            }
            return Err(refuse_unregistered(app, &identity, attempt).await);
        }
    };
    let grant = permit(app, &session, route, attempt).await?;
    Ok((session, grant))
}

/// Where policies allow somebody what the route does. A denial is put on record.
///
/// # Errors
/// 403 for who is not allowed, `RATE_LIMITED` for who is refused too often.
pub async fn permit(
    app: &App,
    session: &Session,
    route: &Route,
    attempt: Attempt<'_>,
) -> Result<Arc<Grant>, ApiError> {
    if let Err(error) = second_factor::check(session, &app.policies, route) {
        let known = Some(&session.principal);
        return Err(deny(app, known, &session.identity, attempt, error).await);
    }
    match session.grant(&app.policies, route) {
        Ok(grant) => Ok(grant),
        Err(refusal) => Err(refuse(app, session, attempt, refusal).await),
    }
}

/// The refusal of who proved who they are and is not registered or disabled, put on record.
pub async fn refuse_unregistered(app: &App, identity: &Identity, attempt: Attempt<'_>) -> ApiError {
    deny(app, None, identity, attempt, unregistered()).await
}

/// Who calls, whatever it is for.
///
/// # Errors
/// 401 without a good credential, 403 for a principal that is not registered.
pub async fn authenticate(
    app: &App,
    headers: &HeaderMap,
    request_id: &str,
) -> Result<Arc<Session>, ApiError> {
    match identify(app, headers, request_id).await? {
        Bearer::Registered(session) => Ok(session),
        Bearer::Unregistered(_) => Err(unregistered()),
    }
}

/// The refusal of a request that was not counted yet, put on record.
pub async fn refuse(
    app: &App,
    session: &Session,
    attempt: Attempt<'_>,
    refusal: Refusal,
) -> ApiError {
    let known = Some(&session.principal);
    let error = refusal.into_error();
    deny(app, known, &session.identity, attempt, error).await
}

/// Counts a denial and puts it on record. Above the limit there is no record of it, and the answer says so.
async fn deny(
    app: &App,
    known: Option<&Principal>,
    identity: &Identity,
    attempt: Attempt<'_>,
    error: ApiError,
) -> ApiError {
    let caller = name_on_record(known, identity);
    if let Err(limited) = app.rates.count_refused(attempt.class, &caller).await {
        return limited;
    }
    record_denial(&app.pool, known, identity, attempt).await;
    error
}

/// Puts a refusal on record of a request that was counted.
pub async fn record_refusal(app: &App, session: &Session, attempt: Attempt<'_>) {
    let known = session.is_registered().then_some(&session.principal);
    record_denial(&app.pool, known, &session.identity, attempt).await;
}

/// Who brings a credential.
enum Bearer {
    Registered(Arc<Session>),
    Unregistered(Identity),
}

/// Who the bearer of the credential is.
async fn identify(app: &App, headers: &HeaderMap, request_id: &str) -> Result<Bearer, ApiError> {
    let credential = headers::bearer(headers).map_err(challenge)?;
    let now = jiff::Timestamp::now().as_second();
    if let Some(session) = app.sessions.get(credential, now) {
        return Ok(Bearer::Registered(session));
    }
    let mark = app.sessions.mark();
    let identity = verify(app, credential, now).await.map_err(challenge)?;
    let has_signed_out = store::has_signed_out(&app.pool, &identity).await;
    if has_signed_out.map_err(|error| unreachable(&error))? {
        return Err(challenge(signed_out()));
    }
    let principal = store::find_principal(&app.pool, &identity)
        .await
        .map_err(|error| unreachable(&error))?;
    let Some(principal) = principal else {
        if identity.key.is_some() {
            // the key, or its account, ended after it was given out
            return Err(challenge(api_keys::refused(
                "it is disabled or has expired",
            )));
        }
        return Ok(Bearer::Unregistered(identity));
    };
    note_address(app, (&identity, &principal), now, request_id).await;
    let session = Arc::new(Session::new(identity, principal));
    app.sessions.keep(credential, mark, &session);
    Ok(Bearer::Registered(session))
}

/// Checks a credential: an API key, a short token for one, or a token of an issuer.
async fn verify(app: &App, credential: &str, now: i64) -> Result<Identity, ApiError> {
    if api_keys::is_api_key(credential) {
        return verify_key(app, credential, now).await;
    }
    match app.short_tokens.verify(credential) {
        Some(checked) => checked,
        None => app.verifier.verify(credential).await,
    }
}

async fn verify_key(app: &App, credential: &str, now: i64) -> Result<Identity, ApiError> {
    let key = ApiKey::parse(credential, app.cell)?;
    let known = store::known_key(&app.pool, key.id)
        .await
        .map_err(|error| unreachable(&error))?;
    // who does not have the whole key learns nothing of it
    let known = known
        .filter(|known| key.is_of(&known.hash))
        .ok_or_else(|| api_keys::refused("there is no such key"))?;
    if known.is_disabled {
        return Err(api_keys::refused("it is disabled"));
    }
    if known.expires.is_some_and(|end| end <= now) {
        return Err(ApiError::new(
            Code::Unauthenticated,
            ErrorReason::CredentialExpired,
            "The API key has expired. Use the one that it was rotated to, or a new one.",
        ));
    }
    if let Err(error) = store::note_use(&app.pool, key.id).await {
        tracing::warn!(key = %key.id, "note use of API key: {error}");
    }
    Ok(Identity {
        issuer: known.issuer,
        subject: known.subject,
        expires: known.expires.unwrap_or(NEVER),
        key: Some(key.id),
        // a program does not sign in
        second_factor: true,
        ..Identity::default()
    })
}

fn unreachable(error: &sqlx::Error) -> ApiError {
    tracing::error!("find caller: {error}");
    ApiError::unavailable()
}

/// Whether an identity that may not call is registered: it is disabled then.
async fn is_registered(app: &App, identity: &Identity) -> Result<bool, ApiError> {
    let found = store::is_registered(&app.pool, identity).await;
    found.map_err(|error| {
        tracing::error!("find identity: {error}");
        ApiError::unavailable()
    })
}

fn signed_out() -> ApiError {
    ApiError::new(
        Code::Unauthenticated,
        ErrorReason::CredentialInvalid,
        "The token is not accepted: its owner has signed out. Sign in again.",
    )
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

/// The principal, or the identity of who is none.
fn name_on_record(known: Option<&Principal>, identity: &Identity) -> String {
    known.map_or_else(
        || format!("{} {}", identity.issuer, identity.subject),
        |principal| principal.name.clone(),
    )
}

async fn record_denial(
    pool: &PgPool,
    known: Option<&Principal>,
    identity: &Identity,
    attempt: Attempt<'_>,
) {
    let Attempt {
        access,
        resource_id,
        request_id,
        ..
    } = attempt;
    let principal = name_on_record(known, identity);
    let mut detail = serde_json::json!({ "outcome": "denied" });
    if let Some(project) = known.and_then(|principal| attempt.project_of(principal)) {
        detail = audit::in_project(detail, project);
    }
    // a path says what its caller likes
    let resource_id: String = resource_id
        .chars()
        .filter(|one| *one != '\0')
        .take(MAX_ID)
        .collect();
    let entry = audit::Entry {
        principal: &principal,
        action: &access.action,
        resource: &access.resource,
        resource_id: &resource_id,
        request_id,
        detail,
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
