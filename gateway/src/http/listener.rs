//! Accepts connections: as many as configured, each with a limited time for its headers, all ended gently.
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use gpuaas_common::CancellationToken;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

const HTTP2_KEEPALIVE: Duration = Duration::from_secs(20);
const HTTP2_STREAMS: u32 = 128;
/// Out of file descriptors: others have to close first, so there is no use in trying at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many connections there may be, and how long each may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections open at once; more wait.
    pub connections: usize,
    /// A client that has not sent the headers of its first or next request by then is let go.
    pub header_timeout: Duration,
}

/// Serves until `shutdown`; returns when the last running request has ended.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((stream, place)) => {
                let served = connection(
                    stream,
                    place,
                    router.clone(),
                    limits.header_timeout,
                    shutdown.clone(),
                );
                connections.spawn(served);
            }
            Err(error) => {
                tracing::warn!("accept connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

/// Waits for a free place first, so that more clients queue in the kernel instead of here.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = places
        .clone()
        .acquire_owned()
        .await
        .map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, place))
}

async fn connection(
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    router: Router,
    header_timeout: Duration,
    shutdown: CancellationToken,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HTTP2_KEEPALIVE)
        .max_concurrent_streams(HTTP2_STREAMS);
    let connection = builder
        .serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // a client that goes away in the middle is its own business
    if let Err(error) = ended {
        tracing::debug!("end connection: {error}");
    }
}
