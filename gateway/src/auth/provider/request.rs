//! Who may ask the provider, and for whom it answers.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, header};
use tonic::Code;

use super::Provider;
use crate::app::App;
use crate::error::ApiError;
use crate::store;

pub(super) fn provider<'a>(app: &'a App, headers: &HeaderMap) -> Result<&'a Provider, ApiError> {
    let provider = app.provider.as_ref().filter(|_| is_local(headers));
    provider.ok_or_else(|| {
        ApiError::new(
            Code::PermissionDenied,
            ErrorReason::PermissionDenied,
            "Development sign-in works only from this machine: open the console at http://127.0.0.1 and its port.",
        )
    })
}

/// Whether the request names a loopback host and, when a page sent it, comes from a page of that host.
fn is_local(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(host) = text(header::HOST) else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let loopback = matches!(name, "127.0.0.1" | "localhost" | "[::1]");
    let same_page = match headers.get(header::ORIGIN) {
        None => true,
        Some(_) => text(header::ORIGIN)
            .and_then(|o| {
                o.strip_prefix("http://")
                    .or_else(|| o.strip_prefix("https://"))
            })
            .is_some_and(|page| page == host),
    };
    loopback && same_page
}

/// The subject of a principal that may sign in now.
pub(super) async fn subject_of(app: &App, principal: &str) -> Result<Option<String>, ApiError> {
    let Some(provider) = &app.provider else {
        return Ok(None);
    };
    // what no text of the database holds
    if principal.contains(char::is_control) {
        return Ok(None);
    }
    let found = store::subject_of(&app.pool, provider.issuer.issuer(), principal);
    found.await.map_err(|error| database(&error))
}

pub(super) fn database(error: &sqlx::Error) -> ApiError {
    tracing::error!("read principals: {error}");
    ApiError::unavailable()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_this_machine_signs_in() {
        for (host, origin, local) in [
            ("127.0.0.1:7080", None, true),
            ("localhost:7080", None, true),
            ("[::1]:7080", None, true),
            ("127.0.0.1:7080", Some("http://127.0.0.1:7080"), true),
            ("127.0.0.1:7080", Some("http://127.0.0.1:7081"), false),
            ("127.0.0.1:7080", Some("https://evil.example"), false),
            ("127.0.0.1:7080", Some("null"), false),
            ("evil.example:7080", Some("http://evil.example:7080"), false),
            ("127.0.0.1.evil.example", None, false),
            ("", None, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(is_local(&headers), local, "{host} {origin:?}");
        }
        assert!(!is_local(&HeaderMap::new()));
    }
}
