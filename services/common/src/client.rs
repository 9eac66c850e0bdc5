//! gRPC clients: mutual TLS to a named peer, with trace, request id and deadline on every call.
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::{identity, origin, trace};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
const KEEPALIVE: Duration = Duration::from_secs(10);
/// A channel that nobody asked for so long is dropped here; whoever still has it keeps it.
const UNUSED: Duration = Duration::from_secs(600);
/// Bytes in flight of one answer that its reader has not taken. The connection's window is as good as unlimited, so
/// that a stream nobody reads holds up itself and no other.
const STREAM_WINDOW: u32 = 128 << 10;
/// See [`STREAM_WINDOW`].
const CONNECTION_WINDOW: u32 = 1 << 30;

tokio::task_local! {
    /// Request id of the RPC that is being served.
    pub static REQUEST_ID: RequestId;
}

/// A request id.
#[derive(Clone, Debug, Default)]
pub struct RequestId(pub String);

/// A channel to a peer.
pub type GrpcChannel = InterceptedService<Channel, Propagate>;

/// Puts the current trace, the request id and from where the request comes on a call.
#[derive(Clone, Copy, Debug)]
pub struct Propagate;

impl Interceptor for Propagate {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let mut set = |key: &'static str, value: String| {
            if !value.is_empty()
                && let Ok(value) = MetadataValue::<Ascii>::try_from(value)
                && !request.metadata().contains_key(key)
            {
                request.metadata_mut().insert(key, value);
            }
        };
        set(trace::TRACEPARENT, trace::current_traceparent());
        set(
            "x-request-id",
            REQUEST_ID.try_with(|id| id.0.clone()).unwrap_or_default(),
        );
        for (key, value) in origin::current().metadata() {
            set(key, value.to_owned());
        }
        Ok(request)
    }
}

/// Opens channels to the peers of one process. Clones share them.
#[derive(Clone)]
pub struct Peers {
    shared: Arc<Shared>,
}

struct Shared {
    urls: HashMap<String, String>,
    /// Of services.
    authority: Certificate,
    /// Of hosts; a process without one calls none.
    hosts: Option<Certificate>,
    open: Mutex<Open>,
}

/// Channels by URL and DNS name, all of one identity.
struct Open {
    identity: Identity,
    channels: HashMap<(String, String), Used>,
}

struct Used {
    channel: Channel,
    last: Instant,
}

/// Drops what was not asked for since `UNUSED`: hosts come and go, and each instance has a name of its own.
fn forget_unused(channels: &mut HashMap<(String, String), Used>, now: Instant) {
    channels.retain(|_, used| now.saturating_duration_since(used.last) < UNUSED);
}

impl Peers {
    /// Services at these URLs, checked against `authority`, called as `identity`.
    pub fn new(
        urls: impl IntoIterator<Item = (String, String)>,
        authority: Certificate,
        identity: Identity,
    ) -> Self {
        let shared = Shared {
            urls: urls.into_iter().collect(),
            authority,
            hosts: None,
            open: Mutex::new(Open {
                identity,
                channels: HashMap::new(),
            }),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The same, and hosts, checked against an authority of their own. Channels that are open are not shared.
    #[must_use]
    pub fn and_hosts(self, hosts: Certificate) -> Self {
        let identity = self.lock().identity.clone();
        let shared = Shared {
            urls: self.shared.urls.clone(),
            authority: self.shared.authority.clone(),
            hosts: Some(hosts),
            open: Mutex::new(Open {
                identity,
                channels: HashMap::new(),
            }),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Calls as `identity` from now on: channels that are asked for later are opened anew.
    pub fn set_identity(&self, identity: Identity) {
        let mut open = self.lock();
        open.identity = identity;
        open.channels.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.shared
            .open
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A channel to a service. It connects when first used and again after a loss.
    ///
    /// # Errors
    /// The service has no URL in `[peers]`.
    pub fn channel(&self, service: &str) -> Result<GrpcChannel> {
        let url = self
            .shared
            .urls
            .get(service)
            .ok_or_else(|| Error::internal(format!("setting peers.{service} is missing")))?;
        let dns = identity::service_dns(service);
        self.open(url, &dns, &self.shared.authority)
    }

    /// A channel to the agent of one host instance at `address` ("host:port"). TLS refuses any other instance.
    ///
    /// # Errors
    /// A malformed address, or no `tls.host_ca_file`.
    pub fn host_channel(
        &self,
        address: &str,
        node_id: &Uuid,
        instance_id: &Uuid,
    ) -> Result<GrpcChannel> {
        let hosts = self.shared.hosts.as_ref();
        let hosts = hosts.ok_or_else(|| Error::internal("setting tls.host_ca_file is missing"))?;
        let dns = identity::host_dns(node_id, instance_id);
        self.open(&format!("https://{address}"), &dns, hosts)
    }

    fn open(&self, url: &str, dns: &str, authority: &Certificate) -> Result<GrpcChannel> {
        let key = (url.to_owned(), dns.to_owned());
        let now = Instant::now();
        let mut open = self.lock();
        if let Some(used) = open.channels.get_mut(&key) {
            used.last = now;
            return Ok(InterceptedService::new(used.channel.clone(), Propagate));
        }
        let tls = ClientTlsConfig::new()
            .ca_certificate(authority.clone())
            .identity(open.identity.clone())
            .domain_name(dns);
        let channel = Endpoint::from_shared(url.to_owned())
            .and_then(|endpoint| endpoint.tls_config(tls))
            .map_err(Error::internal)?
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .tcp_nodelay(true)
            .connect_lazy();
        forget_unused(&mut open.channels, now);
        let used = Used {
            channel: channel.clone(),
            last: now,
        };
        open.channels.insert(key, used);
        Ok(InterceptedService::new(channel, Propagate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn channels_to_hosts_that_are_gone_are_not_kept() {
        let peers = Peers::new([], Certificate::from_pem(""), Identity::from_pem("", ""));
        let now = Instant::now();
        let used = |last| Used {
            channel: Endpoint::from_static("http://host").connect_lazy(),
            last,
        };
        let key = |name: &str| (format!("https://{name}"), name.to_owned());
        let mut open = peers.lock();
        open.channels.insert(key("old"), used(now));
        open.channels.insert(key("new"), used(now + UNUSED / 2));
        forget_unused(&mut open.channels, now + UNUSED);
        let left: Vec<_> = open.channels.keys().cloned().collect();
        assert_eq!(left, [key("new")]);
    }
}
