//! Which requests and streams are taken: as many as the gateway can carry, and of one caller no more than its share.
//!
//! A request holds one of the gateway's places only from the moment it is there as a whole. Until then it holds a part
//! of its own caller's share alone, so that a slow body costs nobody else anything.
use std::sync::Arc;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderValue, header};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Code;

use super::peer::Peer;
use super::shares::{Share, Shares};
use crate::error::{ApiError, overloaded};

/// Most places at once: of all callers, of one peer address, of one principal.
#[derive(Clone, Copy, Debug)]
pub struct PlaceLimits {
    /// Of all.
    pub all: usize,
    /// Of one peer address.
    pub per_peer: usize,
    /// Of one principal.
    pub per_principal: usize,
}

/// Counts what one peer address and one principal have, beside a total.
#[derive(Debug)]
struct Places {
    what: &'static str,
    total: Arc<Semaphore>,
    by_peer: Shares<Peer>,
    by_principal: Shares<Arc<str>>,
}

impl Places {
    fn new(what: &'static str, limits: PlaceLimits) -> Self {
        Self {
            what,
            total: Arc::new(Semaphore::new(limits.all)),
            by_peer: Shares::new(limits.per_peer),
            by_principal: Shares::new(limits.per_principal),
        }
    }
}

/// A place among those of its principal, of its peer address, and of all. Given back when dropped.
#[derive(Debug)]
pub struct Place {
    _of_peer: Option<Share<Peer>>,
    _of_principal: Share<Arc<str>>,
    _of_all: OwnedSemaphorePermit,
}

/// What is taken.
#[derive(Debug)]
pub struct Admission {
    requests: Places,
    /// Bodies that are on their way, by principal.
    bodies: Shares<Arc<str>>,
    streams: Places,
    terminals: Shares<Peer>,
    refused: Counter<u64>,
}

impl Admission {
    /// With these limits.
    pub fn new(
        requests: PlaceLimits,
        streams: PlaceLimits,
        terminals_per_peer: usize,
        meter: &Meter,
    ) -> Self {
        Self {
            requests: Places::new("requests", requests),
            bodies: Shares::new(requests.per_principal),
            streams: Places::new("streams", streams),
            terminals: Shares::new(terminals_per_peer),
            refused: refused_counter(meter),
        }
    }

    /// A part of the peer's share, from a request's head on.
    ///
    /// # Errors
    /// `RATE_LIMITED`.
    pub fn arrive(&self, peer: &Peer) -> Result<Share<Peer>, ApiError> {
        let share = self.requests.by_peer.take(peer);
        share.ok_or_else(|| self.limited("requests", "peer"))
    }

    /// A part of the principal's share, while a body is on its way.
    ///
    /// # Errors
    /// `RATE_LIMITED`.
    pub fn receive(&self, principal: &str) -> Result<Share<Arc<str>>, ApiError> {
        let share = self.bodies.take(&Arc::from(principal));
        share.ok_or_else(|| self.limited("bodies", "principal"))
    }

    /// A place for a request whose body is there.
    ///
    /// # Errors
    /// `RATE_LIMITED`, `OVERLOADED`.
    pub fn run(&self, principal: &str) -> Result<Place, ApiError> {
        self.place(&self.requests, None, principal)
    }

    /// A place for a stream.
    ///
    /// # Errors
    /// `RATE_LIMITED`, `OVERLOADED`.
    pub fn stream(&self, peer: &Peer, principal: &str) -> Result<Place, ApiError> {
        self.place(&self.streams, Some(peer), principal)
    }

    /// A part of the peer's share of WebSockets.
    ///
    /// # Errors
    /// `RATE_LIMITED`.
    pub fn terminal(&self, peer: &Peer) -> Result<Share<Peer>, ApiError> {
        let share = self.terminals.take(peer);
        share.ok_or_else(|| self.limited("terminals", "peer"))
    }

    fn place(
        &self,
        places: &Places,
        peer: Option<&Peer>,
        principal: &str,
    ) -> Result<Place, ApiError> {
        let of_peer = peer
            .map(|peer| {
                let share = places.by_peer.take(peer);
                share.ok_or_else(|| self.limited(places.what, "peer"))
            })
            .transpose()?;
        let share = places.by_principal.take(&Arc::from(principal));
        let of_principal = share.ok_or_else(|| self.limited(places.what, "principal"))?;
        let of_all = places.total.clone().try_acquire_owned().map_err(|_| {
            self.count(places.what, "all");
            overloaded()
        })?;
        Ok(Place {
            _of_peer: of_peer,
            _of_principal: of_principal,
            _of_all: of_all,
        })
    }

    fn limited(&self, what: &'static str, of: &'static str) -> ApiError {
        self.count(what, of);
        let whose = match of {
            "peer" => "from your address",
            _ => "of yours",
        };
        ApiError::new(
            Code::ResourceExhausted,
            ErrorReason::RateLimited,
            format!("Too many {what} {whose} are open at once. Try again in a moment."),
        )
        .meta("limit", format!("{what}_per_{of}"))
        .header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    fn count(&self, what: &'static str, of: &'static str) {
        let labels = [KeyValue::new("what", what), KeyValue::new("limit", of)];
        self.refused.add(1, &labels);
    }
}

/// Counts what was refused because a limit was reached.
pub(crate) fn refused_counter(meter: &Meter) -> Counter<u64> {
    meter
        .u64_counter("edge_limited_total")
        .with_description("Connections, requests, bodies, streams and terminals refused at a limit, by what and whose limit (peer, principal, all)")
        .build()
}
