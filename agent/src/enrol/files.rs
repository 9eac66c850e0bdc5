//! What an enrolment leaves on disk: the host's identity, its key, its certificate, and the token before it.
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use gpuaas_common::config::Settings as CommonSettings;
use jiff::Timestamp;
use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use serde::{Deserialize, Serialize};
use x509_parser::pem::parse_x509_pem;

use crate::host::blocking;
use crate::settings::Settings;

/// A token file with more than a token in it is not ours.
const MAX_TOKEN: u64 = 4096;

/// Who this host is to the control plane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub node_id: String,
    /// Host instance.
    pub instance_id: String,
}

/// When a certificate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// From then on.
    pub begins: Timestamp,
    /// Until then.
    pub ends: Timestamp,
}

impl Validity {
    /// Why a signature at a time would not count, by the clock of this host; `None` when it would.
    pub fn refuses(&self, at: Timestamp) -> Option<String> {
        let Self { begins, ends } = self;
        (at < *begins || at > *ends).then(|| {
            format!(
                "the host's clock says {at}, and its certificate counts from {begins} to {ends}"
            )
        })
    }
}

/// Where the parts of an enrolment lie.
#[derive(Debug, Clone)]
pub struct Files {
    identity: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    token: PathBuf,
}

impl Files {
    /// By the settings.
    pub fn of(own: &Settings, common: &CommonSettings) -> Self {
        Self {
            identity: own.state_dir.join("identity.json"),
            certificate: common.tls.cert_file.clone(),
            key: common.tls.key_file.clone(),
            token: own.enrolment.token_file.clone(),
        }
    }

    /// Who this host is, when it has enrolled and still has its key.
    ///
    /// # Errors
    /// A malformed identity or key.
    pub fn enrolled(&self) -> anyhow::Result<Option<(Identity, KeyPair)>> {
        let Ok(text) = read(&self.identity) else {
            return Ok(None);
        };
        let identity = serde_json::from_str(&text).context("malformed identity.json")?;
        Ok(self.key()?.map(|key| (identity, key)))
    }

    /// Key and certificate chain as they are stored, for a signature.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub(super) fn key_and_chain(&self) -> anyhow::Result<(String, String)> {
        let key = read(&self.key).context("cannot read tls.key_file")?;
        let chain = read(&self.certificate);
        Ok((key, chain.context("cannot read tls.cert_file")?))
    }

    /// When the certificate counts; `None` when there is none that can be used with the key.
    pub fn validity(&self, key: &KeyPair) -> Option<Validity> {
        let pem = read(&self.certificate).ok()?;
        certificate_of(&pem, key).ok()
    }

    /// Stores who this host is and its first certificate, and deletes the token that is used up.
    ///
    /// # Errors
    /// A certificate of another key; files that cannot be written.
    pub fn store_enrolment(
        &self,
        identity: &Identity,
        certificate: &str,
        key: &KeyPair,
    ) -> anyhow::Result<()> {
        self.store_certificate(certificate, key)?;
        write_private(&self.identity, serde_json::to_string(identity)?.as_bytes())?;
        blocking::here(|| std::fs::remove_file(&self.token))
            .context("cannot delete the used enrolment token")
    }

    /// Stores another certificate of the same key, in one step.
    ///
    /// # Errors
    /// A certificate of another key, then the last one stays; a file that cannot be written.
    pub fn store_certificate(&self, certificate: &str, key: &KeyPair) -> anyhow::Result<()> {
        certificate_of(certificate, key)?;
        write_private(&self.certificate, certificate.as_bytes())
    }

    /// The single-use token.
    ///
    /// # Errors
    /// None is there, or something else.
    pub fn token(&self) -> anyhow::Result<String> {
        blocking::here(|| read_token(&self.token))
    }

    /// The key, made when there is none. It survives a try that failed: the same key with the same token is the same
    /// instance, and by its key a host gets a certificate again after the last one expired.
    ///
    /// # Errors
    /// A malformed key, or a file that cannot be written.
    pub fn key_or_new(&self) -> anyhow::Result<KeyPair> {
        if let Some(key) = self.key()? {
            return Ok(key);
        }
        let key = KeyPair::generate()?;
        write_private(&self.key, key.serialize_pem().as_bytes())?;
        Ok(key)
    }

    fn key(&self) -> anyhow::Result<Option<KeyPair>> {
        let Ok(text) = read(&self.key) else {
            return Ok(None);
        };
        let key = KeyPair::from_pem(&text)
            .map_err(|_| anyhow::anyhow!("tls.key_file does not hold a private key"))?;
        Ok(Some(key))
    }
}

/// A request for a certificate of this key (PKCS#10 in PEM). Inventory decides every name.
///
/// # Errors
/// The key cannot sign.
pub fn csr(key: &KeyPair) -> anyhow::Result<String> {
    Ok(CertificateParams::new(Vec::new())?
        .serialize_request(key)?
        .pem()?)
}

/// When a certificate counts that is of this key.
fn certificate_of(pem: &str, key: &KeyPair) -> anyhow::Result<Validity> {
    let malformed = || anyhow::anyhow!("malformed certificate of this host");
    let (_, pem) = parse_x509_pem(pem.as_bytes()).map_err(|_| malformed())?;
    let certificate = pem.parse_x509().map_err(|_| malformed())?;
    if certificate.public_key().raw != key.subject_public_key_info() {
        bail!("the certificate is not of this host's key");
    }
    let at = |seconds| Timestamp::from_second(seconds).map_err(|_| malformed());
    Ok(Validity {
        begins: at(certificate.validity().not_before.timestamp())?,
        ends: at(certificate.validity().not_after.timestamp())?,
    })
}

