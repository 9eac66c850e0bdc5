//! The edge: JSON over HTTP outside, gRPC inside.
//!
//! It owns schema `edge` (organisations, projects, principals, memberships, invitations, SSH keys, webhooks, denials) and nothing
//! else, and answers the methods on them itself ([`identity`]). Routes,
//! bindings and the OpenAPI document come from the contract's descriptors alone ([`contract`], [`transcode`],
//! [`openapi`]); a method of the contract without HTTP options, or for services and hosts, is not reachable.
//! Identity providers keep people and groups by SCIM ([`scim`]), which is not of the contract.
//! Callers are people with a token of a configured issuer ([`auth`]); each call goes on with an internal token
//! of a minute for exactly one service. Services check ownership again: the edge decides who is calling,
//! and by its policies ([`policy`]) which actions such a caller may do in which of its projects.
//!
//! Serial logs it shows by SSH, too ([`serial_ssh`]), when a setting names an address for that.
//!
//! It speaks TLS when it has a certificate. Plaintext it speaks on loopback, or to TLS proxies that a setting names.
pub mod activity;
pub mod app;
pub mod audit;
pub mod auth;
pub mod command;
pub mod console;
pub mod contract;
pub mod error;
pub mod http;
pub mod identity;
pub mod instance_identity;
pub mod json;
pub mod limits;
pub mod metrics;
pub mod openapi;
pub mod page_origin;
pub mod policy;
pub mod readiness;
pub mod reference;
pub mod router;
pub mod scim;
pub mod secret_file;
pub mod serial_ssh;
pub mod store;
pub mod streams;
pub mod terminal;
pub mod transcode;
pub mod upstream;
pub mod webhooks;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderValue;
use anyhow::{Context as _, bail, ensure};
use gpuaas_common::audit::seal;
use gpuaas_common::config::Settings;
use gpuaas_common::identity::TokenMinter;
use gpuaas_common::{CancellationToken, Context, config, retention, server};
use serde::Deserialize;
use tokio::net::TcpListener;

use crate::app::App;
use crate::auth::configuration;
use crate::auth::dev_issuer::{DevIssuer, DevIssuerError, DevIssuerSettings};
use crate::auth::provider::Provider;
use crate::auth::sessions::Sessions;
use crate::auth::short_tokens::ShortTokens;
use crate::auth::verify::{IssuerSettings, Verifier};
use crate::contract::route::{RouteTable, service_of};
use crate::http::listener;
use crate::http::tls::{Tls, TlsFiles};
use crate::limits::admission::{Admission, PlaceLimits};
use crate::limits::peer::{Network, Proxies};
use crate::limits::rates::{RateSettings, Rates};
use crate::limits::terminals::{TerminalSettings, Terminals};
use crate::metrics::Metrics;
use crate::page_origin::PageOrigin;
use crate::policy::Policies;
use crate::readiness::Readiness;
use crate::router::router;
use crate::serial_ssh::{SerialSsh, SerialSshSettings};
use crate::streams::Streams;
use crate::webhooks::{WebhookSettings, Webhooks};

