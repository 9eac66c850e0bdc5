//! The web console: the built files of `clients/console/dist`, served beside the API.
//!
//! A release build carries the files inside the program; a debug build reads them from the build folder, so a
//! rebuilt console needs no rebuilt gateway. Without them a page says how to build the console. Files whose
//! name holds a hash are cached for a year, everything else is asked for anew. Paths that belong to no file are
//! the console's own views and get its start page.
use std::borrow::Cow;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request};
use rust_embed::RustEmbed;

/// What `npm run build` wrote. Each text file lies there also as `.br` and `.gz`.
#[derive(RustEmbed)]
#[folder = "../clients/console/dist"]
#[allow_missing = true]
struct Files;

const START_PAGE: &str = "index.html";

const NOT_BUILT: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>GPUaaS</title>\
     <body style=\"font:16px/1.5 system-ui;max-width:40rem;margin:4rem auto;padding:0 1rem\">\
     <h1>The console is not built</h1><p>The API works. To have the console too, run <code>make build</code>, \
     or <code>deploy/build-console.sh</code> alone, and load this page again.</p>";

/// Serves a request that is the console's, with its content policy; `None` when it is for the API.
pub fn serve(parts: &request::Parts, policy: &HeaderValue) -> Option<Response> {
    let path = parts.uri.path();
    if !matches!(parts.method, Method::GET | Method::HEAD) || !is_ours(path) {
        return None;
    }
    let mut response = find(path.trim_start_matches('/'), parts)?;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy.clone());
    Some(response)
}

fn find(name: &str, parts: &request::Parts) -> Option<Response> {
    if let Some(response) = file(name, &parts.headers) {
        return Some(response);
    }
    // a missing asset is missing; a missing page is a view
    if is_file_name(name) {
        return None;
    }
    Some(file(START_PAGE, &parts.headers).unwrap_or_else(not_built))
}

/// Everything outside the API and the well-known addresses.
fn is_ours(path: &str) -> bool {
    let first = path.split('/').nth(1).unwrap_or_default();
    !matches!(
        first,
        "api" | "dev" | ".well-known" | "healthz" | "readyz" | "metrics"
    )
}

fn is_file_name(name: &str) -> bool {
    name.starts_with("assets/")
        || name
            .rsplit('/')
            .next()
            .is_some_and(|last| last.contains('.'))
}

fn file(name: &str, headers: &HeaderMap) -> Option<Response> {
    let kind = content_type(name)?;
    let plain = Files::get(name)?;
    let (data, encoding) = encoded(name, headers).unwrap_or((plain.data, None));
    let mut response = answer(StatusCode::OK, kind, data);
    let out = response.headers_mut();
    if let Some(encoding) = encoding {
        out.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    out.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    let caching = if name.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    Some(response)
}

/// The best encoding that the caller takes and that was built.
fn encoded(name: &str, headers: &HeaderMap) -> Option<(Cow<'static, [u8]>, Option<&'static str>)> {
    let accepted = headers.get(header::ACCEPT_ENCODING)?.to_str().ok()?;
    [("br", "br"), ("gzip", "gz")]
        .into_iter()
        .filter(|(encoding, _)| accepts(accepted, encoding))
        .find_map(|(encoding, suffix)| {
            let file = Files::get(&format!("{name}.{suffix}"))?;
            Some((file.data, Some(encoding)))
        })
}

fn accepts(accepted: &str, encoding: &str) -> bool {
    accepted.split(',').any(|part| {
        let mut words = part.split(';').map(str::trim);
        words.next() == Some(encoding) && !words.any(|word| matches!(word, "q=0" | "q=0.0"))
    })
}

/// `None` for files that are not served by their own name, such as the encoded twins.
fn content_type(name: &str) -> Option<&'static str> {
    Some(match name.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        _ => return None,
    })
}

fn not_built() -> Response {
    answer(
        StatusCode::NOT_FOUND,
        "text/html; charset=utf-8",
        Cow::Borrowed(NOT_BUILT.as_bytes()),
    )
}

fn answer(status: StatusCode, kind: &'static str, data: Cow<'static, [u8]>) -> Response {
    // what lies in the program is not copied for an answer
    let mut response = Response::new(Body::from(data));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn policy() -> HeaderValue {
        crate::auth::configuration::console_policy(&[]).expect("a header")
    }

    fn get(path: &str) -> Option<Response> {
        let (parts, ()) = http::Request::get(path)
            .header(header::ACCEPT_ENCODING, "gzip, br")
            .body(())
            .expect("request")
            .into_parts();
        serve(&parts, &policy())
    }

    #[test]
    fn views_get_the_start_page_and_the_api_stays_the_api() {
        for view in ["/", "/allocations", "/allocations/01a1fa0e", "/admin/nodes"] {
            let response = get(view).expect(view);
            // 404 only while the console is not built
            assert!(matches!(response.status().as_u16(), 200 | 404), "{view}");
            assert_eq!(
                response.headers()[header::CONTENT_TYPE],
                "text/html; charset=utf-8"
            );
            let policy = response.headers()[header::CONTENT_SECURITY_POLICY]
                .to_str()
                .expect("text");
            assert!(policy.contains("script-src 'self';"), "{policy}");
        }
        for other in [
            "/api",
            "/api/v1/nothing",
            "/dev/authorize",
            "/healthz",
            "/.well-known/jwks.json",
            "/assets/missing",
            "/favicon.png",
            "/../Cargo.toml",
            "/assets/../../package.json",
        ] {
            assert!(get(other).is_none(), "{other}");
        }
        let (parts, ()) = http::Request::post("/allocations")
            .body(())
            .expect("request")
            .into_parts();
        assert!(serve(&parts, &policy()).is_none());
    }

    #[tokio::test]
    async fn answers_have_no_copy_of_what_lies_in_the_program() {
        let text: &'static [u8] = b"page";
        let body = answer(StatusCode::OK, "text/html", Cow::Borrowed(text)).into_body();
        let sent = body.collect().await.expect("a body").to_bytes();
        assert_eq!(sent.as_ptr(), text.as_ptr());
    }

    #[test]
    fn only_wanted_encodings_are_sent() {
        for (accepted, encoding, expected) in [
            ("gzip, br", "br", true),
            ("gzip;q=1.0, br;q=0", "br", false),
            ("gzip", "br", false),
            ("identity", "gzip", false),
            ("deflate, gzip;q=0.5", "gzip", true),
        ] {
            assert_eq!(
                accepts(accepted, encoding),
                expected,
                "{accepted} {encoding}"
            );
        }
    }
}
