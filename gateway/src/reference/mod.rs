//! The API reference: one small page that reads the OpenAPI document and shows it. Nothing of it is from another host, and it works
//! without a sign-in, as the document does.
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::get;
use http::{HeaderValue, header};

/// Where it is served.
pub const PATH: &str = "/reference";

/// Scripts, styles and connections of its own address only.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Path, type and text of each file.
const FILES: [(&str, &str, &str); 3] = [
    (PATH, "text/html; charset=utf-8", include_str!("page.html")),
    (
        "/reference/page.js",
        "text/javascript; charset=utf-8",
        include_str!("page.js"),
    ),
    (
        "/reference/page.css",
        "text/css; charset=utf-8",
        include_str!("page.css"),
    ),
];

/// Its routes.
pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES
        .into_iter()
        .fold(Router::new(), |router, (path, kind, text)| {
            router.route(path, get(async move || file(kind, text)))
        })
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