/// Section `[gateway]`. The API listens on `server.listen`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Ed25519 private key that signs internal tokens, PKCS#8 PEM, mode 0600; only the gateway has it.
    pub internal_key_file: PathBuf,
    /// Trusted issuers of users' tokens.
    pub issuers: Vec<IssuerSettings>,
    /// Folder of policies (`*.cedar`) that count in place of the embedded ones, which are in `deploy/policies`. The gateway
    /// does not start with policies that are wrong.
    pub policies: Option<PathBuf>,
    /// The embedded issuer of development; off when absent.
    pub dev_issuer: Option<DevIssuerSettings>,
    /// Certificate of the API. Without one the gateway speaks plaintext, and listens on loopback or behind `proxies`
    /// only.
    pub tls: Option<TlsFiles>,
    /// Addresses or networks of TLS proxies in front, for example `["10.0.0.0/8"]`. Their `X-Forwarded-For` says whom
    /// limits per peer address count for. Plaintext on an address that is not loopback is served to them alone.
    pub proxies: Vec<Network>,
    /// Seconds for which browsers that have spoken to the gateway by https speak to its host by nothing else (header
    /// `Strict-Transport-Security`). Sent only where the gateway has a certificate or stands behind `proxies`. 0 sends it never.
    pub hsts_seconds: u64,
    /// Origins of pages other than the console's own that may call the API from a browser, exactly as browsers send them, for
    /// example `["https://app.example.com"]`; `http` on loopback only, no wildcards.
    pub cors_origins: Vec<PageOrigin>,
    /// Region that this gateway stands in. Audit records say it of the calls that it took.
    pub region: String,
    /// API requests that may run at once; more are answered with 503. A request counts from when its body is there until
    /// the client takes its answer.
    pub max_in_flight: usize,
    /// API requests of one principal that may run at once, and whose bodies may be on their way at once; more are
    /// answered with 429. 0 is no limit.
    pub max_in_flight_per_principal: usize,
    /// Requests of one peer address that may be under way at once, from their heads until the client takes their answers;
    /// more are answered with 429. All count, also those for documents and the console's files, but not those for
    /// `/healthz` and `/readyz`. 0 is no limit.
    pub max_in_flight_per_peer: usize,
    /// Connections that may be open at once on one address. For one more, the one that has been idle longest is ended.
    pub max_connections: usize,
    /// Connections of one peer address that may be open at once on one address; an IPv6 /64 is one peer. For one more,
    /// the peer's own that has been idle longest is ended. 0 is no limit.
    pub max_connections_per_peer: usize,
    /// How long a client may take from its connection to the headers of its first request, in seconds; the TLS
    /// handshake and the choice of the protocol included.
    pub first_request_timeout_seconds: u64,
    /// How long a client may take for the headers of its next request, in seconds; as long as clients usually keep an
    /// idle connection.
    pub header_timeout_seconds: u64,
    /// How long a client may take for the body of a request, in seconds.
    pub body_timeout_seconds: u64,
    /// How long a client may take nothing of an answer that is there for it, in seconds; then its connection is ended.
    /// Of a stream it may take nothing.
    pub write_timeout_seconds: u64,
    /// Longest time a service may take for one call, in seconds; for a stream, until it begins.
    pub request_timeout_seconds: u64,
    /// Streams that may be open at once; more are answered with 503.
    pub max_streams: usize,
    /// Streams of one principal that may be open at once; more are answered with 429. 0 is no limit.
    pub max_streams_per_principal: usize,
    /// Streams of one peer address that may be open at once; more are answered with 429. 0 is no limit.
    pub max_streams_per_peer: usize,
    /// Seconds between two checks that the reader of a stream may still read it.
    pub stream_access_seconds: f64,
    /// Projects that are not closed that an organisation may have, since quotas are by project; its owners are refused one more,
    /// administrators of the platform are not. 0 is no limit.
    pub max_projects_per_organisation: usize,
    /// Terminals.
    pub terminal: TerminalSettings,
    /// Serial logs by SSH; off when absent.
    pub serial_ssh: Option<SerialSshSettings>,
    /// Webhooks.
    pub webhooks: WebhookSettings,
    /// Rates of requests, which all gateways of a cell count together in Redis.
    pub rates: RateSettings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            internal_key_file: PathBuf::new(),
            issuers: Vec::new(),
            policies: None,
            dev_issuer: None,
            tls: None,
            proxies: Vec::new(),
            hsts_seconds: 31_536_000,
            cors_origins: Vec::new(),
            region: String::new(),
            max_in_flight: 1024,
            max_in_flight_per_principal: 256,
            max_in_flight_per_peer: 512,
            max_connections: 4096,
            max_connections_per_peer: 1024,
            first_request_timeout_seconds: 10,
            header_timeout_seconds: 90,
            body_timeout_seconds: 15,
            write_timeout_seconds: 30,
            request_timeout_seconds: 30,
            max_streams: 4096,
            max_streams_per_principal: 256,
            max_streams_per_peer: 1024,
            stream_access_seconds: 15.0,
            max_projects_per_organisation: 100,
            terminal: TerminalSettings::default(),
            serial_ssh: None,
            webhooks: WebhookSettings::default(),
            rates: RateSettings::default(),
        }
    }
}

