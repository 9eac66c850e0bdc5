//! One API request: authorise, read, bind, call the service, write.
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, header, request};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use prost_reflect::DynamicMessage;
use tonic::Code;

use super::admission::Place;
use super::answer::keep;
use super::authorize::authorize;
use super::headers;
use super::peer::Peer;
use super::shares::Share;
use super::stream::{Subscriber, respond, resume};
use crate::app::App;
use crate::contract::route::{Lookup, Route};
use crate::contract::template::PathVariables;
use crate::error::ApiError;
use crate::identity;
use crate::transcode::request::{bind, validate_only};
use crate::transcode::write::{Defaults, write_message};
use crate::upstream::{self, Envelope};

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
}

/// What a request holds until its answer is taken, for until then the answer lies in memory.
#[derive(Debug, Default)]
struct Held {
    of_peer: Option<Share<Peer>>,
    place: Option<Place>,
}

/// Serves one request below `/api/`.
pub async fn serve(app: &App, parts: &request::Parts, body: Body, request_id: &str) -> Served {
    let mut served = Served {
        response: Response::new(Body::empty()),
        route: String::new(),
        principal: String::new(),
        reason: String::new(),
    };
    let mut held = Held::default();
    let answer = try_serve(app, parts, body, request_id, (&mut served, &mut held)).await;
    let response = answer.unwrap_or_else(|error| {
        error.reason().clone_into(&mut served.reason);
        error.into_response(request_id)
    });
    served.response = response.map(|body| keep(body, held));
    served
}

async fn try_serve(
    app: &App,
    parts: &request::Parts,
    body: Body,
    request_id: &str,
    (served, held): (&mut Served, &mut Held),
) -> Result<Response, ApiError> {
    let (route, path) = find(app, parts)?;
    served.route.clone_from(&route.pattern);
    let peer = peer_of(&parts.extensions)?;
    held.of_peer = Some(app.admission.arrive(&peer)?);
    let streams = route.method.is_server_streaming();
    if streams && parts.method == Method::HEAD {
        return Err(wrong_method(&parts.method, "GET"));
    }
    let session = authorize(app, &parts.headers, &route.access, request_id).await?;
    served.principal.clone_from(&session.principal.name);

    let idempotency_key = headers::idempotency_key(&parts.headers)?;
    let body = if body.is_end_stream() {
        Bytes::new()
    } else {
        let _on_its_way = app.admission.receive(&session.principal.name)?;
        read_body(&parts.headers, body, app.body_timeout).await?
    };
    // only now: a slow body holds nothing that another could need
    held.place = Some(app.admission.run(&session.principal.name)?);
    let mut message = bind(route, &path, parts.uri.query(), &body)?;
    let mutation = route.http_method != Method::GET;
    if mutation && idempotency_key.is_none() && !validate_only(&message) {
        return Err(headers::idempotency_key_missing());
    }

    if route.service == identity::SERVICE {
        let answer = identity::answer(app, route, &session, &message).await?;
        return Ok(written(&answer));
    }
    let now = jiff::Timestamp::now().as_second();
    let token = session
        .internal_token(&app.minter, route.service, now)
        .map_err(|error| {
            tracing::error!("mint internal token: {error}");
            ApiError::internal()
        })?;
    let envelope = Envelope {
        token,
        request_id: request_id.to_owned(),
        idempotency_key,
        origin: headers::origin(&parts.headers),
        timeout: app.request_timeout,
    };
    if streams {
        resume(&mut message, &parts.headers);
        let place = app.admission.stream(&peer, &session.principal.name)?;
        let messages = upstream::open(&app.peers, route, &message, envelope).await?;
        // from here on it is a stream, with a place among the streams
        *held = Held::default();
        let subscriber = Subscriber {
            session,
            access: route.access.clone(),
        };
        let around = (
            app.pool.clone(),
            &parts.headers,
            route.pattern.as_str(),
            request_id,
        );
        return Ok(respond(&app.streams, place, messages, subscriber, around));
    }
    let mut answer = upstream::call(&app.peers, route, &message, envelope).await?;
    identity::name_projects(app, route, &mut answer).await?;
    Ok(written(&answer))
}

fn written(answer: &DynamicMessage) -> Response {
    let text = write_message(answer, Defaults::Write).to_text();
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

fn find<'a>(app: &'a App, parts: &request::Parts) -> Result<(&'a Route, PathVariables), ApiError> {
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
    let malformed =
        |message: &str| ApiError::new(Code::InvalidArgument, ErrorReason::BodyMalformed, message);
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
    // a browser form cannot send this type without asking first, so a foreign page cannot post for a user
    if !collected.is_empty() && !is_json(headers) {
        return Err(
            malformed("The body must be sent as Content-Type: application/json.")
                .http(StatusCode::UNSUPPORTED_MEDIA_TYPE),
        );
    }
    Ok(collected)
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}
