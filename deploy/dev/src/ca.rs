//! A certificate authority for one development stack, and every key its parts need.
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

/// The authority of one cell.
#[derive(Debug, Clone)]
pub struct Authority {
    folder: PathBuf,
    cell: u16,
}

impl Authority {
    /// Opens the authority in `folder`, making it if it is not there.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn open(folder: &Path, cell: u16) -> Result<Self> {
        ensure_dir(folder)?;
        let authority = Self {
            folder: folder.to_path_buf(),
            cell,
        };
        let identity = authority.authority();
        if !identity.certificate.exists() || !identity.key.exists() {
            let mut params = CertificateParams::new(Vec::<String>::new())?;
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            let name = format!("GPUaaS development CA, cell {cell}");
            params.distinguished_name.push(DnType::CommonName, name);
            validity(&mut params)?;
            let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
            let certificate = params.self_signed(&key)?;
            write_secret(&identity.key, key.serialize_pem().as_bytes())?;
            write_with_mode(&identity.certificate, certificate.pem().as_bytes(), 0o644)?;
        }
        Ok(authority)
    }

    /// The authority's own certificate, which every part trusts, and its key, which signs the hosts' requests.
    pub fn authority(&self) -> Identity {
        self.files("ca")
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
        self.identity(name, &names)
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
        self.identity(&format!("host-{instance}"), &names)
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

    fn identity(&self, file: &str, names: &[Name]) -> Result<Identity> {
        let files = self.files(file);
        let listed = self.folder.join(format!("{file}.names"));
        let desired = names
            .iter()
            .map(Name::to_string)
            .collect::<Vec<_>>()
            .join("\n");
        let kept = std::fs::read_to_string(&listed).is_ok_and(|names| names == desired);
        if kept && files.key.exists() && self.fresh(&files.certificate) {
            return Ok(files);
        }
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = self.sign(names, &key)?;
        write_secret(&files.key, key.serialize_pem().as_bytes())?;
        write_with_mode(&files.certificate, certificate.pem().as_bytes(), 0o644)?;
        write_with_mode(&listed, desired.as_bytes(), 0o644)?;
        Ok(files)
    }

    fn sign(&self, names: &[Name], key: &KeyPair) -> Result<Certificate> {
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
        let own = self.authority();
        let ca_key = KeyPair::from_pem(&read(&own.key)?)?;
        let issuer = Issuer::from_ca_cert_pem(&read(&own.certificate)?, ca_key)?;
        Ok(params.signed_by(key, &issuer)?)
    }

    /// Whether a certificate is younger than [`RENEW_DAYS`] and than the authority.
    fn fresh(&self, certificate: &Path) -> bool {
        let made = |path: &Path| {
            std::fs::metadata(path)
                .and_then(|metadata| metadata.modified())
                .ok()
        };
        let (Some(own), Some(authority)) = (made(certificate), made(&self.authority().certificate))
        else {
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
            &host.key,
            &authority.signing_key("token").unwrap().private,
        ] {
            let mode = std::fs::metadata(key).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", key.display());
        }
        let verify = std::process::Command::new("openssl")
            .args(["verify", "-CAfile"])
            .args([&authority.authority().certificate, &host.certificate])
            .output()
            .unwrap();
        assert!(
            verify.status.success(),
            "{}",
            String::from_utf8_lossy(&verify.stderr)
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