impl Config {
    /// Whether clients reach the gateway by https, from itself or from a proxy in front.
    fn is_reached_by_https(&self) -> bool {
        self.tls.is_some() || !self.proxies.is_empty()
    }

    /// `Strict-Transport-Security`, for this host alone: what other hosts below its name speak is not for the gateway to say.
    fn hsts(&self) -> Option<HeaderValue> {
        let sent = self.is_reached_by_https() && self.hsts_seconds > 0;
        let value = format!("max-age={}", self.hsts_seconds);
        sent.then(|| HeaderValue::from_str(&value).ok()).flatten()
    }

    fn request_places(&self) -> PlaceLimits {
        PlaceLimits {
            all: self.max_in_flight,
            per_peer: self.max_in_flight_per_peer,
            per_principal: self.max_in_flight_per_principal,
        }
    }

    fn stream_places(&self) -> PlaceLimits {
        PlaceLimits {
            all: self.max_streams,
            per_peer: self.max_streams_per_peer,
            per_principal: self.max_streams_per_principal,
        }
    }

    /// The embedded issuer, when it is on; its key and code are made when they do not exist.
    ///
    /// # Errors
    /// A key or code that cannot be used.
    pub fn embedded_issuer(
        &self,
        settings: &Settings,
    ) -> Result<Option<DevIssuer>, DevIssuerError> {
        let own = self.dev_issuer.clone();
        let reached = own.map(|own| own.reached_at(&settings.server.listen, self.tls.is_some()));
        reached.map(DevIssuer::open_or_create).transpose()
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

/// The AsyncAPI document of what webhooks deliver, indented.
///
/// # Errors
/// It cannot be written.
pub fn asyncapi_text() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&openapi::asyncapi::document())?)
}

