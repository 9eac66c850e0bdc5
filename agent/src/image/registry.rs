//! Pull of one blob from an OCI registry, by digest, over TLS with the configured CA.
use std::str::FromStr;
use std::time::Duration;

use futures::TryStreamExt;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::manifest::OciDescriptor;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::error::{HostError, HostResult, io_error};
use crate::ids::Digest;

/// A registry that does not send anything for so long is given up.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Pulls blobs.
pub struct Registry {
    client: Client,
}

impl Registry {
    /// A client that trusts this CA (PEM) and no other.
    pub fn new(ca_pem: &[u8]) -> Self {
        let config = ClientConfig {
            protocol: ClientProtocol::Https,
            tls_certs_only: vec![Certificate {
                encoding: CertificateEncoding::Pem,
                data: ca_pem.to_vec(),
            }],
            read_timeout: Some(READ_TIMEOUT),
            connect_timeout: Some(CONNECT_TIMEOUT),
            ..ClientConfig::default()
        };
        Self {
            client: Client::new(config),
        }
    }

    /// Streams the blob `digest` of the repository that `source_uri` names into `out`. Stops with an error at
    /// more than `max_bytes`, at another digest and at an error of `progress`; what was written then is not the image.
    pub async fn pull(
        &self,
        source_uri: &str,
        digest: &Digest,
        max_bytes: u64,
        out: &mut (impl AsyncWrite + Unpin),
        mut progress: impl FnMut(u64) -> HostResult<()>,
    ) -> HostResult<u64> {
        let reference = parse_source(source_uri)?;
        self.client
            .auth(
                &reference,
                &RegistryAuth::Anonymous,
                RegistryOperation::Pull,
            )
            .await
            .map_err(|error| failed(&reference, &error))?;
        let descriptor = OciDescriptor {
            digest: digest.as_str().to_owned(),
            ..OciDescriptor::default()
        };
        let sized = self
            .client
            .pull_blob_stream(&reference, &descriptor)
            .await
            .map_err(|error| failed(&reference, &error))?;
        let mut stream = sized.stream;
        let mut hash = Sha256::new();
        let mut written = 0_u64;
        loop {
            let next = stream
                .try_next()
                .await
                .map_err(|error| broken(&reference, &error))?;
            let Some(bytes) = next else { break };
            written += bytes.len() as u64;
            if written > max_bytes {
                return Err(pull_failed(format!(
                    "{reference}: more than the {max_bytes} bytes of the image"
                )));
            }
            hash.update(&bytes);
            out.write_all(&bytes)
                .await
                .map_err(io_error("cannot store the image"))?;
            progress(written)?;
        }
        out.flush()
            .await
            .map_err(io_error("cannot store the image"))?;
        let found = Digest::of_bytes(&hash.finalize());
        if found == *digest {
            Ok(written)
        } else {
            Err(mismatch(digest, &found))
        }
    }
}

/// The refusal of bytes that are not the image.
pub fn mismatch(expected: &Digest, found: &Digest) -> HostError {
    HostError::host(
        ErrorReason::ImageDigestMismatch,
        format!("image {expected} was requested, the bytes are {found}"),
    )
}

/// Parses "oci://host/namespace/name@sha256:…".
pub fn parse_source(source_uri: &str) -> HostResult<Reference> {
    let rule = || {
        HostError::invalid(
            "image.source_uri",
            "must be like oci://host/namespace/name@sha256:<digest>",
        )
    };
    let rest = source_uri.strip_prefix("oci://").ok_or_else(rule)?;
    let reference = Reference::from_str(rest).map_err(|_| rule())?;
    // Without a host the reference would resolve to a public registry.
    let host = rest.split('/').next().unwrap_or_default();
    if reference.digest().is_some() && reference.registry() == host {
        Ok(reference)
    } else {
        Err(rule())
    }
}

fn failed(reference: &Reference, error: &oci_client::errors::OciDistributionError) -> HostError {
    if let oci_client::errors::OciDistributionError::DigestError(error) = error {
        return HostError::host(
            ErrorReason::ImageDigestMismatch,
            format!("{reference}: {error}"),
        );
    }
    pull_failed(format!("{reference}: {error}"))
}

/// An error in the middle of the stream; the client checks the digest at its end.
fn broken(reference: &Reference, error: &std::io::Error) -> HostError {
    let digest = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<oci_client::errors::DigestError>());
    match digest {
        Some(digest) => HostError::host(
            ErrorReason::ImageDigestMismatch,
            format!("{reference}: {digest}"),
        ),
        None => pull_failed(format!("{reference}: {error}")),
    }
}

fn pull_failed(message: String) -> HostError {
    HostError::host(ErrorReason::ImagePullFailed, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_names_its_host_and_a_digest() {
        let digest = "sha256:0000000000000000000000000000000000000000000000000000000000000001";
        for (source, good) in [
            (
                format!("oci://10.99.0.1:5000/gpuaas/lab-mini@{digest}"),
                true,
            ),
            (
                format!("oci://registry.site/gpuaas/lab-mini@{digest}"),
                true,
            ),
            (format!("oci://gpuaas/lab-mini@{digest}"), false),
            (
                "oci://10.99.0.1:5000/gpuaas/lab-mini:latest".to_owned(),
                false,
            ),
            (
                format!("https://10.99.0.1:5000/gpuaas/lab-mini@{digest}"),
                false,
            ),
            ("".to_owned(), false),
        ] {
            assert_eq!(parse_source(&source).is_ok(), good, "{source}");
        }
    }
}
