//! A span, a duration and a count per RPC; the request id of the caller for everything below it.
use std::future::Future;
use std::pin::Pin;
use std::task::{self, Poll};
use std::time::Instant;

use http::{Request, Response};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Histogram;
use tonic::body::Body;
use tower::{Layer, Service};
use tracing::Instrument as _;

use crate::client::{REQUEST_ID, RequestId};
use crate::context::Context;
use crate::trace;

/// Adds [`Observe`].
#[derive(Clone)]
pub struct ObserveLayer {
    duration: Histogram<f64>,
}

impl ObserveLayer {
    pub fn new(context: &Context) -> Self {
        let duration = context
            .meter
            .f64_histogram("rpc_server_duration_seconds")
            .with_description("Time from request to response head, by method and gRPC code")
            .with_boundaries(vec![
                0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
            ])
            .build();
        Self { duration }
    }
}

impl<S> Layer<S> for ObserveLayer {
    type Service = Observe<S>;
    fn layer(&self, inner: S) -> Self::Service {
        Observe {
            inner,
            duration: self.duration.clone(),
        }
    }
}

/// See the module.
#[derive(Clone)]
pub struct Observe<S> {
    inner: S,
    duration: Histogram<f64>,
}

impl<S> Service<Request<Body>> for Observe<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path().to_owned();
        let header = |name: &str| {
            request
                .headers()
                .get(name)
                .and_then(|v| v.to_str().ok())
                .unwrap_or_default()
        };
        let request_id = header("x-request-id").to_owned();
        let span =
            tracing::info_span!("rpc", rpc = %path, request_id = %request_id, otel.kind = "server");
        trace::set_parent(&span, header(trace::TRACEPARENT));
        let duration = self.duration.clone();
        // the ready service is used, its clone waits for the next request
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(
            REQUEST_ID.scope(
                RequestId(request_id),
                async move {
                    let started = Instant::now();
                    let response = inner.call(request).await;
                    let code = response
                        .as_ref()
                        .ok()
                        .and_then(|r| r.headers().get("grpc-status"))
                        .and_then(|v| v.to_str().ok())
                        .unwrap_or("0")
                        .to_owned();
                    let labels = [KeyValue::new("method", path), KeyValue::new("code", code)];
                    duration.record(started.elapsed().as_secs_f64(), &labels);
                    response
                }
                .instrument(span),
            ),
        )
    }
}
