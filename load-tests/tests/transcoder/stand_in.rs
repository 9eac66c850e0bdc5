//! The service behind Envoy: it keeps what it is asked, and answers what the test says.
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes};
use http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use tonic::body::Body;
use tonic::server::NamedService;

#[derive(Debug, Default)]
pub struct Exchange {
    pub called: String,
    pub request: Vec<u8>,
    pub answer: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub struct StandIn(Arc<Mutex<Exchange>>);

impl NamedService for StandIn {
    // a pattern of the router: every name
    const NAME: &'static str = "{service}";
}

impl StandIn {
    pub fn with<T>(&self, act: impl FnOnce(&mut Exchange) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl tower::Service<http::Request<Body>> for StandIn {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let own = self.clone();
        Box::pin(async move {
            let called = request.uri().path().trim_start_matches('/').to_owned();
            // Envoy ends the call of a request that it refuses
            let Ok(body) = request.into_body().collect().await else {
                return Ok(http::Response::new(Body::empty()));
            };
            // after one byte for compression and four for the length
            let message = body.to_bytes().slice(5..).to_vec();
            let answer = own.with(|exchange| {
                exchange.called = called;
                exchange.request = message;
                exchange.answer.clone()
            });
            let mut frame = Vec::new();
            frame.put_u8(0);
            frame.put_u32(u32::try_from(answer.len()).expect("short"));
            frame.extend(answer);
            let end = HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-status"),
                HeaderValue::from_static("0"),
            )]);
            let frames = [
                Ok::<_, Infallible>(Frame::data(Bytes::from(frame))),
                Ok(Frame::trailers(end)),
            ];
            let body = Body::new(StreamBody::new(futures::stream::iter(frames)));
            let mut response = http::Response::new(body);
            response.headers_mut().insert(
                http::header::CONTENT_TYPE,
                HeaderValue::from_static("application/grpc"),
            );
            Ok(response)
        })
    }
}
