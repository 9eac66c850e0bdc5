//! One API request: authorise, read, bind, call the service, write.
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::FutureExt as _;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, header, request};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use prost_reflect::DynamicMessage;
use tonic::Code;

use super::answer::keep;
use super::authorize::{Attempt, authorize, record_refusal, refuse};
use super::reach::{Outgoing, reach};
use super::streamed::{respond, resume};
use super::subscribe::{self, StreamRequest, own_or_absent};
use super::ticket;
use super::{deprecation, headers, reserved};
use crate::app::App;
use crate::auth::sessions::Session;
use crate::contract::deprecation::Deprecation;
use crate::contract::route::{GATEWAY, Lookup, Route};
use crate::contract::template::PathVariables;
use crate::error::ApiError;
use crate::identity;
use crate::identity::launch;
use crate::json::write::{Defaults, write_message};
use crate::limits::admission::Place;
use crate::limits::peer::Peer;
use crate::limits::rates::{Class, Standing, class_of};
use crate::limits::tenant::Tenant;
use crate::transcode::mask::{self, Mask};
use crate::transcode::request::{bind, validate_only};
use crate::upstream::Envelope;

/// Largest body.
pub const MAX_BODY_BYTES: usize = 1024 * 1024;

/// What was served, for log and metrics.
#[derive(Debug)]
pub struct Served {
    /// The answer.
    pub response: Response,
    /// Pattern of the route; empty when there is none.
    pub route: String,
    /// Who called, when known.
    pub principal: String,
    /// Reason of a refusal; empty on success.
    pub reason: String,
    /// What is left of the caller's rates, once the request was counted.
    pub standing: Option<Standing>,
    /// What to say of an operation that is deprecated, and its id.
    pub deprecated: Option<(Deprecation, String)>,
}

/// The route of a request, and what its path says; or that there is none.
pub type Found<'a> = Result<(&'a Route, PathVariables), ApiError>;

/// Serves one request below `/api/`, with what [`find`] has found for it.
pub async fn serve(
    app: &App,
    parts: &request::Parts,
    body: Body,
    request_id: &str,
    found: Found<'_>,
) -> Served {
    let mut served = Served {
        response: Response::new(Body::empty()),
        route: String::new(),
        principal: String::new(),
        reason: String::new(),
        standing: None,
        deprecated: None,
    };
    let mut place = None;
    let asked = (parts, body, request_id);
    let answer = try_serve(app, asked, found, (&mut served, &mut place)).await;
    let mut response = answer.unwrap_or_else(|error| {
        error.reason().clone_into(&mut served.reason);
        error.into_response(request_id)
    });
    if let Some(standing) = served.standing.take() {
        standing.put(response.headers_mut());
    }
    if let Some((deprecation, operation)) = served.deprecated.take() {
        deprecation::put(response.headers_mut(), &deprecation, &operation);
    }
    // until it is taken it lies in memory
    served.response = response.map(|body| keep(body, place));
    served
}

