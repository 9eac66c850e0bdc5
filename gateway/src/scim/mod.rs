//! SCIM 2.0 (RFC 7643, RFC 7644): an organisation's identity provider keeps the organisation's people and groups here.
//!
//! The provider calls with an API key that has the scope `scim`; the organisation is that of the key's project. A SCIM user is
//! a principal of the issuer that the platform has set for the organisation. Who is not active any more is put out at once: a
//! principal that SCIM registered is disabled, and one that was there before leaves the organisation. Groups give nothing by
//! themselves; owners map them on roles in projects. No payload gives a role: the attribute `roles` is not kept.
mod apply;
mod call;
mod discovery;
pub mod error;
pub mod filter;
mod groups;
mod patch;
mod query;
mod schema;
mod users;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request};
use hyper::body::Body as _;
use serde_json::Value;
use uuid::Uuid;

use self::call::{Scim, json};
use self::error::{Result, ScimError};
use crate::app::{App, Id};
use crate::auth::sessions::Session;
use crate::contract::access::{Access, Audience};
use crate::http::answer::keep;
use crate::http::authorize::{Attempt, authenticate, record_refusal};
use crate::http::call::collect;
use crate::limits::admission::Place;
use crate::limits::rates::{Class, Standing};
use crate::policy::{Resource, SCIM_READ, SCIM_WRITE, who};
use crate::store;

/// Where it is served.
pub const BASE: &str = "/scim/v2";

/// The routes.
pub fn router() -> Router<Arc<App>> {
    Router::new()
        .route(BASE, any(serve))
        .route(&format!("{BASE}/{{*path}}"), any(serve))
}

/// Whether a path is served here.
pub fn serves(path: &str) -> bool {
    let rest = path.strip_prefix(BASE);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target<'a> {
    Config,
    ResourceTypes(Option<&'a str>),
    Schemas(Option<&'a str>),
    Users,
    User(&'a str),
    SearchUsers,
    Groups,
    Group(&'a str),
    SearchGroups,
    /// What RFC 7644 leaves to each server and this one does not do.
    NotDone,
}

impl<'a> Target<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix(BASE)?.trim_matches('/');
        let (first, id) = match rest.split_once('/') {
            Some((first, id)) => (first, Some(id)),
            None => (rest, None),
        };
        Some(match (first, id) {
            ("ServiceProviderConfig", None) => Self::Config,
            ("ResourceTypes", id) => Self::ResourceTypes(id),
            ("Schemas", id) => Self::Schemas(id),
            ("Users", None) => Self::Users,
            ("Users", Some(".search")) => Self::SearchUsers,
            ("Users", Some(id)) => Self::User(id),
            ("Groups", None) => Self::Groups,
            ("Groups", Some(".search")) => Self::SearchGroups,
            ("Groups", Some(id)) => Self::Group(id),
            ("Me" | "Bulk" | ".search", None) => Self::NotDone,
            _ => return None,
        })
    }

    /// The methods that it takes.
    fn methods(self) -> &'static [Method] {
        const COLLECTION: &[Method] = &[Method::GET, Method::POST];
        const RESOURCE: &[Method] = &[Method::GET, Method::PUT, Method::PATCH, Method::DELETE];
        const ALL: &[Method] = &[
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
        ];
        match self {
            Self::Config | Self::ResourceTypes(_) | Self::Schemas(_) => &[Method::GET],
            Self::Users | Self::Groups => COLLECTION,
            Self::User(_) | Self::Group(_) => RESOURCE,
            Self::SearchUsers | Self::SearchGroups => &[Method::POST],
            Self::NotDone => ALL,
        }
    }

    /// What logs and metrics call it.
    fn pattern(self) -> &'static str {
        match self {
            Self::Config => "/scim/v2/ServiceProviderConfig",
            Self::ResourceTypes(_) => "/scim/v2/ResourceTypes",
            Self::Schemas(_) => "/scim/v2/Schemas",
            Self::Users => "/scim/v2/Users",
            Self::User(_) => "/scim/v2/Users/{id}",
            Self::SearchUsers => "/scim/v2/Users/.search",
            Self::Groups => "/scim/v2/Groups",
            Self::Group(_) => "/scim/v2/Groups/{id}",
            Self::SearchGroups => "/scim/v2/Groups/.search",
            Self::NotDone => "/scim/v2",
        }
    }

    /// Whether a method only reads it.
    fn reads(self, method: &Method) -> bool {
        method == Method::GET || matches!(self, Self::SearchUsers | Self::SearchGroups)
    }
}

