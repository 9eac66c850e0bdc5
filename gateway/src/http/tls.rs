//! TLS of the edge: certificate files that are read again while it serves, so that a renewal needs no restart.
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use anyhow::Context as _;
use gpuaas_common::CancellationToken;
use gpuaas_common::config::{read, read_secret};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;

/// Section `[gateway.tls]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// Certificate of the API's host name, in PEM, followed by those of its issuers.
    pub cert_file: PathBuf,
    /// Its key in PEM, mode 0600.
    pub key_file: PathBuf,
    /// Seconds between two looks whether the files have changed.
    #[serde(default = "default_reload")]
    pub reload_seconds: f64,
}

fn default_reload() -> f64 {
    60.0
}

/// What the edge shows. Clones share it.
#[derive(Clone)]
pub struct Tls {
    files: TlsFiles,
    current: Arc<RwLock<Shown>>,
}

struct Shown {
    certificate: String,
    key: String,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Unreadable, exposed to others or malformed, by the setting's name; a key that is not the certificate's.
    pub fn open(files: &TlsFiles) -> anyhow::Result<Self> {
        Ok(Self {
            files: files.clone(),
            current: Arc::new(RwLock::new(shown(files)?)),
        })
    }

    /// Takes a handshake with the present certificate.
    pub fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(current.config.clone())
    }

    /// Reads the files again now and then until `shutdown`. A file that is not usable is reported, and the last
    /// certificate shown on.
    pub async fn keep_fresh(self, shutdown: CancellationToken) {
        let period = Duration::try_from_secs_f64(self.files.reload_seconds).unwrap_or_default();
        let mut looks = tokio::time::interval(period.max(Duration::from_millis(50)));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while shutdown.run_until_cancelled(looks.tick()).await.is_some() {
            let files = self.files.clone();
            let read = tokio::task::spawn_blocking(move || shown(&files)).await;
            match read {
                Ok(Ok(new)) => self.show(new),
                Ok(Err(error)) => tracing::warn!("keep the last certificate: {error:#}"),
                Err(error) => tracing::error!("read certificate files: {error}"),
            }
        }
    }

    fn show(&self, new: Shown) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if (&current.certificate, &current.key) != (&new.certificate, &new.key) {
            tracing::info!(file = %self.files.cert_file.display(), "show another certificate");
            *current = new;
        }
    }
}

fn shown(files: &TlsFiles) -> anyhow::Result<Shown> {
    let certificate = read("gateway.tls.cert_file", &files.cert_file)?;
    let key = read_secret("gateway.tls.key_file", &files.key_file)?;
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .context("setting gateway.tls.cert_file: no certificate in PEM")?;
    let private = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|_| anyhow::anyhow!("setting gateway.tls.key_file: no private key in PEM"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("unusable TLS versions")?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .context("settings of [gateway.tls]: unusable certificate or key")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Shown {
        certificate,
        key,
        config: Arc::new(config),
    })
}
