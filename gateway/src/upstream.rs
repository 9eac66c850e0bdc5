//! Calls a service with bytes that are already a message: no generated client, one codec for all methods.
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes};
use gpuaas_common::client::{GrpcChannel, Peers, REQUEST_ID, RequestId};
use prost::Message as _;
use prost_reflect::{DynamicMessage, MethodDescriptor};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Status};

use crate::contract::route::Route;
use crate::error::ApiError;

/// Passes encoded messages through.
#[derive(Clone, Copy, Debug, Default)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), Status> {
        dst.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, src: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = src.remaining();
        Ok(Some(src.copy_to_bytes(length)))
    }
}

/// An internal token, as metadata of a call.
pub type Authorization = MetadataValue<Ascii>;

/// An internal token as metadata.
///
/// # Errors
/// It is no token.
pub fn authorization(token: &str) -> Result<Authorization, ApiError> {
    text(&format!("Bearer {token}"))
}

fn text(value: &str) -> Result<MetadataValue<Ascii>, ApiError> {
    MetadataValue::<Ascii>::try_from(value).map_err(|_| ApiError::internal())
}

/// What travels beside the message and the token.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Of the HTTP request.
    pub request_id: String,
    /// Of the HTTP request.
    pub idempotency_key: Option<String>,
    /// Header `Origin` of the HTTP request: the page that asks.
    pub origin: Option<String>,
    /// Longest time the call may take; a stream, until it is open.
    pub timeout: Duration,
}

/// Calls the route's method.
///
/// # Errors
/// What the service answers, or that it does not answer.
pub async fn call(
    peers: &Peers,
    route: &Route,
    message: &DynamicMessage,
    envelope: &Envelope,
    token: Authorization,
) -> Result<DynamicMessage, ApiError> {
    let (mut client, mut request) = prepare(peers, route, message, envelope, token)?;
    request.set_timeout(envelope.timeout);
    let path = route.method_path.clone();
    let answer = REQUEST_ID
        .scope(RequestId(envelope.request_id.clone()), async {
            ready(&mut client).await?;
            client.unary(request, path, RawCodec).await
        })
        .await;
    match answer {
        Ok(response) => decode(&route.method, response.into_inner()),
        Err(status) => Err(refused(&route.method, &status)),
    }
}

/// The messages of a service's stream. Dropped, it ends the stream.
pub struct Messages {
    stream: tonic::Streaming<Bytes>,
    method: MethodDescriptor,
}

/// Opens the stream of the route's method. It has no deadline once it is open.
///
/// # Errors
/// What the service answers, or that it does not answer in time.
pub async fn open(
    peers: &Peers,
    route: &Route,
    message: &DynamicMessage,
    envelope: &Envelope,
    token: Authorization,
) -> Result<Messages, ApiError> {
    let (mut client, request) = prepare(peers, route, message, envelope, token)?;
    let path = route.method_path.clone();
    let opened = REQUEST_ID.scope(RequestId(envelope.request_id.clone()), async {
        ready(&mut client).await?;
        client.server_streaming(request, path, RawCodec).await
    });
    let answer = tokio::time::timeout(envelope.timeout, opened)
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded("no stream in time")));
    match answer {
        Ok(response) => Ok(Messages {
            stream: response.into_inner(),
            method: route.method.clone(),
        }),
        Err(status) => Err(refused(&route.method, &status)),
    }
}

/// A message of a method as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Whose answer it is.
    pub method: MethodDescriptor,
    /// What was sent.
    pub bytes: Bytes,
}

impl std::hash::Hash for Encoded {
    // a descriptor has no hash; methods with equal bytes are rare, and told apart by equality
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl Encoded {
    /// What it says.
    ///
    /// # Errors
    /// Bytes that are no message of the method.
    pub fn decode(&self) -> Result<DynamicMessage, ApiError> {
        decode(&self.method, self.bytes.clone())
    }
}

impl Messages {
    /// The next message, when the service has one; nothing when it has ended the stream.
    pub async fn next(&mut self) -> Option<Result<Encoded, ApiError>> {
        match self.stream.message().await {
            Ok(message) => Some(Ok(Encoded {
                method: self.method.clone(),
                bytes: message?,
            })),
            Err(status) => Some(Err(refused(&self.method, &status))),
        }
    }
}

type Prepared = (tonic::client::Grpc<GrpcChannel>, Request<Bytes>);

fn prepare(
    peers: &Peers,
    route: &Route,
    message: &DynamicMessage,
    envelope: &Envelope,
    token: Authorization,
) -> Result<Prepared, ApiError> {
    let channel = peers.channel(route.service).map_err(|error| {
        tracing::error!(service = route.service, "open channel: {}", error.chain());
        ApiError::unavailable()
    })?;
    let mut request = Request::new(Bytes::from(message.encode_to_vec()));
    let metadata = request.metadata_mut();
    metadata.insert("authorization", token);
    if let Some(key) = &envelope.idempotency_key {
        metadata.insert("x-idempotency-key", text(key)?);
    }
    if let Some(origin) = &envelope.origin {
        metadata.insert("x-origin", text(origin)?);
    }
    Ok((tonic::client::Grpc::new(channel), request))
}

async fn ready(client: &mut tonic::client::Grpc<GrpcChannel>) -> Result<(), Status> {
    client
        .ready()
        .await
        .map_err(|_| Status::unavailable("not ready"))
}

fn decode(method: &MethodDescriptor, bytes: Bytes) -> Result<DynamicMessage, ApiError> {
    DynamicMessage::decode(method.output(), bytes).map_err(|error| {
        tracing::error!(method = method.full_name(), "decode answer: {error}");
        ApiError::internal()
    })
}

fn refused(method: &MethodDescriptor, status: &Status) -> ApiError {
    let error = ApiError::from_status(status);
    if error.http_status().is_server_error() {
        tracing::warn!(method = method.full_name(), code = ?status.code(), "upstream failed: {}", status.message());
    }
    error
}