async fn serve(State(app): State<Arc<App>>, request: Request) -> Response {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let id = parts.extensions.get::<Id>().map(|id| id.0.clone());
    let id = id.unwrap_or_default();
    let target = Target::of(parts.uri.path());
    let mut principal = String::new();
    let mut place = None;
    let mut standing = None;
    let called = (id.as_str(), &mut principal, &mut place, &mut standing);
    let answer = try_serve(&app, &parts, body, target, called).await;
    let reason = answer.as_ref().err().map_or("", ScimError::reason);
    let mut response = answer.unwrap_or_else(ScimError::into_response);
    if let Some(standing) = standing {
        standing.put(response.headers_mut());
    }
    // as of every call of the API: an answer keeps its place until it is taken
    let response = response.map(|body| keep(body, place));
    let route = target.map_or(BASE, Target::pattern);
    let (status, took) = (response.status(), started.elapsed());
    app.metrics.served(route, &parts.method, status, took);
    if matches!(status.as_u16(), 401 | 403) {
        app.metrics.denied(reason);
    }
    tracing::info!(
        request_id = id,
        route,
        method = %parts.method,
        principal,
        status = status.as_u16(),
        reason,
        took_ms = took.as_millis() as u64,
        "serve"
    );
    response
}

async fn try_serve(
    app: &App,
    parts: &request::Parts,
    body: Body,
    target: Option<Target<'_>>,
    (request_id, principal, place, standing): (
        &str,
        &mut String,
        &mut Option<Place>,
        &mut Option<Standing>,
    ),
) -> Result<Response> {
    let session = authenticate(app, &parts.headers, request_id).await?;
    principal.clone_from(&session.principal.name);
    let target = target.ok_or_else(|| ScimError::not_found("endpoint"))?;
    if !target.methods().contains(&parts.method) {
        return Err(wrong_method(&parts.method, target.methods()));
    }
    let (action, class) = if target.reads(&parts.method) {
        (SCIM_READ, Class::Read)
    } else {
        (SCIM_WRITE, Class::Write)
    };
    let organisation = permit(app, &session, (action, class), request_id).await?;
    let body = if body.is_end_stream() {
        Value::Null
    } else {
        let _on_its_way = app.admission.receive(&session.principal.name)?;
        read(&collect(body, app.body_timeout).await?, &parts.headers)?
    };
    *place = Some(app.admission.run(&session.principal.name)?);
    let counted = (app.rates).count((class, 1), &session.principal.name, organisation.into());
    *standing = counted.await?;
    let base = base(app, parts);
    let query = parts.uri.query().unwrap_or_default();
    match target {
        Target::Config => return Ok(json(StatusCode::OK, &discovery::config(&base))),
        Target::ResourceTypes(id) => return discovery::resource_types(&base, id, query),
        Target::Schemas(id) => return discovery::schemas(&base, id, query),
        Target::NotDone => {
            let detail = "This is not done here. See ServiceProviderConfig.";
            return Err(ScimError::new(StatusCode::NOT_IMPLEMENTED, detail));
        }
        _ => {}
    }
    let settings = {
        let mut conn = app.pool.acquire().await?;
        store::scim_settings(&mut conn, organisation).await?
    };
    let scim = Scim {
        app,
        session: &session,
        request_id,
        headers: &parts.headers,
        organisation,
        settings: settings.ok_or_else(|| {
            ScimError::forbidden(
                "SCIM is not set up for the organisation: an administrator of the platform says first which issuer its people come from.",
            )
        })?,
        base: &base,
    };
    let method = &parts.method;
    match target {
        Target::Users if method == Method::POST => users::create(&scim, &body, query).await,
        Target::Users => users::list(&scim, query::List::of_query(query)?).await,
        Target::SearchUsers => users::list(&scim, query::List::of_body(&body)?).await,
        Target::User(id) => users::one(&scim, method, id, &body, query).await,
        Target::Groups if method == Method::POST => groups::create(&scim, &body, query).await,
        Target::Groups => groups::list(&scim, query::List::of_query(query)?).await,
        Target::SearchGroups => groups::list(&scim, query::List::of_body(&body)?).await,
        Target::Group(id) => groups::one(&scim, method, id, &body, query).await,
        _ => Err(ScimError::not_found("endpoint")),
    }
}

