//! How to see that a part is ready: by the gRPC health protocol over mutual TLS, or by HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::ca;
use crate::error::{Error, Result};

/// Longest time one probe may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// What to probe.
#[derive(Debug, Clone)]
pub enum Probe {
    /// gRPC health at an address whose certificate must carry a name.
    Grpc {
        /// Where.
        address: SocketAddr,
        /// Name in the certificate.
        name: String,
    },
    /// A URL that answers 200.
    Http {
        /// Where.
        url: String,
    },
    /// A file that appears when the part is ready.
    File(PathBuf),
    /// The process alone.
    Process,
}

impl Probe {
    /// Where the part answers, for people.
    pub fn address(&self) -> String {
        match self {
            Self::Grpc { address, .. } => address.to_string(),
            Self::Http { url } => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                rest.split('/').next().unwrap_or_default().to_owned()
            }
            Self::File(_) | Self::Process => String::new(),
        }
    }
}

/// Probes parts as the operator.
#[derive(Debug, Clone)]
pub struct Health {
    /// Of services, and of hosts.
    authorities: [Certificate; 2],
    identity: Identity,
    http: reqwest::Client,
}

impl Health {
    /// With the operator's identity.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn new(authority: &ca::Authority) -> Result<Self> {
        let read = |path: &PathBuf| std::fs::read(path).map_err(Error::file("read", path));
        let operator = authority.service("operator", &[])?;
        let http = reqwest::Client::builder()
            .no_proxy()
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| Error::other(error.to_string()))?;
        Ok(Self {
            authorities: [
                Certificate::from_pem(read(&authority.authority().certificate)?),
                Certificate::from_pem(read(&authority.host_root())?),
            ],
            identity: Identity::from_pem(read(&operator.certificate)?, read(&operator.key)?),
            http,
        })
    }

    /// Probes once.
    ///
    /// # Errors
    /// What was observed instead of readiness.
    pub async fn check(&self, probe: &Probe) -> Result<(), String> {
        match probe {
            Probe::Grpc { address, name } => self.grpc(*address, name).await,
            Probe::Http { url } => {
                let answer = self
                    .http
                    .get(url)
                    .send()
                    .await
                    .map_err(|error| short(&error))?;
                if answer.status().is_success() {
                    Ok(())
                } else {
                    Err(format!("HTTP {}", answer.status().as_u16()))
                }
            }
            Probe::File(file) if file.exists() => Ok(()),
            Probe::File(_) => Err("not ready yet".to_owned()),
            Probe::Process => Ok(()),
        }
    }

    async fn grpc(&self, address: SocketAddr, name: &str) -> Result<(), String> {
        let tls = ClientTlsConfig::new()
            .ca_certificates(self.authorities.clone())
            .identity(self.identity.clone())
            .domain_name(name);
        let channel = Endpoint::from_shared(format!("https://{address}"))
            .and_then(|endpoint| {
                endpoint
                    .connect_timeout(TIMEOUT)
                    .timeout(TIMEOUT)
                    .tls_config(tls)
            })
            .map_err(|error| short(&error))?
            .connect()
            .await
            .map_err(|error| short(&error))?;
        let request = HealthCheckRequest {
            service: String::new(),
        };
        let answer = HealthClient::new(channel).check(request).await;
        let answer = answer
            .map_err(|status| status.message().to_owned())?
            .into_inner();
        match answer.status() {
            ServingStatus::Serving => Ok(()),
            other => Err(other.as_str_name().to_owned()),
        }
    }
}

/// The innermost cause: the outer layers only say "transport error".
fn short(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
