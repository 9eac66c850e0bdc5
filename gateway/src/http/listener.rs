//! Accepts connections: as many as configured, of one peer address no more than its share, each with a limited time
//! for its handshake, its protocol, its headers and for taking its answers.
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{self, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use gpuaas_common::CancellationToken;
use gpuaas_common::server::connections::{Activity, Connection, Connections, Full, Running};
use http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::task::TaskTracker;
use tower::Service;

use super::answer::{Answer, IsStream, Untaken};
use super::tls::Tls;
use crate::limits::admission::refused_counter;
use crate::limits::peer::{ClientAddress, Peer, Proxies};

const HTTP2_KEEPALIVE: Duration = Duration::from_secs(20);
const HTTP2_STREAMS: u32 = 128;
/// Out of file descriptors and nobody rests: others have to close first, so there is no use in trying at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Longest goodbye of a connection that has rested too long.
const GOODBYE: Duration = Duration::from_secs(5);

/// How many connections there may be, and how long each may send nothing.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections open at once.
    pub connections: usize,
    /// Connections of one peer address open at once.
    pub connections_per_peer: usize,
    /// From the connection on, handshake and choice of protocol included: a client that has not sent the headers of its
    /// first request by then is let go.
    pub first_request_timeout: Duration,
    /// A client that has not sent the headers of its next request by then is let go.
    pub header_timeout: Duration,
    /// A client that takes nothing of an answer for so long is let go; of a stream it may take nothing.
    pub write_timeout: Duration,
    /// The TLS proxies in front. They are not limited as peers, but for whom they speak.
    pub proxies: Proxies,
    /// Whether others than the proxies are turned away.
    pub proxies_only: bool,
}

/// Instruments of a listener.
#[derive(Clone, Debug)]
pub struct Meters {
    refused: Counter<u64>,
    ended: Counter<u64>,
}

impl Meters {
    /// Instruments of this process.
    pub fn new(meter: &Meter) -> Self {
        Self {
            refused: refused_counter(meter),
            ended: meter
                .u64_counter("edge_connections_closed_total")
                .with_description("Connections that the gateway closed, by cause (request_timeout, idle, stalled, replaced, handshake, not_a_proxy)")
                .build(),
        }
    }

    pub(crate) fn refused(&self, full: Full) {
        let limit = match full {
            Full::Peer => "peer",
            Full::All => "all",
        };
        let labels = [
            KeyValue::new("what", "connections"),
            KeyValue::new("limit", limit),
        ];
        self.refused.add(1, &labels);
    }

    pub(crate) fn let_go(&self, cause: &'static str) {
        self.ended.add(1, &[KeyValue::new("cause", cause)]);
    }
}