/// The organisation whose people and groups the caller may keep. A denial is counted, and put on record.
async fn permit(
    app: &App,
    session: &Session,
    (action, class): (&str, Class),
    request_id: &str,
) -> Result<Uuid> {
    let principal = &session.principal;
    let home = {
        let mut conn = app.pool.acquire().await?;
        store::scim_home(&mut conn, principal.id).await?
    };
    if let Some(home) = home {
        let organisation = Resource::Organisation {
            id: home.organisation,
            role: None,
            guardrails: principal.guardrails_of(home.organisation),
        };
        let verdict = app.policies.decide(who(principal), action, organisation);
        // who was taken out of the project, or whose project is closed, keeps nothing
        if verdict.is_allowed() && principal.role_in(home.project).is_some() {
            return Ok(home.organisation);
        }
    }
    let access = Access {
        action: action.to_owned(),
        resource: "organisation".to_owned(),
        audience: Audience::User,
        callers: Vec::new(),
        unregistered: false,
        no_effect: false,
    };
    let attempt = Attempt {
        access: &access,
        resource_id: "",
        request_id,
        project: None,
        in_a_project: false,
        class,
    };
    app.rates.count_refused(class, &principal.name).await?;
    record_refusal(app, session, attempt).await;
    Err(ScimError::forbidden(
        "SCIM needs an API key with the scope scim, of a service account of the organisation.",
    ))
}

fn wrong_method(method: &Method, allowed: &[Method]) -> ScimError {
    let allowed: Vec<&str> = allowed.iter().map(Method::as_str).collect();
    let allowed = allowed.join(", ");
    let detail = format!("This path does not take {method}; it takes {allowed}.");
    let error = ScimError::new(StatusCode::METHOD_NOT_ALLOWED, detail);
    match HeaderValue::from_str(&allowed) {
        Ok(allowed) => error.header(header::ALLOW, allowed),
        Err(_) => error,
    }
}

/// The body as JSON.
fn read(body: &[u8], headers: &HeaderMap) -> Result<Value> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok());
    let kind = kind
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    let known = ["application/scim+json", "application/json"];
    if !known.iter().any(|one| kind.eq_ignore_ascii_case(one)) {
        return Err(ScimError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "The body must be sent as Content-Type: application/scim+json.",
        ));
    }
    let read: Value = serde_json::from_slice(body)
        .map_err(|_| ScimError::bad("invalidSyntax", "The body is not JSON."))?;
    if read.is_object() {
        return Ok(read);
    }
    Err(ScimError::bad(
        "invalidSyntax",
        "The body must be an object.",
    ))
}

/// The address of SCIM as the client has called it.
fn base(app: &App, parts: &request::Parts) -> String {
    let named = parts
        .headers
        .get(header::HOST)
        .and_then(|v| v.to_str().ok());
    let host = parts.uri.authority().map(Authority::as_str).or(named);
    match host.filter(|host| host.parse::<Authority>().is_ok()) {
        Some(host) => format!("{}://{host}{BASE}", app.scheme),
        None => BASE.to_owned(),
    }
}
