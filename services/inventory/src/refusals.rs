//! Counts what is refused, by reason, and gives a typed answer also to what the transport refuses: a message that is too
//! large, or none.
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{self, Poll};

use gpuaas_common::Error;
use gpuaas_common::error::reason_name;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{Request, Response};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower::Service;

/// What typed errors carry and those of the transport do not.
const DETAILS: &str = "grpc-status-details-bin";

/// The counter of refusals. Clones share it.
#[derive(Clone)]
pub(crate) struct Refusals(Counter<u64>);

impl Refusals {
    pub(crate) fn new(meter: &Meter) -> Self {
        let counter = meter.u64_counter("inventory_refusals_total");
        let counter = counter.with_description(
            "Calls of hosts and operators that were refused, by method and reason",
        );
        Self(counter.build())
    }

    /// Counts what this service itself refused of what it asked for.
    pub(crate) fn count(&self, method: &'static str, reason: ErrorReason) {
        let labels = [
            KeyValue::new("method", method),
            KeyValue::new("reason", reason_name(reason)),
        ];
        self.0.add(1, &labels);
    }

    /// The same service, with its refusals counted.
    pub(crate) fn of<S>(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            refusals: self.clone(),
        }
    }
}

/// See [`Refusals`].
#[derive(Clone)]
pub(crate) struct Counted<S> {
    inner: S,
    refusals: Refusals,
}

impl<S: NamedService> NamedService for Counted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Counted<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let method = path.rsplit('/').next().unwrap_or_default().to_owned();
        let Refusals(counter) = self.refusals.clone();
        let answered = self.inner.call(request);
        Box::pin(async move {
            let response = answered.await?;
            // an answer that is no refusal has its status in the trailers
            let Some(status) = Status::from_header_map(response.headers()) else {
                return Ok(response);
            };
            if status.code() == Code::Ok {
                return Ok(response);
            }
            let is_typed = response.headers().contains_key(DETAILS);
            let typed = if is_typed {
                None
            } else {
                of_transport(&status)
            };
            let reason = match &typed {
                Some(error) => error.reason(),
                None => Error::from(status).reason(),
            };
            let labels = [
                KeyValue::new("method", method),
                KeyValue::new("reason", reason_name(reason)),
            ];
            counter.add(1, &labels);
            Ok(match typed {
                Some(error) => Status::from(error).into_http(),
                None => response,
            })
        })
    }
}

/// The typed error for what the transport refused before any method was called.
fn of_transport(status: &Status) -> Option<Error> {
    match status.code() {
        Code::OutOfRange | Code::ResourceExhausted => Some(Error::new(
            Code::ResourceExhausted,
            ErrorReason::BodyTooLarge,
            "The message is larger than this service takes in.",
        )),
        Code::Internal | Code::InvalidArgument => Some(Error::new(
            Code::InvalidArgument,
            ErrorReason::BodyMalformed,
            "The message is truncated, or not of its type.",
        )),
        _ => None,
    }
}
