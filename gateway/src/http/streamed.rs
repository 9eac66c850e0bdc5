//! A streaming RPC as HTTP: server-sent events for who asks for them, otherwise one JSON object per line.
//!
//! Whatever ends a stream after its start is its last line or event; a client that does not take that either is
//! disconnected.
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};
use tonic::Code;

use super::answer::IsStream;
use crate::error::ApiError;
use crate::streams::piece::{Form, Pieces, RESUME_TOKEN};
use crate::streams::{Ended, Subscription};

/// Where the browser puts the id of the last event it got.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Tells proxies not to collect the answer.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// What a browser waits before it opens a stream again, in milliseconds.
const RETRY: &str = "retry: 1000\n\n";

/// Puts the id of the last event that a browser got where the request says where to go on. It wins over the address:
/// a browser that opens a stream again repeats the address it began with.
pub fn resume(message: &mut DynamicMessage, headers: &HeaderMap) {
    let id = headers
        .get(LAST_EVENT_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|id| !id.is_empty());
    if let Some(id) = id
        && message
            .descriptor()
            .get_field_by_name(RESUME_TOKEN)
            .is_some()
    {
        message.set_field_by_name(RESUME_TOKEN, Value::String(id.to_owned()));
    }
}

/// A stream under way.
struct Running {
    subscription: Subscription,
    form: Form,
    pieces: Pieces,
    is_over: bool,
}

/// The answer that carries a stream.
pub fn respond(subscription: Subscription, pieces: &Pieces, headers: &HeaderMap) -> Response {
    let form = Form::requested(headers);
    let mark = IsStream {
        over: subscription.over(),
        gone: subscription.gone(),
    };
    let running = Running {
        subscription,
        form,
        pieces: pieces.clone(),
        is_over: false,
    };
    let parts = futures::stream::unfold(running, |mut running| async move {
        if running.is_over {
            return None;
        }
        let part = running.next().await?;
        Some((Ok::<_, std::convert::Infallible>(part), running))
    });
    let body = match form {
        Form::Lines => Body::from_stream(parts),
        Form::Events => {
            use futures::StreamExt as _;
            let first = futures::stream::iter([Ok(Bytes::from_static(RETRY.as_bytes()))]);
            Body::from_stream(first.chain(parts))
        }
    };
    let mut response = Response::new(body);
    response.extensions_mut().insert(mark);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, form.content_type());
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    response
}

impl Running {
    /// The next piece of the body; nothing when the service has ended the stream.
    async fn next(&mut self) -> Option<Bytes> {
        let message = self.subscription.next().await?;
        let error = match message {
            Ok(message) => match self.pieces.of(self.form, message) {
                Ok(piece) => return Some(piece),
                Err(error) => error,
            },
            Err(Ended::Restarting) => restarting(),
            Err(Ended::Expired) => expired(),
            Err(Ended::LostAccess) => lost_access(),
            Err(Ended::Failed(error)) => error,
        };
        Some(self.last(&error))
    }

    fn last(&mut self, error: &ApiError) -> Bytes {
        self.is_over = true;
        self.subscription.note_end(error.reason());
        self.form.error(&error.body(self.subscription.request_id()))
    }
}

fn restarting() -> ApiError {
    ApiError::new(
        Code::Unavailable,
        ErrorReason::DependencyUnavailable,
        "The gateway restarts. Open the stream again with the last resume token.",
    )
}

fn expired() -> ApiError {
    ApiError::new(
        Code::Unauthenticated,
        ErrorReason::CredentialExpired,
        "The token has expired. Get a new one and open the stream again with the last resume token.",
    )
}

fn lost_access() -> ApiError {
    ApiError::new(
        Code::PermissionDenied,
        ErrorReason::PermissionDenied,
        "Your access has changed. Open the stream again to see what you still may.",
    )
}