fn read_token(file: &Path) -> anyhow::Result<String> {
    let hint = "this host is not enrolled; put a fresh enrolment token into the file that agent.enrolment.token_file names";
    let size = std::fs::metadata(file).context(hint)?.len();
    if size > MAX_TOKEN {
        bail!("the enrolment token file is too long");
    }
    let token = std::fs::read_to_string(file)
        .context(hint)?
        .trim()
        .to_owned();
    if token.is_empty() {
        bail!("the enrolment token file is empty")
    } else {
        Ok(token)
    }
}

fn read(file: &Path) -> std::io::Result<String> {
    blocking::here(|| std::fs::read_to_string(file))
}

/// Writes a file of mode 0600 in one step. It waits for the disk.
fn write_private(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    blocking::here(|| write_private_here(file, content))
}

fn write_private_here(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let mut out = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)?;
    out.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    out.write_all(content)?;
    out.sync_all()?;
    std::fs::rename(&part, file)?;
    if let Some(folder) = file.parent() {
        // the name is on disk only once the folder is
        std::fs::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> Files {
        Files {
            identity: folder.join("identity.json"),
            certificate: folder.join("tls/cert.pem"),
            key: folder.join("tls/key.pem"),
            token: folder.join("token"),
        }
    }

    fn self_signed(key: &KeyPair) -> String {
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.self_signed(key).unwrap().pem()
    }

    #[test]
    fn a_token_is_read_without_its_newline_and_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        assert!(
            read_token(&file)
                .unwrap_err()
                .to_string()
                .contains("agent.enrolment.token_file")
        );
        std::fs::write(&file, "abc\n").unwrap();
        assert_eq!(read_token(&file).unwrap(), "abc");
        std::fs::write(&file, "\n").unwrap();
        assert!(read_token(&file).is_err());
    }

    #[test]
    fn the_key_is_made_once_with_mode_0600() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let made = files.key_or_new().unwrap();
        let again = files.key_or_new().unwrap();
        assert_eq!(made.serialize_pem(), again.serialize_pem());
        let mode = std::fs::metadata(&files.key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_certificate_of_another_key_is_never_stored() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let key = files.key_or_new().unwrap();
        let good = self_signed(&key);
        files.store_certificate(&good, &key).unwrap();
        let foreign = self_signed(&KeyPair::generate().unwrap());
        for bad in [foreign.as_str(), "nonsense"] {
            assert!(files.store_certificate(bad, &key).is_err());
        }
        let validity = files.validity(&key).unwrap();
        assert!(validity.begins < Timestamp::now() && Timestamp::now() < validity.ends);
        assert_eq!(files.validity(&KeyPair::generate().unwrap()), None);
        let mode = std::fs::metadata(&files.certificate).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_certificate_that_waits_for_the_disk_holds_up_no_call() {
        use std::io::Read as _;

        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let key = files.key_or_new().unwrap();
        // more than a pipe takes at once, so that it is written while somebody reads and not before
        let certificate = self_signed(&key) + &"#\n".repeat(1 << 17);
        let part = dir.path().join("tls/cert.pem.part");
        nix::unistd::mkfifo(&part, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let sent = certificate.clone();
        let storing = tokio::spawn(async move { files.store_certificate(&sent, &key) });
        let mut reader = std::fs::File::open(&part).unwrap();
        let (answer, answered) = std::sync::mpsc::channel();
        tokio::spawn(async move { answer.send(()) });
        let answered = answered.recv_timeout(std::time::Duration::from_secs(10));
        let mut written = String::new();
        reader.read_to_string(&mut written).unwrap();
        assert_eq!(written, certificate);
        // a pipe is on no disk
        assert!(storing.await.unwrap().is_err());
        assert_eq!(answered, Ok(()), "the call waited for the file");
    }

    #[test]
    fn p2_a_clock_outside_the_certificates_time_is_named() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let (begins, ends) = (at(1_000), at(2_000));
        let validity = Validity { begins, ends };
        assert_eq!(validity.refuses(begins), None);
        assert_eq!(validity.refuses(ends), None);
        for wrong in [at(999), at(2_001)] {
            let why = validity.refuses(wrong).expect("it counts for nothing");
            assert!(
                why.contains("clock") && why.contains(&wrong.to_string()),
                "{why}"
            );
        }
    }

    #[test]
    fn an_enrolment_is_found_again_and_uses_its_token_up() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        assert!(files.enrolled().unwrap().is_none());
        let key = files.key_or_new().unwrap();
        std::fs::write(&files.token, "abc").unwrap();
        let identity = Identity {
            node_id: "n".into(),
            instance_id: "i".into(),
        };
        files
            .store_enrolment(&identity, &self_signed(&key), &key)
            .unwrap();
        assert!(!files.token.exists());
        let (found, found_key) = files.enrolled().unwrap().unwrap();
        assert_eq!(found, identity);
        assert_eq!(found_key.serialize_pem(), key.serialize_pem());
    }
}
