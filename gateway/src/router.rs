//! The router: the API, the console, the document, keys, health; and what is done around every request.
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use gpuaas_common::origin::{self, Origin};
use gpuaas_common::trace;
use tracing::Instrument as _;

use crate::app::{App, Id};
use crate::auth::provider::{self, OAuthError};
use crate::auth::{configuration, logout};
use crate::error::ApiError;
use crate::http::answer::{IsStream, keep};
use crate::http::call::{self, Served, peer_of};
use crate::http::document::document;
use crate::http::{cors, headers};
use crate::limits::peer::ClientAddress;
use crate::scim::error::ScimError;
use crate::{console, instance_identity, reference, scim, store, terminal};

/// What logs and metrics call what is refused before anything is looked up.
const NOT_LOOKED_UP: &str = "*";
/// Most characters of such a path in the log.
const MAX_PATH: usize = 256;

/// The router.
pub fn router(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/api/openapi.json", get(openapi))
        .route("/api/asyncapi.json", get(asyncapi))
        .route(terminal::PATH, get(terminal::upgrade))
        .route(configuration::PATH, get(sign_in_configuration))
        .merge(reference::router())
        .merge(logout::router())
        .merge(instance_identity::router())
        .merge(scim::router());
    if app.key_set.is_some() {
        router = router
            .route("/.well-known/jwks.json", get(key_set))
            .merge(provider::routes::router());
    }
    let mut router = router
        .fallback(api)
        .layer(middleware::from_fn_with_state(app.clone(), admit))
        // they hold nothing worth counting: a gateway is neither dead nor away because somebody has used up an address's share
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready));
    if !app.cors_origins.is_empty() {
        router = router.layer(cors::layer(&app.cors_origins));
    }
    router
        .layer(middleware::from_fn_with_state(app.clone(), identify))
        .with_state(app)
}

/// Gives every request an id and a place that it comes from, and every answer its headers.
async fn identify(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let id = headers::request_id(request.headers());
    request.extensions_mut().insert(Id(id.clone()));
    let address = request.extensions().get::<ClientAddress>();
    let origin = Origin::new(address.map(|one| one.0), request.headers(), &app.region);
    let mut response = origin::scope(origin, next.run(request)).await;
    headers::finish(&mut response, &id, app.hsts.as_ref());
    response
}

/// Takes a part of the peer's share for a request. Its answer keeps that until it is taken, for until then it lies in memory;
/// a stream has a place among the streams instead.
async fn admit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let peer = peer_of(request.extensions());
    let share = match peer.and_then(|peer| app.admission.arrive(&peer)) {
        Ok(share) => share,
        Err(error) => return refused(&app, error, &request, started),
    };
    let response = next.run(request).await;
    if response.extensions().get::<IsStream>().is_some() {
        return response;
    }
    response.map(|body| keep(body, share))
}

/// In the form that clients of the path read.
fn refused(app: &App, error: ApiError, request: &Request, started: Instant) -> Response {
    let id = id_of(request);
    let (method, path) = (request.method(), request.uri().path());
    let reason = error.reason().to_owned();
    let response = if scim::serves(path) {
        ScimError::from(error).into_response()
    } else if path == logout::PATH || provider::routes::reads_oauth(path) {
        OAuthError::from(error).into_response()
    } else if app.provider.is_some() && provider::routes::is_page(path) {
        provider::refusal_page(&error)
    } else {
        error.into_response(&id)
    };
    let (status, took) = (response.status(), started.elapsed());
    app.metrics.served(NOT_LOOKED_UP, method, status, took);
    let path: String = path.chars().take(MAX_PATH).collect();
    tracing::info!(
        request_id = id,
        route = NOT_LOOKED_UP,
        %method,
        path,
        status = status.as_u16(),
        reason,
        took_ms = took.as_millis() as u64,
        "serve"
    );
    response
}

fn id_of(request: &Request) -> String {
    let id = request.extensions().get::<Id>();
    id.map(|id| id.0.clone()).unwrap_or_default()
}

async fn api(State(app): State<Arc<App>>, request: Request) -> Response {
    let started = Instant::now();
    let id = id_of(&request);
    let (parts, body) = request.into_parts();
    if let Some(response) = console::serve(&parts, &app.console_policy) {
        return response;
    }
    let found = call::find(&app, &parts);
    let pattern = found
        .as_ref()
        .map_or("", |(route, _)| route.pattern.as_str());
    let name = format!("{} {pattern}", parts.method);
    let span = tracing::info_span!("http", method = %parts.method, request_id = %id, otel.kind = "server", otel.name = name);
    let parent = parts
        .headers
        .get(trace::TRACEPARENT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    trace::set_parent(&span, parent);
    async {
        let served = call::serve(&app, &parts, body, &id, found).await;
        let Served {
            response,
            route,
            principal,
            reason,
            standing: _,
            deprecated: _,
        } = served;
        let took = started.elapsed();
        let status = response.status();
        app.metrics.served(&route, &parts.method, status, took);
        if matches!(status.as_u16(), 401 | 403)
            && !matches!(reason.as_str(), "QUOTA" | "RESERVATION_LIMIT")
        {
            app.metrics.denied(&reason);
        }
        tracing::info!(
            route,
            principal,
            status = status.as_u16(),
            reason,
            took_ms = took.as_millis() as u64,
            "serve"
        );
        response
    }
    .instrument(span)
    .await
}

async fn ready(State(app): State<Arc<App>>, request: Request) -> Response {
    if app.readiness.get(store::is_reachable(&app.pool)).await {
        return Response::new(Body::from("ready\n"));
    }
    ApiError::unavailable().into_response(&id_of(&request))
}

async fn openapi(State(app): State<Arc<App>>) -> Response {
    document(app.openapi.clone())
}

async fn asyncapi(State(app): State<Arc<App>>) -> Response {
    document(app.asyncapi.clone())
}

async fn sign_in_configuration(State(app): State<Arc<App>>) -> Response {
    document(app.configuration.clone())
}

async fn key_set(State(app): State<Arc<App>>) -> Response {
    document(app.key_set.clone().unwrap_or_default())
}
