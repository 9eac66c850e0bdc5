//! The certificate authorities of one development stack, and every key its parts need.
//!
//! Services and hosts have authorities of their own: what signs hosts cannot name a service. Inventory has the key of an
//! intermediate that signs hosts; the key of the hosts' root lies here only because a development stack has no safer
//! place, and nothing but the intermediate's renewal needs it.
//!
//! Files lie in one folder, keys with mode 0600. Everything is made once and kept: a second call returns the same
//! files, unless the desired names changed or the certificate is about to expire.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType,
};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::paths::{ensure_dir, write_secret, write_with_mode};

/// Validity of what is made here, in days.
const VALID_DAYS: i64 = 825;
/// A certificate older than this is made anew, in days.
const RENEW_DAYS: u64 = 400;

/// Certificate and key of one identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Certificate in PEM.
    pub certificate: PathBuf,
    /// Key in PKCS#8 PEM, mode 0600.
    pub key: PathBuf,
}

/// An Ed25519 key pair that signs tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// Private key in PKCS#8 PEM, mode 0600.
    pub private: PathBuf,
    /// Public key in PEM.
    pub public: PathBuf,
}

/// The authorities of one cell.
#[derive(Debug, Clone)]
pub struct Authority {
    folder: PathBuf,
    cell: u16,
}

/// Who signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signer {
    Services,
    HostRoot,
    Hosts,
}

impl Signer {
    fn file(self) -> &'static str {
        match self {
            Self::Services => "ca",
            Self::HostRoot => "host-root",
            Self::Hosts => "host-ca",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::HostRoot => "hosts, root",
            Self::Hosts => "hosts, intermediate",
        }
    }
}

impl Authority {
    /// Opens the authorities in `folder`, making what is not there.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn open(folder: &Path, cell: u16) -> Result<Self> {
        ensure_dir(folder)?;
        let authority = Self {
            folder: folder.to_path_buf(),
            cell,
        };
        authority.make(Signer::Services, None, 0)?;
        authority.make(Signer::HostRoot, None, 1)?;
        authority.make(Signer::Hosts, Some(Signer::HostRoot), 0)?;
        Ok(authority)
    }

    /// The certificate of the services' authority, which every part trusts, and its key.
    pub fn authority(&self) -> Identity {
        self.files(Signer::Services.file())
    }

    /// The certificate of the hosts' root, which those trust who call hosts or are called by them.
    pub fn host_root(&self) -> PathBuf {
        self.files(Signer::HostRoot.file()).certificate
    }

    /// The intermediate that signs the requests of hosts, and its key, which inventory has.
    pub fn host_authority(&self) -> Identity {
        self.files(Signer::Hosts.file())
    }

    fn make(&self, signer: Signer, by: Option<Signer>, below: u8) -> Result<()> {
        let files = self.files(signer.file());
        if files.certificate.exists() && files.key.exists() {
            return Ok(());
        }
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(below));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.use_authority_key_identifier_extension = by.is_some();
        let name = format!(
            "GPUaaS development CA, cell {}, {}",
            self.cell,
            signer.name()
        );
        params.distinguished_name.push(DnType::CommonName, name);
        validity(&mut params)?;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = match by {
            None => params.self_signed(&key)?,
            Some(by) => params.signed_by(&key, &self.issuer(by)?)?,
        };
        write_secret(&files.key, key.serialize_pem().as_bytes())?;
        write_with_mode(&files.certificate, certificate.pem().as_bytes(), 0o644)
    }

    fn issuer(&self, signer: Signer) -> Result<Issuer<'static, KeyPair>> {
        let own = self.files(signer.file());
        let key = KeyPair::from_pem(&read(&own.key)?)?;
        Ok(Issuer::from_ca_cert_pem(&read(&own.certificate)?, key)?)
    }

    /// The identity of a service: `spiffe://cell-<n>/service/<name>`, valid for loopback and the given addresses.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn service(&self, name: &str, addresses: &[IpAddr]) -> Result<Identity> {
        let mut names = vec![
            Name::Uri(format!("spiffe://cell-{}/service/{name}", self.cell)),
            Name::Dns(format!("{name}.gpuaas.internal")),
            Name::Dns("localhost".to_owned()),
            Name::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        ];
        names.extend(addresses.iter().copied().map(Name::Address));
        self.identity(name, &names, Signer::Services)
    }

    /// Where a service's certificate lies.
    pub fn certificate_of(&self, name: &str) -> PathBuf {
        self.files(name).certificate
    }

    /// The identity of one host instance, as enrolment would give it.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn host(&self, node: Uuid, instance: Uuid) -> Result<Identity> {
        let names = [
            Name::Uri(format!(
                "spiffe://cell-{}/node/{node}/instance/{instance}",
                self.cell
            )),
            Name::Dns(format!("instance-{instance}.node-{node}.gpuaas.internal")),
            Name::Dns("localhost".to_owned()),
        ];
        self.identity(&format!("host-{instance}"), &names, Signer::Hosts)
    }

    /// An Ed25519 key pair kept under `name`.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn signing_key(&self, name: &str) -> Result<SigningKey> {
        let files = SigningKey {
            private: self.folder.join(format!("{name}.key")),
            public: self.folder.join(format!("{name}.pub")),
        };
        if !files.private.exists() || !files.public.exists() {
            let pair = KeyPair::generate_for(&PKCS_ED25519)?;
            write_secret(&files.private, pair.serialize_pem().as_bytes())?;
            write_with_mode(&files.public, pair.public_key_pem().as_bytes(), 0o644)?;
        }
        Ok(files)
    }

    /// A private key for identity tokens of VMs, ECDSA P-256, kept under `name`.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn instance_identity_key(&self, name: &str) -> Result<PathBuf> {
        let file = self.folder.join(format!("{name}.key"));
        if !file.exists() {
            let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
            write_secret(&file, pair.serialize_pem().as_bytes())?;
        }
        Ok(file)
    }

    fn identity(&self, file: &str, names: &[Name], signer: Signer) -> Result<Identity> {
        let files = self.files(file);
        let listed = self.folder.join(format!("{file}.names"));
        let desired = names
            .iter()
            .map(Name::to_string)
            .collect::<Vec<_>>()
            .join("\n");
        let kept = std::fs::read_to_string(&listed).is_ok_and(|names| names == desired);
        if kept && files.key.exists() && self.fresh(&files.certificate, signer) {
            return Ok(files);
        }
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut chain = self.sign(names, &key, signer)?.pem();
        if signer == Signer::Hosts {
            chain.push_str(&read(&self.host_authority().certificate)?);
        }
        write_secret(&files.key, key.serialize_pem().as_bytes())?;
        write_with_mode(&files.certificate, chain.as_bytes(), 0o644)?;
        write_with_mode(&listed, desired.as_bytes(), 0o644)?;
        Ok(files)
    }

    fn sign(&self, names: &[Name], key: &KeyPair, signer: Signer) -> Result<Certificate> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.subject_alt_names = names.iter().map(Name::alternative).collect::<Result<_>>()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params
            .distinguished_name
            .push(DnType::CommonName, names[0].to_string());
        params.use_authority_key_identifier_extension = true;
        validity(&mut params)?;
        Ok(params.signed_by(key, &self.issuer(signer)?)?)
    }

    /// Whether a certificate is younger than [`RENEW_DAYS`] and than its authority.
    fn fresh(&self, certificate: &Path, signer: Signer) -> bool {
        let made = |path: &Path| {
            std::fs::metadata(path)
                .and_then(|metadata| metadata.modified())
                .ok()
        };
        let (Some(own), Some(authority)) = (
            made(certificate),
            made(&self.files(signer.file()).certificate),
        ) else {
            return false;
        };
        let young = own
            .elapsed()
            .is_ok_and(|age| age.as_secs() < RENEW_DAYS * 86_400);
        young && own >= authority
    }

    fn files(&self, name: &str) -> Identity {
        Identity {
            certificate: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        }
    }
}

