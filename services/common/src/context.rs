//! What a service is given: everything shared, nothing global.
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::metrics::Meter;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::Registry;
use sqlx::PgPool;
use tonic::transport::{Certificate, Identity};

use crate::client::Peers;
use crate::config::{self, DatabaseSettings, Settings};
use crate::db;
use crate::id::IdGen;
use crate::identity::TokenVerifier;
use crate::rate::Limiter;
use crate::telemetry;
use crate::tls::ServerTls;
use crate::wake::Wake;

/// Everything a service shares with its parts. Clones share it.
#[derive(Clone)]
pub struct Context {
    /// Name of the service.
    pub service: &'static str,
    /// Common settings.
    pub settings: Settings,
    /// Makes ids of this cell.
    pub ids: IdGen,
    /// Makes instruments.
    pub meter: Meter,
    /// What `/metrics` shows.
    pub registry: Registry,
    /// Channels to others.
    pub peers: Peers,
    /// What the server shows, and the authority that callers are checked against.
    pub tls: ServerTls,
    /// Verifies internal tokens for this service.
    pub verifier: Option<TokenVerifier>,
    // keeps the instruments alive
    _meters: SdkMeterProvider,
}

impl Context {
    /// A context from settings; reads the files they name.
    ///
    /// # Errors
    /// An unreadable, exposed or malformed file, with the setting's name.
    pub fn new(service: &'static str, settings: Settings) -> anyhow::Result<Self> {
        let authority = config::read("tls.ca_file", &settings.tls.ca_file)?;
        let certificate = config::read("tls.cert_file", &settings.tls.cert_file)?;
        let key = config::read_secret("tls.key_file", &settings.tls.key_file)?;
        let hosts = settings.tls.host_ca_file.as_ref();
        let hosts = hosts
            .map(|file| config::read("tls.host_ca_file", file))
            .transpose()?;
        let tls = ServerTls::from_pem(&authority, hosts.as_deref(), &certificate, &key)
            .context("settings of [tls]")?;
        let verifier = match &settings.token.public_key_file {
            Some(file) => {
                let pem = config::read("token.public_key_file", file)?;
                Some(
                    TokenVerifier::from_pem(&pem, service)
                        .context("setting token.public_key_file")?,
                )
            }
            None => None,
        };
        let (meter, meters, registry) = telemetry::meter(service)?;
        let peers = Peers::new(
            settings.peers.clone(),
            Certificate::from_pem(authority),
            Identity::from_pem(certificate, key),
        );
        let peers = match hosts {
            Some(hosts) => peers.and_hosts(Certificate::from_pem(hosts)),
            None => peers,
        };
        Ok(Self {
            service,
            ids: IdGen::new(settings.cell),
            settings,
            meter,
            registry,
            peers,
            tls,
            verifier,
            _meters: meters,
        })
    }

    /// Shows this certificate and key to callers and peers from now on. What is open stays open; channels that
    /// somebody keeps go on with the last certificate, so that long-lived users ask [`Peers`] for one at each use.
    ///
    /// # Errors
    /// Malformed PEM, or a key that is not the certificate's: nothing has changed then.
    pub fn replace_certificate(&self, certificate: &str, key: &str) -> anyhow::Result<()> {
        self.tls.replace(certificate, key)?;
        self.peers
            .set_identity(Identity::from_pem(certificate, key));
        Ok(())
    }

    /// A pool that connects as the service's own role, when first used.
    ///
    /// # Errors
    /// No `[database]` section or an unusable password file.
    pub fn database(&self) -> anyhow::Result<PgPool> {
        self.database_with(&[])
    }

    /// The same whose connections are set up with options of the server.
    ///
    /// # Errors
    /// As [`Self::database`].
    pub fn database_with(&self, options: &[(&str, &str)]) -> anyhow::Result<PgPool> {
        let settings = self
            .settings
            .database
            .as_ref()
            .context("section [database] is missing")?;
        Ok(db::pool_with(self.service, settings, options)?)
    }

    /// A pool of its own of so many connections, beside that of [`Self::database`].
    ///
    /// # Errors
    /// As [`Self::database`].
    pub fn database_of(&self, max_connections: u32) -> anyhow::Result<PgPool> {
        let settings = self.settings.database.clone();
        let settings = DatabaseSettings {
            max_connections,
            ..settings.context("section [database] is missing")?
        };
        Ok(db::pool(self.service, &settings)?)
    }

    /// Wake-ups through the configured Redis, or polling alone.
    ///
    /// # Errors
    /// An unusable URL.
    pub fn wake(&self) -> anyhow::Result<Wake> {
        Wake::new(self.redis_url()?.as_deref()).context("setting redis.url")
    }

    /// Rates that all replicas share through the configured Redis, for which a call waits at most `timeout`, or each process
    /// alone.
    ///
    /// # Errors
    /// An unusable URL.
    pub fn limiter(&self, timeout: Duration) -> anyhow::Result<Limiter> {
        Limiter::new(self.redis_url()?.as_deref(), timeout).context("setting redis.url")
    }

    fn redis_url(&self) -> anyhow::Result<Option<String>> {
        Ok(match &self.settings.redis.url_file {
            Some(file) => Some(config::read_secret("redis.url_file", file)?),
            None => self.settings.redis.url.clone(),
        })
    }
}