/// The next connection and the address of its peer; none once it is time to shut down. When the process is out of file
/// descriptors, a connection that rests is ended.
pub(crate) async fn accept(
    listener: &TcpListener,
    connections: &Connections,
    meters: &Meters,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, IpAddr)> {
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return None,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => return Some((stream, address.ip().to_canonical())),
            Err(error) => {
                tracing::warn!("accept connection: {error}");
                if connections.let_go_one() {
                    meters.let_go("replaced");
                    tokio::task::yield_now().await;
                } else {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Serves until `shutdown`; returns when the last running request has ended.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    limits: Limits,
    meters: Meters,
    shutdown: CancellationToken,
) {
    let connections = Connections::new(limits.connections, limits.connections_per_peer);
    let tasks = TaskTracker::new();
    while let Some((stream, address)) = accept(&listener, &connections, &meters, &shutdown).await {
        let proxy = limits.proxies.contains(address);
        if limits.proxies_only && !proxy {
            meters.let_go("not_a_proxy");
            continue;
        }
        match connections.enter((!proxy).then(|| Peer::of(address))) {
            Ok(place) => {
                let served = Served {
                    place,
                    address,
                    router: router.clone(),
                    limits: limits.clone(),
                    meters: meters.clone(),
                    shutdown: shutdown.clone(),
                };
                tasks.spawn(served.accepted(stream, tls.clone()));
            }
            Err(full) => {
                tracing::debug!(%address, "refuse connection: {full:?}");
                meters.refused(full);
            }
        }
    }
    tasks.close();
    tasks.wait().await;
}

/// A connection and what it is served with.
struct Served {
    place: Connection,
    address: IpAddr,
    router: Router,
    limits: Limits,
    meters: Meters,
    shutdown: CancellationToken,
}

impl Served {
    async fn accepted(self, stream: TcpStream, tls: Option<Tls>) {
        let deadline = Instant::now() + self.limits.first_request_timeout;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("connection without TCP_NODELAY: {error}");
        }
        let Some(tls) = tls else {
            return self.serve(stream, deadline).await;
        };
        let let_go = self.place.let_go.clone();
        let shaken = tokio::select! {
            () = let_go.cancelled() => return self.meters.let_go("replaced"),
            shaken = timeout_at(deadline, tls.acceptor().accept(stream)) => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => self.serve(stream, deadline).await,
            Ok(Err(error)) => {
                tracing::debug!("handshake failed: {error}");
                self.meters.let_go("handshake");
            }
            Err(_) => self.meters.let_go("request_timeout"),
        }
    }

    async fn serve<S>(self, stream: S, deadline: Instant)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(HTTP2_KEEPALIVE)
            .max_concurrent_streams(HTTP2_STREAMS);
        let untaken = Untaken::default();
        let service = PerRequest {
            router: self.router,
            begin: self.place.starter(),
            untaken: untaken.clone(),
            address: self.address,
            proxies: self.limits.proxies.clone(),
        };
        let connection = builder.serve_connection_with_upgrades(
            TokioIo::new(stream),
            TowerToHyperService::new(service),
        );
        let mut connection = pin!(connection);
        let mut activity = self.place.activity.clone();
        let mut goodbye = None;
        loop {
            let rested = rested(&mut activity, deadline, self.limits.header_timeout);
            tokio::select! {
                ended = connection.as_mut() => {
                    // a client that goes away in the middle is its own business
                    if let Err(error) = ended {
                        tracing::debug!("end connection: {error}");
                    }
                    return;
                }
                () = self.place.let_go.cancelled() => return self.meters.let_go("replaced"),
                () = untaken.stalled(self.limits.write_timeout) => return self.meters.let_go("stalled"),
                () = self.shutdown.cancelled(), if goodbye.is_none() => {
                    connection.as_mut().graceful_shutdown();
                    goodbye = Some(None);
                }
                () = until(goodbye.flatten()) => return,
                before_request = rested, if goodbye.flatten().is_none() => {
                    if before_request {
                        return self.meters.let_go("request_timeout");
                    }
                    self.meters.let_go("idle");
                    connection.as_mut().graceful_shutdown();
                    goodbye = Some(Some(Instant::now() + GOODBYE));
                }
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Returns when a connection has rested too long; whether it has never sent a request.
async fn rested(activity: &mut watch::Receiver<Activity>, first: Instant, rest: Duration) -> bool {
    loop {
        let now = *activity.borrow_and_update();
        let deadline = match now {
            Activity::Silent => Some(first),
            Activity::Busy => None,
            Activity::Resting => Some(Instant::now() + rest),
        };
        tokio::select! {
            () = until(deadline) => return now == Activity::Silent,
            changed = activity.changed() => if changed.is_err() {
                // it is no longer counted, and about to end
                std::future::pending::<()>().await;
            }
        }
    }
}

/// The router for one connection: each request knows its peer, and keeps the connection busy until its answer is sent.
#[derive(Clone)]
struct PerRequest<F> {
    router: Router,
    begin: F,
    untaken: Untaken,
    address: IpAddr,
    proxies: Proxies,
}

type Answered = Pin<Box<dyn Future<Output = Result<Response, std::convert::Infallible>> + Send>>;

impl<B, F> Service<Request<B>> for PerRequest<F>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
    F: Fn() -> Running,
{
    type Response = Response;
    type Error = std::convert::Infallible;
    type Future = Answered;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        // a router takes everything
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Answered {
        let running = (self.begin)();
        let address = self.proxies.address(self.address, request.headers());
        request.extensions_mut().insert(ClientAddress(address));
        request.extensions_mut().insert(Peer::of(address));
        let answered = self.router.call(request);
        let untaken = self.untaken.clone();
        Box::pin(async move {
            let response = answered.await?;
            let stream = response.extensions().get::<IsStream>().cloned();
            let is_stream = stream.is_some();
            if let Some(stream) = stream {
                tokio::spawn(stream.watch(untaken.clone()));
            }
            Ok(response.map(|body| Body::new(Answer::new(body, is_stream, &untaken, running))))
        })
    }
}