/// A name that a certificate vouches for.
#[derive(Debug, Clone)]
enum Name {
    Uri(String),
    Dns(String),
    Address(IpAddr),
}

impl Name {
    fn alternative(&self) -> Result<SanType> {
        Ok(match self {
            Self::Uri(uri) => SanType::URI(uri.as_str().try_into()?),
            Self::Dns(name) => SanType::DnsName(name.as_str().try_into()?),
            Self::Address(address) => SanType::IpAddress(*address),
        })
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uri(name) | Self::Dns(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

fn validity(params: &mut CertificateParams) -> Result<()> {
    let today = jiff::Zoned::now()
        .with_time_zone(jiff::tz::TimeZone::UTC)
        .date();
    let date = |days: i64| {
        let date = today.checked_add(jiff::Span::new().days(days));
        let date = date.map_err(|error| Error::other(error.to_string()))?;
        let [month, day] = [date.month(), date.day()].map(i8::unsigned_abs);
        Ok::<_, Error>(rcgen::date_time_ymd(i32::from(date.year()), month, day))
    };
    // yesterday: clocks of hosts need not agree to the second
    params.not_before = date(-1)?;
    params.not_after = date(VALID_DAYS)?;
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(Error::file("read", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn folder() -> PathBuf {
        std::env::temp_dir().join(format!("gpuaas-ca-{}", Uuid::new_v4()))
    }

    #[test]
    fn identities_are_kept_until_their_names_change() {
        let folder = folder();
        let authority = Authority::open(&folder, 1).unwrap();
        let identity = authority.service("scheduler", &[]).unwrap();
        let first = read(&identity.certificate).unwrap();
        let again = Authority::open(&folder, 1)
            .unwrap()
            .service("scheduler", &[])
            .unwrap();
        assert_eq!(first, read(&again.certificate).unwrap());
        let moved = authority
            .service("scheduler", &["100.64.0.1".parse().unwrap()])
            .unwrap();
        assert_ne!(first, read(&moved.certificate).unwrap());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn keys_are_private_and_certificates_verify() {
        let folder = folder();
        let authority = Authority::open(&folder, 7).unwrap();
        let host = authority.host(Uuid::now_v7(), Uuid::now_v7()).unwrap();
        for key in [
            &authority.authority().key,
            &authority.host_authority().key,
            &host.key,
            &authority.signing_key("token").unwrap().private,
        ] {
            let mode = std::fs::metadata(key).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", key.display());
        }
        let service = authority.service("scheduler", &[]).unwrap();
        let verifies = |root: &Path, certificate: &Path| {
            std::process::Command::new("openssl")
                .arg("verify")
                .arg("-CAfile")
                .arg(root)
                .arg("-untrusted")
                .args([certificate, certificate])
                .output()
                .unwrap()
                .status
                .success()
        };
        let (services, hosts) = (authority.authority().certificate, authority.host_root());
        assert!(verifies(&services, &service.certificate));
        assert!(verifies(&hosts, &host.certificate));
        // neither vouches for the other's
        assert!(!verifies(&services, &host.certificate));
        assert!(!verifies(&hosts, &service.certificate));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
