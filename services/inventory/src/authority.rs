//! The authority that names hosts: it signs the key of a CSR and decides every name in the certificate itself.
//!
//! The key stays in this type: no error, log line or `Debug` output shows it.
use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use gpuaas_common::config::{TlsSettings, read, read_secret};
use gpuaas_common::identity::{host_dns, host_uri};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData as _, SanType, SerialNumber,
};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::chain;
use crate::config::Config;

/// A certificate is valid a little before it is made, for hosts whose clock is behind.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(300);

/// Why a host gets no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The request is no PKCS#10 in PEM, or its signature does not verify.
    #[error("the certificate request is malformed or not signed by its own key")]
    BadRequest(#[source] rcgen::Error),
    /// The key is of a kind that is not accepted.
    #[error("the key is not one of ECDSA P-256, ECDSA P-384, Ed25519")]
    KeyKind,
    /// Signing failed.
    #[error("cannot sign")]
    Signing(#[source] rcgen::Error),
}

impl From<CertificateError> for gpuaas_common::Error {
    /// A signature that failed; what is wrong with a request is reported with its field.
    fn from(error: CertificateError) -> Self {
        Self::internal(error)
    }
}

/// The key that a host requests a certificate for; the host has proven to hold it.
pub struct HostKey {
    request: CertificateSigningRequestParams,
}

impl HostKey {
    /// Reads a request (PKCS#10 in PEM) and verifies that its own key signed it.
    ///
    /// # Errors
    /// [`CertificateError::BadRequest`], [`CertificateError::KeyKind`].
    pub fn parse(csr_pem: &str) -> Result<Self, CertificateError> {
        let request = CertificateSigningRequestParams::from_pem(csr_pem)
            .map_err(CertificateError::BadRequest)?;
        let accepted = [
            &PKCS_ECDSA_P256_SHA256,
            &PKCS_ECDSA_P384_SHA384,
            &PKCS_ED25519,
        ];
        if accepted.contains(&request.public_key.algorithm()) {
            Ok(Self { request })
        } else {
            Err(CertificateError::KeyKind)
        }
    }

    /// The fingerprint of the key: SHA-256 of its SubjectPublicKeyInfo in DER.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.request.public_key.subject_public_key_info()).into()
    }
}

/// A host's certificate.
#[derive(Debug, Clone)]
pub struct Issued {
    /// In PEM, followed by the issuing certificate when that is no root.
    pub chain_pem: String,
    /// SHA-256 of the certificate in DER.
    pub digest: [u8; 32],
    /// When it expires.
    pub expire_time: Timestamp,
}

/// Issues host certificates of one cell.
pub struct HostAuthority {
    cell: u16,
    issuer: Issuer<'static, KeyPair>,
    /// The issuing certificate, unless it is a root.
    intermediate_pem: String,
    /// A certificate never outlives its issuer's.
    expire_time: Timestamp,
    lifetime: SignedDuration,
}

impl fmt::Debug for HostAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostAuthority")
            .field("cell", &self.cell)
            .finish_non_exhaustive()
    }
}

impl HostAuthority {
    /// Reads the authority that the settings name.
    ///
    /// # Errors
    /// An unreadable, exposed or malformed file, by the setting's name; a root instead of an intermediate.
    /// An intermediate that is not of the authority of `tls.host_ca_file`, or is of that of `tls.ca_file`.
    pub fn load(cell: u16, config: &Config, tls: &TlsSettings) -> anyhow::Result<Self> {
        let certificate = read("inventory.host_ca_cert_file", &config.host_ca_cert_file)?;
        let key = read_secret("inventory.host_ca_key_file", &config.host_ca_key_file)?;
        let authority = Self::from_pem(cell, &certificate, &key, config.host_certificate_days)?;
        // a stolen intermediate is replaced by its root; a stolen root by visiting every host and service
        ensure!(
            !authority.intermediate_pem.is_empty(),
            "setting inventory.host_ca_cert_file: the root of the hosts' authority; name an intermediate, and keep the root's key elsewhere"
        );
        let hosts = tls.host_ca_file.as_ref();
        let hosts = hosts.context(
            "setting tls.host_ca_file is missing, by which inventory.host_ca_cert_file is checked",
        )?;
        chain::check(
            &certificate,
            &read("tls.host_ca_file", hosts)?,
            &read("tls.ca_file", &tls.ca_file)?,
        )?;
        Ok(authority)
    }