async fn try_serve(
    app: &App,
    (parts, body, request_id): (&request::Parts, Body, &str),
    found: Found<'_>,
    (served, place): (&mut Served, &mut Option<Place>),
) -> Result<Response, ApiError> {
    let (route, path) = found?;
    served.route.clone_from(&route.pattern);
    served.deprecated = route
        .deprecation
        .clone()
        .map(|it| (it, route.operation_id()));
    let streams = route.method.is_server_streaming();
    if streams && parts.method == Method::HEAD {
        return Err(wrong_method(&parts.method, "GET"));
    }
    let attempt = Attempt::of(route, &path, request_id);
    let (session, grant) = authorize(app, &parts.headers, route, attempt).await?;
    served.principal.clone_from(&session.principal.name);

    let body = if body.is_end_stream() {
        Ok(Bytes::new())
    } else {
        let _on_its_way = app.admission.receive(&session.principal.name)?;
        read_body(&parts.headers, body, app.body_timeout).await
    };
    // only now: a slow body holds nothing that another could need
    *place = Some(app.admission.run(&session.principal.name)?);
    let read = body.and_then(|body| read(parts, route, &path, &body));
    let Asked {
        idempotency_key,
        wanted,
        mut message,
    } = match read {
        Ok(asked) => asked,
        Err(error) => return Err(counted(app, &session, attempt, error).await),
    };
    let attempt = attempt.about(&message);
    let asked = || {
        let caller = &session.principal;
        app.policies.check_asked(caller, route, &grant, &message)
    };
    let checked = grant.check(&message).and_then(|()| asked());
    let checked = match checked {
        Ok(()) => reserved::check(app, &session.principal, route, &message).await?,
        refused => refused,
    };
    if let Err(refusal) = checked {
        return Err(refuse(app, &session, attempt, refusal).await);
    }
    let mutation = route.http_method != Method::GET && !route.access.no_effect;
    if mutation && idempotency_key.is_none() && !validate_only(&message) {
        let missing = headers::idempotency_key_missing();
        return Err(counted(app, &session, attempt, missing).await);
    }
    let project = grant.counted_project(route, &message);
    let tenant = Tenant::of(&session.principal, project, &message);
    let cost = class_of(route, &message);
    let principal = &session.principal.name;
    let count = async || app.rates.count(cost, principal, tenant).await;
    // a service reads while Redis counts; who has read too much gets nothing of it, and all for whom that limit counts are
    // counted first for a moment
    let reads = cost.0 == Class::Read && !streams && route.service != GATEWAY;
    let counts_meanwhile = reads && !app.rates.was_reached(cost.0, principal, tenant);
    if !counts_meanwhile {
        served.standing = count().await?;
    }

    let call = identity::call::Call {
        app,
        route,
        session: &session,
        key: idempotency_key.as_deref(),
        request_id,
    };
    if route.service == GATEWAY {
        let answer = identity::answer(&call, &message).await;
        if answer.as_ref().is_err_and(is_denial) {
            record_refusal(app, &session, attempt).await;
        }
        return Ok(written(&answer?, wanted.as_ref()));
    }
    launch::prepare(&call, &grant, &mut message).await?;
    let outgoing = Outgoing {
        app,
        route,
        session: &session,
        reach: reach(route, &grant, &message),
        envelope: Envelope {
            request_id: request_id.to_owned(),
            idempotency_key: idempotency_key.clone(),
            origin: headers::origin(&parts.headers),
            timeout: app.request_timeout,
        },
    };
    if streams {
        resume(&mut message, &parts.headers);
        let peer = peer_of(&parts.extensions)?;
        let asked = StreamRequest {
            peer: &peer,
            path: &path,
            session: &session,
            grant: &grant,
        };
        let opened = subscribe::open(&outgoing, &asked, &message).await?;
        // from here on it is a stream, with a place among the streams
        *place = None;
        return Ok(respond(opened, &app.streams.pieces, &parts.headers));
    }
    let launch = launch::begin(&call, &grant, &message).await?;
    let called = if counts_meanwhile {
        let call = outgoing.call(&message).map(Ok);
        let (standing, called) = tokio::try_join!(count(), call)?;
        served.standing = standing;
        called
    } else {
        outgoing.call(&message).await
    };
    // a service that did not answer may be at it still
    let is_over = !called
        .as_ref()
        .is_err_and(|error| error.http_status().is_server_error());
    if let Some(launch) = launch.filter(|_| is_over) {
        launch::end(app, launch).await;
    }
    let mut answer = match called {
        Ok(answer) => answer,
        Err(error) => {
            let requested = (route, &path, &*session, &*grant);
            return Err(own_or_absent(app, requested, request_id, error).await);
        }
    };
    ticket::note(app, route, &session, &answer).await?;
    identity::name_projects(app, route, &mut answer).await?;
    Ok(written(&answer, wanted.as_ref()))
}

/// What a request asks for.
struct Asked {
    idempotency_key: Option<String>,
    /// What of the answer is wanted; all of it when this is none.
    wanted: Option<Mask>,
    message: DynamicMessage,
}

/// Reads what a request asks for.
///
/// # Errors
/// What is wrong with it.
fn read(
    parts: &request::Parts,
    route: &Route,
    path: &PathVariables,
    body: &Bytes,
) -> Result<Asked, ApiError> {
    let idempotency_key = headers::idempotency_key(&parts.headers)?;
    let masked = route.http_method == Method::GET && !route.method.is_server_streaming();
    let (query, wanted) = match masked {
        true => mask::take(parts.uri.query(), &route.method.output())?,
        false => (parts.uri.query().map(str::to_owned), None),
    };
    let message = bind(route, path, query.as_deref(), body)?;
    launch::check_counts(route, &message)?;
    Ok(Asked {
        idempotency_key,
        wanted,
        message,
    })
}

