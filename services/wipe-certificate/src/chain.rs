//! Host certificates: of which key one is, which host it names, and whether an authority has issued it.
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, RootCertStore};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};
use x509_parser::public_key::PublicKey;

use crate::Refusal;

const ED25519: &str = "1.3.101.112";

/// Certificates of a text in PEM.
pub fn read(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    read.ok().filter(|chain| !chain.is_empty())
}

/// What a signature by the key of a host's certificate is checked with.
pub struct HostKey {
    pub algorithm: Algorithm,
    /// The key's public half.
    pub key: DecodingKey,
    /// See [`crate::key_id`].
    pub id: String,
    /// Node and instance that the certificate names.
    pub host: Option<(String, String)>,
}

impl HostKey {
    /// Of a certificate in DER; `None` when it is none, or its key is of a kind that hosts do not have.
    pub fn of(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let info = certificate.public_key();
        let point = &info.subject_public_key.data;
        let (algorithm, key) = match info.parsed().ok()? {
            PublicKey::EC(curve) if curve.key_size() == 256 => {
                (Algorithm::ES256, DecodingKey::from_ec_der(point))
            }
            PublicKey::EC(curve) if curve.key_size() == 384 => {
                (Algorithm::ES384, DecodingKey::from_ec_der(point))
            }
            _ if info.algorithm.algorithm.to_id_string() == ED25519 => {
                (Algorithm::EdDSA, DecodingKey::from_ed_der(point))
            }
            _ => return None,
        };
        Some(Self {
            algorithm,
            key,
            id: crate::key_id(info.raw),
            host: host_of(&certificate),
        })
    }
}

/// Node and instance of `spiffe://cell-<n>/node/<node>/instance/<instance>`.
fn host_of(certificate: &X509Certificate<'_>) -> Option<(String, String)> {
    let names = certificate.subject_alternative_name().ok()??;
    names.value.general_names.iter().find_map(|name| {
        let GeneralName::URI(uri) = name else {
            return None;
        };
        let (_cell, path) = uri.strip_prefix("spiffe://cell-")?.split_once('/')?;
        match path.split('/').collect::<Vec<_>>().as_slice() {
            ["node", node, "instance", instance] => {
                Some(((*node).to_owned(), (*instance).to_owned()))
            }
            _ => None,
        }
    })
}

/// Whether an authority has issued the first certificate of `chain`, at a time.
pub fn check(
    chain: &[CertificateDer<'static>],
    authority_pem: &str,
    at: Timestamp,
) -> Result<(), Refusal> {
    let mut roots = RootCertStore::empty();
    for root in read(authority_pem).ok_or(Refusal::Authority)? {
        roots.add(root).map_err(|_| Refusal::Authority)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|_| Refusal::Authority)?;
    let seconds = u64::try_from(at.as_second()).map_err(|_| Refusal::ExpiredAtSigning(at))?;
    let at_signing = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let (host, others) = chain
        .split_first()
        .ok_or(Refusal::Malformed("it has no certificate chain"))?;
    match verifier.verify_client_cert(host, others, at_signing) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => Err(Refusal::ExpiredAtSigning(at)),
        Err(error) => Err(Refusal::ForeignAuthority(error.to_string())),
    }
}