    /// An authority of this certificate and key, whose certificates live so many days.
    ///
    /// # Errors
    /// Malformed PEM; never with the key's content.
    pub fn from_pem(
        cell: u16,
        certificate: &str,
        key: &str,
        lifetime_days: u32,
    ) -> anyhow::Result<Self> {
        let key = KeyPair::from_pem(key)
            .context("setting inventory.host_ca_key_file: no private key in PKCS#8 PEM")?;
        let unusable = "setting inventory.host_ca_cert_file: no certificate in PEM";
        let (_, pem) =
            x509_parser::pem::parse_x509_pem(certificate.as_bytes()).context(unusable)?;
        let (_, parsed) = X509Certificate::from_der(&pem.contents).context(unusable)?;
        let is_root = parsed.subject() == parsed.issuer();
        let expire_time = Timestamp::from_second(parsed.validity().not_after.timestamp())
            .unwrap_or(Timestamp::MAX);
        Ok(Self {
            cell,
            intermediate_pem: if is_root {
                String::new()
            } else {
                certificate.to_owned()
            },
            issuer: Issuer::from_ca_cert_pem(certificate, key).context(unusable)?,
            expire_time,
            lifetime: SignedDuration::from_hours(24 * i64::from(lifetime_days)),
        })
    }

    /// Signs a key for one host instance. Subject and names in the request are ignored.
    ///
    /// # Errors
    /// [`CertificateError::Signing`].
    pub fn issue(
        &self,
        key: &HostKey,
        node_id: &Uuid,
        instance_id: &Uuid,
        serial: Uuid,
        now: Timestamp,
    ) -> Result<Issued, CertificateError> {
        let expire_time = now
            .saturating_add(self.lifetime)
            .unwrap_or(self.expire_time)
            .min(self.expire_time);
        let begin_time = now.saturating_sub(CLOCK_SKEW).unwrap_or(now);
        let certificate = self
            .names(node_id, instance_id)
            .map(|mut params| {
                params.serial_number = Some(SerialNumber::from_slice(serial.as_bytes()));
                let epoch = rcgen::date_time_ymd(1970, 1, 1);
                params.not_before = epoch + since_epoch(begin_time);
                params.not_after = epoch + since_epoch(expire_time);
                params
            })
            .and_then(|params| params.signed_by(&key.request.public_key, &self.issuer))
            .map_err(CertificateError::Signing)?;
        Ok(Issued {
            digest: Sha256::digest(certificate.der()).into(),
            chain_pem: format!("{}{}", certificate.pem(), self.intermediate_pem),
            expire_time,
        })
    }

    fn names(&self, node_id: &Uuid, instance_id: &Uuid) -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, format!("node {node_id}"));
        params.subject_alt_names = vec![
            SanType::URI(host_uri(self.cell, node_id, instance_id).try_into()?),
            SanType::DnsName(host_dns(node_id, instance_id).try_into()?),
            SanType::DnsName("localhost".to_owned().try_into()?),
        ];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        Ok(params)
    }
}

