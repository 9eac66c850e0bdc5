//! Documents that are the same for everybody.
use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};

/// A JSON document for anyone.
pub fn document(text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=300"),
    );
    response
}
