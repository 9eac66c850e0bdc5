//! What a request gets. The order of the refusals is that of the least that may be said: who asks, how, with which token.
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;

use super::Metadata;
use super::identity::Refused;
use super::instance::Caller;
use super::sessions::MOST_SECONDS;
use super::tree;

/// Lifetime of a token, in a request for one and in its answer.
const TTL: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token-ttl-seconds");
/// The token, in any other request.
const TOKEN: HeaderName = HeaderName::from_static("x-aws-ec2-metadata-token");
/// What a program that fetches for others adds.
const FORWARDED: [&str; 3] = ["x-forwarded-for", "forwarded", "via"];

const TOKEN_PATH: &str = "/latest/api/token";
const IDENTITY_PATH: &str = "/latest/identity";

pub type Answer = Response<Full<Bytes>>;

impl Metadata {
    pub(super) async fn answer<B>(&self, source: Ipv4Addr, request: Request<B>) -> Answer {
        let caller = match self.caller(source) {
            Ok(Some(caller)) => caller,
            Ok(None) => return status(StatusCode::NOT_FOUND),
            Err(error) => return failed(&error),
        };
        let headers = request.headers();
        if FORWARDED.iter().any(|name| headers.contains_key(*name)) {
            return status(StatusCode::FORBIDDEN);
        }
        let path = request.uri().path();
        let is_token = path == TOKEN_PATH;
        match *request.method() {
            Method::PUT if is_token => return self.token(&caller, &request),
            Method::GET | Method::HEAD if !is_token => {}
            _ => {
                let allowed = if is_token { "PUT" } else { "GET, HEAD" };
                return with(StatusCode::METHOD_NOT_ALLOWED, "", (ALLOW, allowed));
            }
        }
        let token = headers.get(TOKEN).and_then(|token| token.to_str().ok());
        if !token.is_some_and(|token| self.sessions.knows(caller.id, token, Instant::now())) {
            return status(StatusCode::UNAUTHORIZED);
        }
        if path == IDENTITY_PATH {
            return self.identity(&caller, request.uri().query()).await;
        }
        let instance = match self.instance(caller) {
            Ok(instance) => instance,
            Err(error) => return failed(&error),
        };
        match tree::read(&instance, path) {
            Some(text) if path.trim_end_matches('/') == "/latest/instance" => {
                with(StatusCode::OK, text, (CONTENT_TYPE, "application/json"))
            }
            Some(text) => with(StatusCode::OK, text, (CONTENT_TYPE, "text/plain")),
            None => status(StatusCode::NOT_FOUND),
        }
    }

    fn token<B>(&self, caller: &Caller, request: &Request<B>) -> Answer {
        let seconds = request.headers().get(TTL).and_then(|ttl| ttl.to_str().ok());
        let seconds = seconds.and_then(|ttl| ttl.parse::<u64>().ok());
        let Some(seconds) = seconds.filter(|seconds| (1..=MOST_SECONDS).contains(seconds)) else {
            let text = format!("{TTL}: must be 1 to {MOST_SECONDS}\n");
            return with(StatusCode::BAD_REQUEST, text, (CONTENT_TYPE, "text/plain"));
        };
        let mut random = [0; 32];
        if let Err(error) = getrandom::fill(&mut random) {
            tracing::error!(%error, "cannot make a session token of the metadata service");
            return status(StatusCode::INTERNAL_SERVER_ERROR);
        }
        let lifetime = Duration::from_secs(seconds);
        let token =
            self.sessions
                .issue(caller.id, &caller.present, random, lifetime, Instant::now());
        with(StatusCode::OK, token, (TTL, &seconds.to_string()))
    }

    async fn identity(&self, caller: &Caller, query: Option<&str>) -> Answer {
        let audience = query.unwrap_or_default().strip_prefix("audience=");
        // of a narrow alphabet, so that nothing in it needs escaping
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/@".contains(&byte);
        let audience = audience
            .filter(|text| (1..=MOST_AUDIENCE).contains(&text.len()) && text.bytes().all(is_plain));
        let Some(audience) = audience else {
            let text = format!(
                "audience: must be given once, 1 to {MOST_AUDIENCE} letters, digits and -._~:/@\n"
            );
            return with(StatusCode::BAD_REQUEST, text, (CONTENT_TYPE, "text/plain"));
        };
        if !self
            .limiter
            .admits(caller.id, &caller.present, Instant::now())
        {
            return with(StatusCode::TOO_MANY_REQUESTS, "", (RETRY_AFTER, "60"));
        }
        match self.identity.issue(caller.id, audience).await {
            Ok(token) => with(StatusCode::OK, token, (CONTENT_TYPE, "application/jwt")),
            Err(Refused::Decided) => status(StatusCode::FORBIDDEN),
            Err(Refused::NotNow) => with(StatusCode::SERVICE_UNAVAILABLE, "", (RETRY_AFTER, "5")),
        }
    }
}

/// Longest audience, in bytes.
const MOST_AUDIENCE: usize = 200;

fn failed(error: &crate::error::HostError) -> Answer {
    tracing::warn!(%error, "cannot answer the metadata service");
    status(StatusCode::INTERNAL_SERVER_ERROR)
}

fn status(status: StatusCode) -> Answer {
    with(status, "", (CACHE_CONTROL, "no-store"))
}

fn with(status: StatusCode, text: impl Into<Bytes>, (name, value): (HeaderName, &str)) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    if let Ok(value) = value.parse() {
        headers.insert(name, value);
    }
    answer
}