/// What is wrong with a request that was not counted yet, or that there were too many.
async fn counted(app: &App, session: &Session, attempt: Attempt<'_>, error: ApiError) -> ApiError {
    let whose = &session.principal.name;
    let counted = app.rates.count_refused(attempt.class, whose).await;
    counted.err().unwrap_or(error)
}

fn is_denial(error: &ApiError) -> bool {
    [ErrorReason::PermissionDenied, ErrorReason::Guardrail]
        .into_iter()
        .any(|reason| error.reason() == crate::error::reason_name(reason))
}

/// The answer, or what of it is wanted.
fn written(answer: &DynamicMessage, wanted: Option<&Mask>) -> Response {
    let mut json = write_message(answer, Defaults::Write);
    if let Some(wanted) = wanted {
        wanted.prune(&mut json);
    }
    let mut response = Response::new(Body::from(json.to_text()));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// Finds the route of a request.
///
/// # Errors
/// `ROUTE_UNKNOWN`.
pub fn find<'a>(app: &'a App, parts: &request::Parts) -> Found<'a> {
    match app.routes.lookup(&parts.method, parts.uri.path()) {
        Lookup::Found(route, path) => Ok((route, path)),
        Lookup::Unknown => Err(ApiError::new(
            Code::NotFound,
            ErrorReason::RouteUnknown,
            "There is nothing at this path. GET /api/openapi.json lists all paths.",
        )),
        Lookup::WrongMethod(others) => {
            let allow = others
                .iter()
                .map(Method::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            Err(wrong_method(&parts.method, &allow))
        }
    }
}

fn wrong_method(method: &Method, allow: &str) -> ApiError {
    let error = ApiError::new(
        Code::Unimplemented,
        ErrorReason::RouteUnknown,
        format!("This path does not take {method}; it takes {allow}."),
    )
    .http(StatusCode::METHOD_NOT_ALLOWED);
    match HeaderValue::from_str(allow) {
        Ok(allow) => error.header(header::ALLOW, allow),
        Err(_) => error,
    }
}

/// Who a request is from, as the listener found.
pub fn peer_of(extensions: &Extensions) -> Result<Peer, ApiError> {
    let peer = extensions.get::<Peer>().copied();
    peer.ok_or_else(ApiError::internal)
}

/// The whole body, of JSON and of limited size.
///
/// # Errors
/// `BODY_MALFORMED`, `BODY_TOO_LARGE`; not there within the time.
pub async fn read_body(
    headers: &HeaderMap,
    body: Body,
    timeout: Duration,
) -> Result<Bytes, ApiError> {
    let collected = collect(body, timeout).await?;
    // a browser form cannot send this type without asking first, so a foreign page cannot post for a user
    if !collected.is_empty() && !is_json(headers) {
        return Err(
            malformed("The body must be sent as Content-Type: application/json.")
                .http(StatusCode::UNSUPPORTED_MEDIA_TYPE),
        );
    }
    Ok(collected)
}

/// The whole body, of limited size.
///
/// # Errors
/// `BODY_MALFORMED`, `BODY_TOO_LARGE`; not there within the time.
pub async fn collect(body: Body, timeout: Duration) -> Result<Bytes, ApiError> {
    let collected = tokio::time::timeout(timeout, Limited::new(body, MAX_BODY_BYTES).collect())
        .await
        .map_err(|_| {
            malformed("The body did not arrive in time.").http(StatusCode::REQUEST_TIMEOUT)
        })?
        .map_err(|error| {
            if error.downcast_ref::<LengthLimitError>().is_some() {
                ApiError::new(
                    Code::InvalidArgument,
                    ErrorReason::BodyTooLarge,
                    format!("The body is larger than {MAX_BODY_BYTES} bytes."),
                )
                .http(StatusCode::PAYLOAD_TOO_LARGE)
            } else {
                malformed("The body could not be read.")
            }
        })?
        .to_bytes();
    Ok(collected)
}

fn malformed(message: &str) -> ApiError {
    ApiError::new(Code::InvalidArgument, ErrorReason::BodyMalformed, message)
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}
