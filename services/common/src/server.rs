//! The one gRPC server builder: mutual TLS, access rules, tracing, metrics, health, reflection, limits,
//! graceful shutdown.
mod auth;
pub mod connections;
mod incoming;
mod limited;
mod metrics;
mod observe;
mod reflection;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::FutureExt as _;
use gpuaas_proto::gpuaas::internal::audit::v1::audit_service_server::AuditServiceServer;
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService;
use tonic::service::{Routes, RoutesBuilder};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use self::connections::Connections;
use crate::audit::{seal, serve};
use crate::context::Context;
use crate::retention;

pub use crate::tls::Clients;
pub use metrics::serve as serve_metrics;

/// Connections to the database for the sealer and for reads of the audit trail.
const AUDIT_CONNECTIONS: u32 = 2;
/// Longest time between two signs of life of a connection.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Streams one connection may carry: a terminal is a stream, and all terminals of a host share a connection.
const STREAMS: u32 = 4096;
/// Bytes in flight to one stream that its reader has not taken. The connection's window is as good as unlimited, so
/// that a stream nobody reads holds up itself and no other.
const STREAM_WINDOW: u32 = 64 << 10;
/// See [`STREAM_WINDOW`].
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Collects services and serves them.
pub struct Server {
    context: Context,
    routes: RoutesBuilder,
    health: HealthReporter,
    names: Vec<&'static str>,
    /// Listeners beside those of the settings.
    more: Vec<(SocketAddr, Clients, Option<Connections>)>,
}

impl Server {
    /// A server with health and reflection (v1 and v1alpha).
    pub fn new(context: &Context) -> Self {
        let (health, health_service) = tonic_health::server::health_reporter();
        let mut routes = Routes::builder();
        routes.add_service(health_service);
        Self {
            context: context.clone(),
            routes,
            health,
            names: Vec::new(),
            more: Vec::new(),
        }
    }

    /// Adds a service.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "reads as what it does")]
    pub fn add<S>(mut self, service: S) -> Self
    where
        S: tower::Service<http::Request<tonic::body::Body>, Error = std::convert::Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Response: axum::response::IntoResponse,
        S::Future: Send + 'static,
    {
        self.names.push(S::NAME);
        self.routes.add_service(service);
        self
    }

    /// Listens at these addresses too, for such clients alone. Those of the settings are for services.
    #[must_use]
    pub fn also_at(mut self, addresses: &[SocketAddr], clients: Clients) -> Self {
        self.more
            .extend(addresses.iter().map(|address| (*address, clients, None)));
        self
    }

    /// The same with a limit on the connections of each of these addresses, for clients that nobody knows yet.
    #[must_use]
    pub fn also_limited_at(
        mut self,
        addresses: &[SocketAddr],
        clients: Clients,
        (most, most_per_peer): (usize, usize),
    ) -> Self {
        let limited = |address: &SocketAddr| {
            let connections = Connections::new(most, most_per_peer);
            (*address, clients, Some(connections))
        };
        self.more.extend(addresses.iter().map(limited));
        self
    }

    /// Health of the added services, for those that want to be "not serving" for a while.
    pub fn health(&self) -> HealthReporter {
        self.health.clone()
    }

    /// Adds the service that shows the audit records of this one, and returns the pool for it and for the sealer, for processes
    /// with a database.
    fn audit(&mut self) -> anyhow::Result<Option<PgPool>> {
        let settings = &self.context.settings;
        if settings.database.is_none() {
            return Ok(None);
        }
        settings.audit.check()?;
        // connections of its own: reading or sealing a trail takes none from those that answer requests
        let pool = self.context.database_of(AUDIT_CONNECTIONS)?;
        self.names
            .push(<AuditServiceServer<serve::Api> as NamedService>::NAME);
        self.routes.add_service(serve::service(pool.clone()));
        Ok(Some(pool))
    }

    /// Serves on all configured addresses until `shutdown`, then lets running requests end within the grace time.
    ///
    /// # Errors
    /// An address that cannot be bound, or one for hosts without `tls.host_ca_file`.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let audited = self.audit()?;
        reflection::add(&mut self.routes, &self.names);
        let settings = &self.context.settings.server;
        let routes = self.routes.routes();
        let mut running = tokio::task::JoinSet::new();
        let refused = self
            .context
            .meter
            .u64_counter("server_connections_refused_total")
            .with_description("Connections turned away while all others were being answered, by limit (peer, all)")
            .build();
        let services = settings.listen.iter();
        let services = services.map(|at| (*at, Clients::Services, None));
        for (address, clients, connections) in services.chain(self.more) {
            ensure!(
                self.context.tls.knows(clients),
                "setting tls.host_ca_file is missing, by which hosts at {address} are checked"
            );
            let listener = TcpListener::bind(address)
                .await
                .with_context(|| format!("cannot listen on {address}"))?;
            let stop = shutdown.clone();
            let limit = connections.map(|connections| incoming::Limit {
                connections,
                refused: refused.clone(),
            });
            let server = tonic::transport::Server::builder()
                .timeout(Duration::from_secs(settings.request_timeout_seconds))
                .concurrency_limit_per_connection(settings.concurrency_per_connection)
                .max_concurrent_streams(STREAMS)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .http2_keepalive_interval(Some(KEEPALIVE))
                .layer(observe::ObserveLayer::new(&self.context))
                .layer(auth::AuthLayer::new(&self.context, clients))
                .add_routes(routes.clone())
                .serve_with_incoming_shutdown(
                    incoming::incoming(listener, self.context.tls.clone(), clients, limit),
                    async move { stop.cancelled().await }.boxed(),
                );
            running.spawn(server);
            tracing::info!(service = self.context.service, %address, ?clients, "listen");
        }
        let metrics = tokio::spawn(metrics::serve(
            settings.metrics_listen,
            self.context.registry.clone(),
            shutdown.clone(),
        ));
        let sweeping = tokio::spawn(retention::sweep(self.context.clone(), shutdown.clone()));
        let sealing = audited.map(|pool| {
            let keep_days = self.context.settings.audit.keep_days;
            let meter = self.context.meter.clone();
            tokio::spawn(seal::run(pool, keep_days, meter, shutdown.clone()))
        });
        for name in &self.names {
            self.health
                .set_service_status(*name, ServingStatus::Serving)
                .await;
        }
        self.health
            .set_service_status("", ServingStatus::Serving)
            .await;
        tokio::select! {
            () = shutdown.cancelled() => {}
            // a listener that ends by itself has failed
            Some(ended) = running.join_next() => ended.context("server task")?.context("server")?,
        }
        let grace = Duration::from_secs(settings.shutdown_grace_seconds);
        let rest = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, rest).await.is_err() {
            tracing::warn!(
                service = self.context.service,
                "end with requests still running after {grace:?}"
            );
        }
        sweeping.await.context("sweep task")?;
        if let Some(sealing) = sealing {
            sealing.await.context("sealer of audit rows")?;
        }
        metrics.await.context("metrics task")?
    }
}
