//! Which pages of other origins may call the API from a browser (CORS): those on a list, by exact comparison, and by default none.
//!
//! Callers say who they are with a token that the page itself holds, and no call of the API takes a cookie: so credentials are
//! never allowed, and a page that is on the list can do nothing without a token.

use gpuaas_common::trace;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, header};
use std::time::Duration;
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::headers::{IDEMPOTENCY_KEY, REQUEST_ID};
use crate::auth::configuration;
use crate::limits::rates::{RATE_LIMIT, RATE_LIMIT_POLICY};
use crate::page_origin::PageOrigin;

/// How long a browser may remember what it was told.
const MAX_AGE: Duration = Duration::from_secs(600);
/// Sent by a browser that goes on with a stream.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What answers preflights, before anybody asks who calls, and lets the pages of these origins read answers.
pub fn layer(origins: &[PageOrigin]) -> CorsLayer {
    let origins: Vec<HeaderValue> = origins.iter().map(PageOrigin::header).collect();
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, parts| {
            origins.contains(origin) && is_for_programs(parts)
        }))
        .allow_methods([
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PATCH,
            Method::PUT,
            Method::DELETE,
        ])
        .allow_headers([
            header::AUTHORIZATION,
            header::CONTENT_TYPE,
            IDEMPOTENCY_KEY,
            REQUEST_ID,
            LAST_EVENT_ID,
            HeaderName::from_static(trace::TRACEPARENT),
        ])
        .expose_headers([
            REQUEST_ID,
            header::RETRY_AFTER,
            RATE_LIMIT,
            RATE_LIMIT_POLICY,
            super::deprecation::DEPRECATION,
            super::deprecation::SUNSET,
            header::LINK,
        ])
        .max_age(MAX_AGE)
}

/// The API, and where to sign in for it; not the sign-in pages, which take cookies.
fn is_for_programs(parts: &Parts) -> bool {
    let path = parts.uri.path();
    let once = parts.headers.get_all(header::ORIGIN).iter().count() == 1;
    once && (path.starts_with("/api/") || path == configuration::PATH)
}
