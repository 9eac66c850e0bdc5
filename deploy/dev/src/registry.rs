//! A private OCI registry with TLS, for guest images.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::{User, chown};

use crate::ca::{Authority, Identity};
use crate::error::{Error, Result};
use crate::process::{self, PidFile, Process};
use crate::{paths, ports};

/// How long a start may take on a busy machine.
const START: Duration = Duration::from_secs(30);

/// An OCI registry (Debian's `docker-registry`) at one address.
#[derive(Debug, Clone)]
pub struct Registry {
    folder: PathBuf,
    address: IpAddr,
    port: u16,
    identity: Identity,
    authority: PathBuf,
    user: Option<User>,
    log: PathBuf,
    pid_file: PidFile,
}

impl Registry {
    /// A registry that keeps its blobs in `wanted` (moved where its user can reach it) and shows a certificate of
    /// `authority`. Nothing is started yet.
    ///
    /// # Errors
    /// A folder that cannot be made, or the registry is not installed.
    pub fn new(
        wanted: &Path,
        address: IpAddr,
        port: u16,
        authority: &Authority,
        log: &Path,
        pid_file: PidFile,
    ) -> Result<Self> {
        let user = paths::other_user("docker-registry")?;
        let folder = paths::folder_for(wanted, user.as_ref())?;
        Ok(Self {
            folder,
            address,
            port,
            identity: authority.service("registry", &[address])?,
            authority: authority.authority().certificate,
            user,
            log: log.to_path_buf(),
            pid_file,
        })
    }

    /// "address:port", as image references name it.
    pub fn host(&self) -> String {
        format!("{}:{}", self.address, self.port)
    }

    /// Where its blobs lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Certificate that clients check the registry against.
    pub fn ca_file(&self) -> &Path {
        &self.authority
    }

    /// The running registry process, if it is ours.
    pub fn running(&self) -> Option<Process> {
        self.pid_file.running()
    }

    /// Starts the registry unless it runs, and returns once it answers.
    ///
    /// # Errors
    /// The registry does not start.
    pub fn start(&self) -> Result<Process> {
        let process = match self.running() {
            Some(process) => process,
            None => {
                let settings = self.configure()?;
                let mut command =
                    process::as_user(self.user.as_ref(), Path::new("docker-registry"));
                command.arg("serve").arg(settings).current_dir(&self.folder);
                // it would look for a collector of traces otherwise
                command.env("OTEL_TRACES_EXPORTER", "none");
                process::spawn_detached(&command, &self.log, &self.pid_file)?
            }
        };
        let ready = process::wait_until(START, || self.answers() || !process.alive());
        if ready && process.alive() {
            return Ok(process);
        }
        Err(Error::NotReady {
            part: "registry".to_owned(),
            reason: format!("no answer at https://{}/v2/", self.host()),
            log: self.log.clone(),
            tail: process::tail(&self.log),
        })
    }

    /// Ends the registry; its blobs stay.
    pub fn stop(&self) {
        if let Some(process) = self.running() {
            process.stop(Signal::SIGTERM, Duration::from_secs(10));
        }
        self.pid_file.remove();
    }

    /// Whether it answers with a certificate of our authority.
    pub fn answers(&self) -> bool {
        let url = format!("https://{}/v2/", self.host());
        let ca = self.authority.to_string_lossy();
        process::run(
            "curl",
            &[
                "-sf",
                "--noproxy",
                "*",
                "-m",
                "3",
                "--cacert",
                &ca,
                "-o",
                "/dev/null",
                &url,
            ],
        )
        .is_ok()
    }

    fn configure(&self) -> Result<PathBuf> {
        let own = |file: &Path| match &self.user {
            Some(user) => chown(file, Some(user.uid), Some(user.gid))
                .map_err(|errno| Error::file("own", file)(errno.into())),
            None => Ok(()),
        };
        // the registry's user reads copies: the originals stay with the authority
        let (certificate, key) = (self.folder.join("tls.pem"), self.folder.join("tls.key"));
        for (from, to) in [
            (&self.identity.certificate, &certificate),
            (&self.identity.key, &key),
        ] {
            let content = std::fs::read(from).map_err(Error::file("read", from))?;
            paths::write_secret(to, &content)?;
            own(to)?;
        }
        let settings = format!(
            "version: 0.1\n\
             log:\n  level: warn\n  accesslog:\n    disabled: true\n\
             storage:\n  filesystem:\n    rootdirectory: {data}\n  cache:\n    blobdescriptor: inmemory\n\
             http:\n  addr: {host}\n  secret: {secret}\n  tls:\n    certificate: {certificate}\n    key: {key}\n",
            data = self.folder.join("blobs").display(),
            host = self.host(),
            secret = uuid::Uuid::new_v4().simple(),
            certificate = certificate.display(),
            key = key.display(),
        );
        let file = self.folder.join("registry.yml");
        paths::write_secret(&file, settings.as_bytes())?;
        own(&file)?;
        Ok(file)
    }
}

/// A registry of its own for one test. Ended with the value.
#[derive(Debug)]
pub struct TestRegistry {
    server: Registry,
    folder: PathBuf,
}

impl TestRegistry {
    /// Starts an empty registry on loopback with an authority of its own.
    ///
    /// # Panics
    /// When it does not start: a test can do nothing about it.
    pub fn start() -> Self {
        Self::try_start().unwrap_or_else(|error| panic!("no test registry: {error}"))
    }

    fn try_start() -> Result<Self> {
        let folder =
            std::env::temp_dir().join(format!("gpuaas-registry-{}", uuid::Uuid::new_v4().simple()));
        paths::ensure_dir(&folder)?;
        let authority = Authority::open(&folder.join("pki"), 1)?;
        let server = Registry::new(
            &folder.join("server"),
            IpAddr::from([127, 0, 0, 1]),
            ports::free()?,
            &authority,
            &folder.join("registry.log"),
            PidFile::new(folder.join("registry.pid")),
        )?;
        let test = Self { server, folder };
        test.server.start()?;
        Ok(test)
    }

    /// The registry: its address, its authority, and to stop and start it.
    pub fn server(&self) -> &Registry {
        &self.server
    }

    /// Folder of the registry's blobs, to corrupt one.
    pub fn blobs(&self) -> PathBuf {
        self.server.folder.join("blobs")
    }
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        self.server.stop();
        let _best_effort = std::fs::remove_dir_all(&self.server.folder);
        let _best_effort = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_registry_answers_over_tls_and_ends() {
        let registry = TestRegistry::start();
        assert!(registry.server().answers());
        let process = registry.server().running().unwrap();
        drop(registry);
        assert!(!process.alive());
    }
}
