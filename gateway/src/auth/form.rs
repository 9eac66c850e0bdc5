//! Bodies and queries of OAuth: `application/x-www-form-urlencoded`, each parameter once.
use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, Limited};

/// Largest body; a token and some words.
const MAX_BYTES: usize = 32 << 10;

/// Parameters by name. An empty one counts as absent (RFC 6749, 3.1).
#[derive(Debug, Default)]
pub struct Form(BTreeMap<String, String>);

impl Form {
    /// From a query or a body; `None` when a parameter comes twice.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut form = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(text) {
            let before = form.insert(name.into_owned(), value.into_owned());
            if before.is_some() {
                return None;
            }
        }
        Some(Self(form))
    }

    /// A request's body, when it is a form of limited size that arrives in time.
    pub async fn read(headers: &HeaderMap, body: Body, timeout: Duration) -> Option<Self> {
        let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        let kind = kind.split(';').next()?.trim();
        if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return None;
        }
        let collected = tokio::time::timeout(timeout, Limited::new(body, MAX_BYTES).collect());
        Self::parse(&collected.await.ok()?.ok()?.to_bytes())
    }

    /// A parameter; empty when absent.
    pub fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_comes_once() {
        let form = Form::parse(b"a=1&b=%20x+y").expect("a form");
        assert_eq!(
            (form.get("a"), form.get("b"), form.get("c")),
            ("1", " x y", "")
        );
        assert!(Form::parse(b"a=1&a=2").is_none());
    }
}
