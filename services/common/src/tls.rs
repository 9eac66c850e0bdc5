//! TLS of a server. The certificate may be exchanged while it serves: connections that are open stay as they are,
//! later ones are met with the new one.
use std::sync::{Arc, PoisonError, RwLock};

use anyhow::Context as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// Who may call at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Services, by certificates of the services' authority.
    Services,
    /// Enrolled hosts, by certificates of the hosts' authority.
    Hosts,
    /// Hosts without a certificate, which enrol or prove their key.
    Enrolling,
}

/// What the server shows and whom it trusts. Clones share it.
#[derive(Clone)]
pub struct ServerTls {
    services: Arc<RootCertStore>,
    hosts: Option<Arc<RootCertStore>>,
    current: Arc<RwLock<Shown>>,
}

/// The settings of each kind of listener, all of one certificate.
type Shown = Vec<(Clients, Arc<ServerConfig>)>;

impl ServerTls {
    /// Shows this certificate, and checks those of services against `authority`, those of hosts against `hosts`.
    ///
    /// # Errors
    /// Malformed PEM; a key that is not the certificate's. Never with the key's content.
    pub fn from_pem(
        authority: &str,
        hosts: Option<&str>,
        certificate: &str,
        key: &str,
    ) -> anyhow::Result<Self> {
        let services = roots(authority)?;
        let hosts = hosts.map(roots).transpose()?;
        let shown = shown(&services, hosts.as_ref(), certificate, key)?;
        Ok(Self {
            services,
            hosts,
            current: Arc::new(RwLock::new(shown)),
        })
    }

    /// Shows another certificate from now on; on an error still the last one.
    ///
    /// # Errors
    /// As [`ServerTls::from_pem`].
    pub fn replace(&self, certificate: &str, key: &str) -> anyhow::Result<()> {
        let shown = shown(&self.services, self.hosts.as_ref(), certificate, key)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = shown;
        Ok(())
    }

    /// Whether it can check the certificates of such clients.
    pub(crate) fn knows(&self, clients: Clients) -> bool {
        self.acceptor(clients).is_some()
    }

    /// Shakes hands with such clients, if it can check their certificates.
    pub(crate) fn acceptor(&self, clients: Clients) -> Option<TlsAcceptor> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let (_, config) = current.iter().find(|(who, _)| *who == clients)?;
        Some(TlsAcceptor::from(Arc::clone(config)))
    }
}

fn roots(pem: &str) -> anyhow::Result<Arc<RootCertStore>> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let root = root.context("no certificate authority in PEM")?;
        roots.add(root).context("unusable certificate authority")?;
    }
    Ok(Arc::new(roots))
}

fn shown(
    services: &Arc<RootCertStore>,
    hosts: Option<&Arc<RootCertStore>>,
    certificate: &str,
    key: &str,
) -> anyhow::Result<Shown> {
    let mut configs = vec![
        (Clients::Services, config(Some(services), certificate, key)?),
        (Clients::Enrolling, config(None, certificate, key)?),
    ];
    if let Some(hosts) = hosts {
        configs.push((Clients::Hosts, config(Some(hosts), certificate, key)?));
    }
    Ok(configs)
}

/// Demands a certificate of one of the roots; without roots it asks for none.
fn config(
    roots: Option<&Arc<RootCertStore>>,
    certificate: &str,
    key: &str,
) -> anyhow::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .context("no certificate in PEM")?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|_| anyhow::anyhow!("no private key in PEM"))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .context("unusable TLS versions")?;
    let builder = match roots {
        Some(roots) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), provider)
                .build()
                .context("unusable certificate authority")?,
        ),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .context("unusable certificate or key")?;
    config.alpn_protocols.push(b"h2".to_vec());
    Ok(Arc::new(config))
}