fn since_epoch(at: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(at.as_second()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuaas_common::identity::Peer;
    use rcgen::BasicConstraints;

    fn authority(days: u32) -> HostAuthority {
        let key = KeyPair::generate().expect("key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "test root");
        let root = params.self_signed(&key).expect("self-signed");
        HostAuthority::from_pem(7, &root.pem(), &key.serialize_pem(), days).expect("usable")
    }

    fn host_key(csr_pem: &str) -> HostKey {
        HostKey::parse(csr_pem).expect("a key")
    }

    fn csr(key: &KeyPair, names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).expect("names");
        params
            .serialize_request(key)
            .expect("request")
            .pem()
            .expect("pem")
    }

    fn now() -> Timestamp {
        "2026-11-20T12:00:00Z".parse().expect("a time")
    }

    #[test]
    fn a_09_the_certificate_names_this_instance_whatever_the_request_says() {
        let (node, instance) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let request = csr(
            &KeyPair::generate().expect("key"),
            &["scheduler.gpuaas.internal"],
        );
        let issued = authority(90)
            .issue(
                &host_key(&request),
                &node,
                &instance,
                Uuid::from_u128(3),
                now(),
            )
            .expect("issued");
        let (_, pem) = x509_parser::pem::parse_x509_pem(issued.chain_pem.as_bytes()).expect("pem");
        let (_, parsed) = X509Certificate::from_der(&pem.contents).expect("certificate");
        let names = parsed
            .subject_alternative_name()
            .expect("parses")
            .expect("present");
        let text: Vec<String> = names
            .value
            .general_names
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(text.len(), 3, "{text:?}");
        assert!(!text.concat().contains("scheduler"), "{text:?}");
        assert!(text[1].contains(&host_dns(&node, &instance)), "{text:?}");
        assert_eq!(
            Peer::from_certificate(7, &pem.contents),
            Some(Peer::Host {
                node_id: node,
                instance_id: instance
            })
        );
        assert!(!parsed.is_ca());
        assert_eq!(
            issued.expire_time,
            now() + SignedDuration::from_hours(24 * 90)
        );
        assert_eq!(
            parsed.validity().not_after.timestamp(),
            issued.expire_time.as_second()
        );
    }

    #[test]
    fn a_tampered_request_is_refused() {
        let key = KeyPair::generate().expect("key");
        let good = csr(&key, &["a"]);
        let (_, pem) = x509_parser::pem::parse_x509_pem(good.as_bytes()).expect("pem");
        let mut der = pem.contents.clone();
        let last = der.len() - 1;
        der[last] ^= 1;
        let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der);
        let bad = format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{encoded}\n-----END CERTIFICATE REQUEST-----\n"
        );
        for request in [bad.as_str(), "", "nonsense"] {
            assert!(
                matches!(
                    HostKey::parse(request),
                    Err(CertificateError::BadRequest(_))
                ),
                "{request}"
            );
        }
    }

    #[test]
    fn a_certificate_never_outlives_its_issuer() {
        let key = KeyPair::generate().expect("key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(2026, 12, 1);
        let root = params.self_signed(&key).expect("self-signed");
        let authority =
            HostAuthority::from_pem(1, &root.pem(), &key.serialize_pem(), 90).expect("usable");
        let request = csr(&KeyPair::generate().expect("key"), &[]);
        let issued = authority
            .issue(
                &host_key(&request),
                &Uuid::nil(),
                &Uuid::nil(),
                Uuid::nil(),
                now(),
            )
            .expect("issued");
        assert_eq!(
            issued.expire_time,
            "2026-12-01T00:00:00Z".parse::<Timestamp>().expect("a time")
        );
    }

    #[test]
    fn a_key_is_known_by_itself_and_not_by_its_request() {
        let (one, other) = (
            KeyPair::generate().expect("key"),
            KeyPair::generate().expect("key"),
        );
        let digest = |key, names: &[&str]| host_key(&csr(key, names)).digest();
        assert_eq!(digest(&one, &["a"]), digest(&one, &["b"]));
        assert_ne!(digest(&one, &["a"]), digest(&other, &["a"]));
    }

    #[test]
    fn the_key_never_shows() {
        let shown = format!("{:?}", authority(1));
        assert!(!shown.to_lowercase().contains("key"), "{shown}");
    }
}
