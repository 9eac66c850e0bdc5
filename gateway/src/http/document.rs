//! Documents that are the same for everybody.
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, header};

/// A JSON document for anyone. Answers share its bytes.
pub fn document(text: impl Into<Bytes>) -> Response {
    let text: Bytes = text.into();
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn answers_have_no_copy_of_their_own() {
        let text = Bytes::from("{}".to_owned());
        let body = document(text.clone()).into_body();
        let sent = body.collect().await.expect("a body").to_bytes();
        assert_eq!(sent.as_ptr(), text.as_ptr());
    }
}