/// What requests need, from the context and the settings; streams end at `shutdown`.
///
/// # Errors
/// Unusable keys, issuers or database settings.
pub fn app(context: &Context, config: &Config, shutdown: CancellationToken) -> anyhow::Result<App> {
    let routes = routes()?;
    let dev = config.embedded_issuer(&context.settings)?;
    ensure!(
        dev.is_some() || !config.issuers.is_empty(),
        "no issuer of tokens is configured: set gateway.issuers"
    );
    let key = config::read_secret("gateway.internal_key_file", &config.internal_key_file)?;
    let cell = context.settings.cell;
    let short_tokens =
        ShortTokens::from_pem(&key, cell).context("setting gateway.internal_key_file")?;
    ensure!(
        config
            .issuers
            .iter()
            .all(|issuer| issuer.issuer != short_tokens.issuer()),
        "gateway.issuers: {} is the issuer of this cell's service accounts",
        short_tokens.issuer()
    );
    Ok(App {
        verifier: Verifier::new(&config.issuers, dev.as_ref(), &context.meter)?,
        sessions: Sessions::default(),
        policies: Arc::new(Policies::open(config.policies.as_deref(), &routes)?),
        short_tokens,
        cell,
        scheme: if config.is_reached_by_https() {
            "https"
        } else {
            "http"
        },
        hsts: config.hsts(),
        minter: TokenMinter::from_pem(&key).context("setting gateway.internal_key_file")?,
        pool: context.database()?,
        readiness: Readiness::default(),
        peers: context.peers.clone(),
        metrics: Metrics::new(context),
        admission: Admission::new(
            config.request_places(),
            config.stream_places(),
            config.terminal.max_connections_per_peer,
            &context.meter,
        ),
        rates: Rates::new(
            &config.rates,
            context.limiter(config.rates.redis_timeout())?,
            &context.meter,
        ),
        body_timeout: Duration::from_secs(config.body_timeout_seconds),
        request_timeout: Duration::from_secs(config.request_timeout_seconds),
        streams: Streams::new(
            Duration::from_secs_f64(config.stream_access_seconds.max(0.0)),
            shutdown,
            context
                .meter
                .i64_up_down_counter("http_streams_open")
                .with_description("Streams that are open, by route")
                .build(),
        ),
        terminals: Terminals::new(
            &config.terminal,
            &context.settings.server.listen,
            if config.tls.is_some() {
                "https"
            } else {
                "http"
            },
        ),
        webhooks: Arc::new(Webhooks::new(&config.webhooks, &key)?),
        max_projects: config.max_projects_per_organisation,
        cors_origins: config.cors_origins.clone(),
        region: config.region.clone(),
        openapi: openapi::document(gpuaas_proto::pool(), &routes)
            .to_text()
            .into(),
        asyncapi: openapi::asyncapi::document().to_text().into(),
        instance_identity: instance_identity::keys::Keys::default(),
        key_set: dev
            .as_ref()
            .map(|dev| serde_json::to_vec(&dev.key_set()))
            .transpose()?
            .map(Into::into),
        configuration: configuration::document(&config.issuers, dev.as_ref())?.into(),
        console_policy: configuration::console_policy(&config.issuers)
            .context("setting gateway.issuers: endpoint_origins")?,
        provider: dev.map(Provider::new),
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
    context.settings.audit.check()?;
    let app = Arc::new(app(&context, &config, shutdown.clone())?);
    if app.key_set.is_some() {
        tracing::warn!("the embedded development issuer is on");
    }
    let settings = &context.settings.server;
    let mut running = tokio::task::JoinSet::new();
    let tls = config.tls.as_ref().map(Tls::open).transpose()?;
    let proxies = Proxies::new(&config.proxies);
    let meters = listener::Meters::new(&context.meter);
    for address in &settings.listen {
        let exposed = tls.is_none() && !address.ip().is_loopback();
        if exposed && proxies.is_empty() {
            bail!(
                "server.listen {address}: plaintext is served on loopback only; set gateway.tls, or gateway.proxies when a TLS proxy stands in front"
            );
        }
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        tracing::info!(service = context.service, %address, "listen");
        let stop = shutdown.clone();
        running.spawn(listener::serve(
            listener,
            tls.clone(),
            router(app.clone()),
            listener::Limits {
                connections: config.max_connections,
                connections_per_peer: config.max_connections_per_peer,
                first_request_timeout: Duration::from_secs(config.first_request_timeout_seconds),
                header_timeout: Duration::from_secs(config.header_timeout_seconds),
                write_timeout: Duration::from_secs(config.write_timeout_seconds),
                proxies: proxies.clone(),
                proxies_only: exposed,
            },
            meters.clone(),
            stop,
        ));
    }
    let ssh = config
        .serial_ssh
        .as_ref()
        .map(SerialSsh::open)
        .transpose()?;
    if let Some(ssh) = ssh.map(Arc::new) {
        for address in &ssh.listen {
            let listener = SerialSsh::bind(address).await?;
            tracing::info!(service = context.service, %address, "listen for SSH");
            running.spawn(serial_ssh::serve(
                listener,
                ssh.clone(),
                (app.clone(), proxies.clone()),
                meters.clone(),
                shutdown.clone(),
            ));
        }
    }
    let renewing = tls.map(|tls| tokio::spawn(tls.keep_fresh(shutdown.clone())));
    let listening = tokio::spawn({
        let (app, shutdown) = (app.clone(), shutdown.clone());
        // a connection of its own: what listens all the time takes none from those that answer requests
        let pool = context.database_of(1)?;
        async move { app.sessions.listen(pool, shutdown).await }
    });
    let sealing = tokio::spawn(seal::run(
        context.database_of(1)?,
        context.settings.audit.keep_days,
        context.meter.clone(),
        shutdown.clone(),
    ));
    let delivering = tokio::spawn(webhooks::run(
        context.clone(),
        config.webhooks.clone(),
        app.webhooks.clone(),
        shutdown.clone(),
    ));
    let telling = tokio::spawn(identity::suspensions::run(
        app.pool.clone(),
        context.peers.clone(),
        shutdown.clone(),
    ));
    let sweeping = tokio::spawn(retention::sweep(context.clone(), shutdown.clone()));
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
    sealing.await.context("sealer of audit rows")?;
    delivering.await.context("webhooks")??;
    telling
        .await
        .context("task that tells of suspended projects")?;
    sweeping.await.context("sweep task")?;
    if let Some(renewing) = renewing {
        renewing.await.context("reader of certificate files")?;
    }
    metrics.await.context("metrics task")?
}
