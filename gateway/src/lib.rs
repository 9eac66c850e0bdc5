//! The edge: JSON over HTTP outside, gRPC inside.
//!
//! It owns schema `edge` (organisations, projects, principals, memberships, denials) and nothing else. Routes,
//! bindings and the OpenAPI document come from the contract's descriptors alone ([`contract`], [`transcode`],
//! [`openapi`]); a method of the contract without HTTP options, or for services and hosts, is not reachable.
//! Callers are people with a token of a configured issuer ([`auth`]); each call goes on with an internal token
//! of a minute for exactly one service. Services check ownership again: the edge only decides who is calling
//! and whether such a caller may call the method at all.
//!
//! It listens in plaintext on loopback only; TLS for the world outside ends in front of it.
pub mod app;
pub mod auth;
pub mod command;
pub mod console;
pub mod contract;
pub mod dev;
pub mod error;
pub mod http;
pub mod identity;
pub mod openapi;
pub mod router;
pub mod secret_file;
pub mod store;
pub mod terminal;
pub mod transcode;
pub mod upstream;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use gpuaas_common::identity::TokenMinter;
use gpuaas_common::{CancellationToken, Context, config, server};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::app::App;
use crate::auth::dev_issuer::{DevIssuer, DevIssuerSettings};
use crate::auth::sessions::Sessions;
use crate::auth::verify::{IssuerSettings, Verifier};
use crate::contract::route::{RouteTable, service_of};
use crate::http::listener;
use crate::http::metrics::Metrics;
use crate::http::stream::Streams;
use crate::router::router;
use crate::terminal::policy::{TerminalSettings, Terminals};

/// Section `[gateway]`. The API listens on `server.listen`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Ed25519 private key that signs internal tokens, PKCS#8 PEM, mode 0600; only the gateway has it.
    pub internal_key_file: PathBuf,
    /// Trusted issuers of users' tokens.
    pub issuers: Vec<IssuerSettings>,
    /// The embedded issuer of development; off when absent.
    pub dev_issuer: Option<DevIssuerSettings>,
    /// API requests that may run at once; more are answered with 503.
    pub max_in_flight: usize,
    /// Connections that may be open at once on one address; more wait.
    pub max_connections: usize,
    /// How long a client may take for the headers of its first or next request, in seconds; as long as clients
    /// usually keep an idle connection.
    pub header_timeout_seconds: u64,
    /// Longest time a service may take for one call, in seconds; for a stream, until it begins.
    pub request_timeout_seconds: u64,
    /// Streams that may be open at once; more are answered with 503.
    pub max_streams: usize,
    /// Seconds between two checks that the reader of a stream may still read it.
    pub stream_access_seconds: f64,
    /// Terminals.
    pub terminal: TerminalSettings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            internal_key_file: PathBuf::new(),
            issuers: Vec::new(),
            dev_issuer: None,
            max_in_flight: 1024,
            max_connections: 4096,
            header_timeout_seconds: 90,
            request_timeout_seconds: 30,
            max_streams: 4096,
            stream_access_seconds: 15.0,
            terminal: TerminalSettings::default(),
        }
    }
}

/// The routes of the contract.
///
/// # Errors
/// A rule that cannot be served.
pub fn routes() -> Result<RouteTable, contract::route::RouteError> {
    RouteTable::build(gpuaas_proto::pool(), service_of)
}

/// The OpenAPI document, indented.
///
/// # Errors
/// A rule that cannot be served.
pub fn openapi_text() -> anyhow::Result<String> {
    let document = openapi::document(gpuaas_proto::pool(), &routes()?);
    Ok(serde_json::to_string_pretty(&document)?)
}

/// What requests need, from the context and the settings; streams end at `shutdown`.
///
/// # Errors
/// Unusable keys, issuers or database settings.
pub fn app(context: &Context, config: &Config, shutdown: CancellationToken) -> anyhow::Result<App> {
    let routes = routes()?;
    let dev = config
        .dev_issuer
        .clone()
        .map(DevIssuer::open_or_create)
        .transpose()?;
    ensure!(
        dev.is_some() || !config.issuers.is_empty(),
        "no issuer of tokens is configured: set gateway.issuers"
    );
    let key = config::read_secret("gateway.internal_key_file", &config.internal_key_file)?;
    Ok(App {
        verifier: Verifier::new(&config.issuers, dev.as_ref(), &context.meter)?,
        sessions: Sessions::default(),
        minter: TokenMinter::from_pem(&key).context("setting gateway.internal_key_file")?,
        pool: context.database()?,
        peers: context.peers.clone(),
        metrics: Metrics::new(context),
        in_flight: Semaphore::new(config.max_in_flight),
        request_timeout: Duration::from_secs(config.request_timeout_seconds),
        streams: Streams::new(
            config.max_streams,
            Duration::from_secs_f64(config.stream_access_seconds.max(0.0)),
            shutdown,
            context
                .meter
                .i64_up_down_counter("http_streams_open")
                .with_description("Streams that are open, by route")
                .build(),
        ),
        terminals: Terminals::new(&config.terminal, &context.settings.server.listen),
        openapi: openapi::document(gpuaas_proto::pool(), &routes).to_text(),
        key_set: dev
            .as_ref()
            .map(|dev| serde_json::to_string(&dev.key_set()))
            .transpose()?,
        dev,
        routes,
    })
}

/// Serves the API until `shutdown`, then lets running requests end within the grace time.
///
/// # Errors
/// Unusable settings, or an address that is not loopback or cannot be bound.
pub async fn run(
    context: Context,
    config: Config,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let app = Arc::new(app(&context, &config, shutdown.clone())?);
    if app.key_set.is_some() {
        tracing::warn!("the embedded development issuer is on");
    }
    let settings = &context.settings.server;
    let mut running = tokio::task::JoinSet::new();
    for address in &settings.listen {
        if !address.ip().is_loopback() {
            bail!("server.listen {address}: plaintext is served on loopback only");
        }
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        tracing::info!(service = context.service, %address, "listen");
        let stop = shutdown.clone();
        running.spawn(listener::serve(
            listener,
            router(app.clone()),
            listener::Limits {
                connections: config.max_connections,
                header_timeout: Duration::from_secs(config.header_timeout_seconds),
            },
            stop,
        ));
    }
    let listening = tokio::spawn({
        let (app, shutdown) = (app.clone(), shutdown.clone());
        async move { app.sessions.listen(app.pool.clone(), shutdown).await }
    });
    let metrics = tokio::spawn(server::serve_metrics(
        settings.metrics_listen,
        context.registry.clone(),
        shutdown.clone(),
    ));
    tokio::select! {
        () = shutdown.cancelled() => {}
        // a listener that ends by itself has failed
        Some(ended) = running.join_next() => ended.context("server task")?,
    }
    let rest = async { while running.join_next().await.is_some() {} };
    let grace = Duration::from_secs(settings.shutdown_grace_seconds);
    if tokio::time::timeout(grace, rest).await.is_err() {
        tracing::warn!(
            service = context.service,
            "end with requests still running after {grace:?}"
        );
    }
    listening.await.context("listener of changes of access")?;
    metrics.await.context("metrics task")?
}
