//! Connections: bounded by address, in time and in size, so that a VM disturbs itself at most.
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::{Limits, Metadata};

/// Largest request line with headers, in bytes.
const MOST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 32;

pub struct Connections {
    limits: Limits,
    open: Open,
}

type Open = Arc<Mutex<HashMap<Ipv4Addr, usize>>>;

/// A connection's place among those of its address.
struct Place {
    open: Open,
    of: Ipv4Addr,
}

impl Place {
    /// None when the address has as many as it may.
    fn of(open: &Open, of: Ipv4Addr, most: usize) -> Option<Self> {
        let mut counts = open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(of).or_default();
        (*count < most).then(|| {
            *count += 1;
            Self {
                open: Arc::clone(open),
                of,
            }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.of);
            }
        }
    }
}

impl Connections {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: Open::default(),
        }
    }

    /// Answers a connection on a task of its own, or closes it.
    pub fn take(&self, stream: TcpStream, peer: SocketAddr, metadata: &Arc<Metadata>) {
        let IpAddr::V4(source) = peer.ip() else {
            return;
        };
        let Some(place) = Place::of(&self.open, source, self.limits.connections) else {
            return;
        };
        let metadata = Arc::clone(metadata);
        let service = service_fn(move |request| {
            let metadata = Arc::clone(&metadata);
            async move { Ok::<_, Infallible>(metadata.answer(source, request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.headers)
            .max_buf_size(MOST_BYTES)
            .max_headers(MOST_HEADERS)
            .keep_alive(false)
            // of a simple client that has said all it has to say
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service);
        let lifetime = self.limits.connection;
        tokio::spawn(async move {
            // how it ended is its VM's affair
            let _ended = tokio::time::timeout(lifetime, connection).await;
            drop(place);
        });
    }
}
