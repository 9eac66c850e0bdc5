//! Headers that come in (request id, idempotency key, bearer token) and headers every answer carries.
use axum::response::Response;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use tonic::Code;
use uuid::Uuid;

use crate::error::ApiError;

/// Names a request in logs, traces and answers.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Names an attempt at a change.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("x-idempotency-key");

const MAX_REQUEST_ID: usize = 64;
const MAX_IDEMPOTENCY_KEY: usize = 128;

/// The caller's request id when it is harmless in a log line, else a new one.
pub fn request_id(headers: &HeaderMap) -> String {
    headers
        .get(REQUEST_ID)
        .and_then(|v| v.to_str().ok())
        .filter(|id| {
            (1..=MAX_REQUEST_ID).contains(&id.len())
                && id
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        })
        .map_or_else(|| Uuid::now_v7().to_string(), str::to_owned)
}

/// The idempotency key, when one is given.
///
/// # Errors
/// It is given twice, or is not 1 to 128 visible ASCII characters.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut given = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = given.next() else {
        return Ok(None);
    };
    let key = value.to_str().ok().filter(|k| {
        (1..=MAX_IDEMPOTENCY_KEY).contains(&k.len()) && k.bytes().all(|b| b.is_ascii_graphic())
    });
    match (key, given.next()) {
        (Some(key), None) => Ok(Some(key.to_owned())),
        _ => Err(ApiError::new(
            Code::InvalidArgument,
            ErrorReason::FieldInvalid,
            "X-Idempotency-Key: must be given once, 1 to 128 visible ASCII characters.",
        )
        .violation(
            "X-Idempotency-Key",
            "must be given once, 1 to 128 visible ASCII characters",
        )),
    }
}

/// A mutation came without its key.
pub fn idempotency_key_missing() -> ApiError {
    ApiError::new(
        Code::InvalidArgument,
        ErrorReason::IdempotencyKeyMissing,
        "Every call that changes something needs the header X-Idempotency-Key. Make one up, and repeat it when you retry.",
    )
    .violation("X-Idempotency-Key", "is required")
}

/// The page that asks, as its browser says; none for programs.
pub fn origin(headers: &HeaderMap) -> Option<String> {
    let origin = headers.get(header::ORIGIN)?.to_str().ok()?;
    Some(origin.to_owned())
}

/// The bearer token.
///
/// # Errors
/// `CREDENTIAL_MISSING` without one, `CREDENTIAL_INVALID` for another scheme or several headers.
pub fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = given.next() else {
        return Err(ApiError::new(
            Code::Unauthenticated,
            ErrorReason::CredentialMissing,
            "This call needs a token: send the header Authorization: Bearer TOKEN.",
        ));
    };
    let token = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim())
    });
    token
        .filter(|t| !t.is_empty() && given.next().is_none())
        .ok_or_else(|| {
            ApiError::new(
                Code::Unauthenticated,
                ErrorReason::CredentialInvalid,
                "The header Authorization must be given once, as Bearer TOKEN.",
            )
        })
}

/// Puts the request id and the protective headers on an answer; `hsts` where the gateway is reached by https.
pub fn finish(response: &mut Response, request_id: &str, hsts: Option<&HeaderValue>) {
    let headers = response.headers_mut();
    if let Some(hsts) = hsts {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
    if let Ok(value) = HeaderValue::from_str(request_id) {
        headers.insert(REQUEST_ID, value);
    }
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // pages bring their own
    for (name, value) in [
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(
            name,
            HeaderValue::from_bytes(value.as_bytes()).expect("header value"),
        )])
    }

    #[test]
    fn only_harmless_request_ids_are_kept() {
        assert_eq!(request_id(&with(REQUEST_ID, "run-7.a_b")), "run-7.a_b");
        for bad in ["", "a b", "a\"b", "é", &"x".repeat(65)] {
            assert_ne!(request_id(&with(REQUEST_ID, bad)), bad);
        }
    }

    #[test]
    fn idempotency_keys_are_short_visible_ascii() {
        assert_eq!(idempotency_key(&HeaderMap::new()).expect("none"), None);
        assert_eq!(
            idempotency_key(&with(IDEMPOTENCY_KEY, "k-1"))
                .expect("ok")
                .as_deref(),
            Some("k-1")
        );
        for bad in ["", "a b", "é", &"x".repeat(129)] {
            assert!(
                idempotency_key(&with(IDEMPOTENCY_KEY, bad)).is_err(),
                "{bad}"
            );
        }
        let mut twice = with(IDEMPOTENCY_KEY, "a");
        twice.append(IDEMPOTENCY_KEY, HeaderValue::from_static("b"));
        assert!(idempotency_key(&twice).is_err());
    }

    #[test]
    fn bearer_tokens_are_given_once() {
        assert_eq!(
            bearer(&with(header::AUTHORIZATION, "Bearer abc")).expect("ok"),
            "abc"
        );
        assert_eq!(
            bearer(&with(header::AUTHORIZATION, "bearer abc")).expect("ok"),
            "abc"
        );
        assert_eq!(
            bearer(&HeaderMap::new()).expect_err("missing").reason(),
            "CREDENTIAL_MISSING"
        );
        for bad in ["Basic abc", "Bearer", "Bearer ", "abc"] {
            assert_eq!(
                bearer(&with(header::AUTHORIZATION, bad))
                    .expect_err(bad)
                    .reason(),
                "CREDENTIAL_INVALID"
            );
        }
    }
}
