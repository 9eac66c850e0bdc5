//! Which pages of other origins may call the API from a browser (CORS): those on a list, by exact comparison, and by default none.
//!
//! Callers say who they are with a token that the page itself holds, and no call of the API takes a cookie: so credentials are
//! never allowed, and a page that is on the list can do nothing without a token.
use std::fmt;

use gpuaas_common::trace;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, header};
use serde::Deserialize;
use serde::de::Error as _;
use std::time::Duration;
use tower_http::cors::{AllowOrigin, CorsLayer};
use url::{Host, Url};

use super::headers::{IDEMPOTENCY_KEY, REQUEST_ID};
use super::rates::{RATE_LIMIT, RATE_LIMIT_POLICY};
use crate::auth::configuration;

/// How long a browser may remember what it was told.
const MAX_AGE: Duration = Duration::from_secs(600);
/// Sent by a browser that goes on with a stream.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// An origin, exactly as browsers send it: `https://console.example.com`, with a port only where it is not the usual one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOrigin(HeaderValue);

/// A text that is no origin that can be allowed.
#[derive(Debug, PartialEq, Eq)]
pub struct NotAnOrigin;

impl fmt::Display for NotAnOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "must be an origin as browsers send it, such as https://app.example.com: lower-case, with https (http on \
             loopback only), without a path or the usual port; * and null are not allowed",
        )
    }
}

impl TryFrom<String> for PageOrigin {
    type Error = NotAnOrigin;

    fn try_from(text: String) -> Result<Self, NotAnOrigin> {
        let url = Url::parse(&text).map_err(|_| NotAnOrigin)?;
        let is_safe = match url.scheme() {
            "https" => true,
            "http" => url.host().is_some_and(|host| is_loopback(&host)),
            _ => false,
        };
        // what the parser has to change, a browser would send in another way; a pattern would match nothing
        if !is_safe || text.contains('*') || url.origin().ascii_serialization() != text {
            return Err(NotAnOrigin);
        }
        let value = HeaderValue::try_from(text).map_err(|_| NotAnOrigin)?;
        Ok(Self(value))
    }
}

/// Nobody on the way can put a page there.
fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

impl<'de> Deserialize<'de> for PageOrigin {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::try_from(text).map_err(D::Error::custom)
    }
}

/// What answers preflights, before anybody asks who calls, and lets the pages of these origins read answers.
pub fn layer(origins: &[PageOrigin]) -> CorsLayer {
    let origins: Vec<HeaderValue> = origins.iter().map(|origin| origin.0.clone()).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_browser_would_send_is_an_origin() {
        for good in [
            "https://app.example.com",
            "https://app.example.com:8443",
            "http://localhost:5173",
            "http://127.0.0.1:8080",
            "http://[::1]:8080",
            "https://xn--bcher-kva.example",
        ] {
            assert!(PageOrigin::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "*",
            "null",
            "app.example.com",
            "https://",
            "https://*.example.com",
            "https://app.example.com/",
            "https://app.example.com/path",
            "https://app.example.com:443",
            "http://app.example.com",
            "http://localhost.example.com",
            "https://APP.example.com",
            "https://user@app.example.com",
            "https://bücher.example",
            "ftp://app.example.com",
            "file:///etc/passwd",
            "chrome-extension://abcdef",
            " https://app.example.com",
        ] {
            let refused = PageOrigin::try_from(bad.to_owned());
            assert_eq!(refused, Err(NotAnOrigin), "{bad}");
        }
    }
}
