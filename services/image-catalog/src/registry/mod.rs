//! The OCI registry: what is published there, and publishing.
mod error;
mod push;
mod resolve;
mod verification;

use std::path::Path;
use std::time::Duration;

use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;

pub use error::RegistryError;
pub use push::Pushed;
pub use resolve::Resolved;
pub use verification::{Unverified, Verifications};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const END_OF_CERTIFICATE: &str = "-----END CERTIFICATE-----";

/// A client of registries, over TLS only. Clones share connections.
#[derive(Clone)]
pub struct Registry {
    client: oci_client::Client,
    auth: RegistryAuth,
}

impl Registry {
    /// A client that trusts exactly the certificates in `ca_file`, or the system's without one. A registry that
    /// sends nothing for `read_timeout` has failed.
    ///
    /// # Errors
    /// [`RegistryError::Settings`] when the file cannot be read or holds no certificate.
    pub fn new(ca_file: Option<&Path>, read_timeout: Duration) -> Result<Self, RegistryError> {
        let tls_certs_only = match ca_file {
            Some(file) => certificates(file)?,
            None => Vec::new(),
        };
        let config = ClientConfig {
            protocol: ClientProtocol::Https,
            tls_certs_only,
            // an index of platforms is no slice image
            platform_resolver: None,
            read_timeout: Some(read_timeout),
            connect_timeout: Some(CONNECT_TIMEOUT),
            user_agent: concat!("gpuaas-image-catalog/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        let client = oci_client::Client::try_from(config)
            .map_err(|error| RegistryError::Settings(format!("registry authority: {error}")))?;
        Ok(Self {
            client,
            auth: RegistryAuth::Anonymous,
        })
    }

    /// The same, as a user of the registry.
    #[must_use]
    pub fn as_user(self, name: &str, password: &str) -> Self {
        Self {
            auth: RegistryAuth::Basic(name.to_owned(), password.to_owned()),
            ..self
        }
    }
}

fn certificates(file: &Path) -> Result<Vec<Certificate>, RegistryError> {
    let pem = std::fs::read_to_string(file).map_err(|error| {
        RegistryError::Settings(format!("cannot read {}: {error}", file.display()))
    })?;
    let found: Vec<Certificate> = pem
        .split_inclusive(END_OF_CERTIFICATE)
        .filter(|part| part.trim_end().ends_with(END_OF_CERTIFICATE))
        .map(|part| Certificate {
            encoding: CertificateEncoding::Pem,
            data: part.as_bytes().to_vec(),
        })
        .collect();
    if found.is_empty() {
        return Err(RegistryError::Settings(format!(
            "{} holds no certificate",
            file.display()
        )));
    }
    Ok(found)
}
