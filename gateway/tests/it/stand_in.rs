//! Any service behind the gateway: the common server with the real access layer, and an answer that says how it was called.
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use gpuaas_common::Error;
use gpuaas_common::identity::Caller;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;

/// The field that its answers name.
pub const FIELD: &str = "stand_in";

/// Answers all methods of all services.
#[derive(Clone, Copy, Debug)]
pub struct StandIn;

impl NamedService for StandIn {
    // a pattern of the router: every name
    const NAME: &'static str = "{service}";
}

impl tower::Service<http::Request<Body>> for StandIn {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let projects = request
            .extensions()
            .get::<Caller>()
            .map_or(0, |caller| caller.projects.len());
        let answer = Error::invalid(FIELD, format!("called for {projects}"));
        ready(Ok(Status::from(answer).into_http()))
    }
}
