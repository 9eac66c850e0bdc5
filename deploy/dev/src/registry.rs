//! A private OCI registry with TLS, for guest images.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::{User, chown};
use sha2::{Digest as _, Sha256};

use crate::ca::{Authority, Identity};
use crate::error::{Error, Result};
use crate::process::{self, PidFile, Process};
use crate::{paths, ports};

/// How long a start may take on a busy machine.
const START: Duration = Duration::from_secs(30);

/// The user that may push where not everybody may.
pub const PUSHER: &str = "pusher";

/// Who may do what at a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Everybody may pull and push; for tests.
    Open,
    /// Everybody may pull, nobody may push.
    ReadOnly,
    /// Only [`PUSHER`] may pull and push, with the password in this file, which is made when it is not there.
    Pusher(PathBuf),
}

impl Access {
    /// Name of its identity and of its settings file: the two registries of a stack share a folder of blobs.
    fn name(&self) -> &'static str {
        match self {
            Self::Open | Self::ReadOnly => "registry",
            Self::Pusher(_) => "registry-push",
        }
    }
}

/// An OCI registry (Debian's `docker-registry`) at one address.
#[derive(Debug, Clone)]
pub struct Registry {
    folder: PathBuf,
    address: IpAddr,
    port: u16,
    identity: Identity,
    authority: PathBuf,
    user: Option<User>,
    access: Access,
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
        access: Access,
        log: &Path,
        pid_file: PidFile,
    ) -> Result<Self> {
        let user = paths::other_user("docker-registry")?;
        let folder = paths::folder_for(wanted, user.as_ref())?;
        Ok(Self {
            folder,
            address,
            port,
            identity: authority.service(access.name(), &[address])?,
            authority: authority.authority().certificate,
            user,
            access,
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

    /// Starts the registry unless it runs as wanted, and returns once it answers.
    ///
    /// # Errors
    /// The registry does not start.
    pub fn start(&self) -> Result<Process> {
        let settings = self.folder.join(format!("{}.yml", self.access.name()));
        let before = std::fs::read_to_string(&settings).unwrap_or_default();
        let wanted = self.configure(&settings)?;
        if before != wanted {
            self.stop();
        }
        let process = match self.running() {
            Some(process) => process,
            None => {
                let mut command =
                    process::as_user(self.user.as_ref(), Path::new("docker-registry"));
                command
                    .arg("serve")
                    .arg(&settings)
                    .current_dir(&self.folder);
                // it would look for a collector of traces otherwise
                command.env("OTEL_TRACES_EXPORTER", "none");
                process::spawn_detached(&command, &self.log, &self.pid_file)?
            }
        };
        let ready = process::wait_until(START, || self.answers() || !process.alive());
        if ready && process.alive() {
            return Ok(process);
        }
        let reason = format!("no answer at https://{}/v2/", self.host());
        Err(process::not_ready("registry", reason, &self.log))
    }

    /// Ends the registry; its blobs stay.
    pub fn stop(&self) {
        self.pid_file.stop(Signal::SIGTERM, Duration::from_secs(10));
    }

    /// Whether it answers with a certificate of our authority: that it serves, or that one must say who one is.
    pub fn answers(&self) -> bool {
        let url = format!("https://{}/v2/", self.host());
        let ca = self.authority.to_string_lossy();
        let said = process::run(
            "curl",
            &[
                "-s",
                "--noproxy",
                "*",
                "-m",
                "3",
                "--cacert",
                &ca,
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                &url,
            ],
        );
        said.is_ok_and(|code| matches!(code.trim(), "200" | "401"))
    }

    /// Writes its settings; returns their text.
    fn configure(&self, file: &Path) -> Result<String> {
        let own = |file: &Path| match &self.user {
            Some(user) => chown(file, Some(user.uid), Some(user.gid))
                .map_err(|errno| Error::file("own", file)(errno.into())),
            None => Ok(()),
        };
        // the registry's user reads copies: the originals stay with the authority
        let (certificate, key): (PathBuf, PathBuf) = ["pem", "key"]
            .map(|kind| self.folder.join(format!("{}.{kind}", self.access.name())))
            .into();
        for (from, to) in [
            (&self.identity.certificate, &certificate),
            (&self.identity.key, &key),
        ] {
            let content = std::fs::read(from).map_err(Error::file("read", from))?;
            paths::write_secret(to, &content)?;
            own(to)?;
        }
        let secret =
            std::fs::read(&self.identity.key).map_err(Error::file("read", &self.identity.key))?;
        // whoever may only read finds no upload to purge
        let (storage, auth) = match &self.access {
            Access::Open => ("", String::new()),
            Access::ReadOnly => (
                "  maintenance:\n    uploadpurging:\n      enabled: false\n    readonly:\n      enabled: true\n",
                String::new(),
            ),
            Access::Pusher(password) => {
                let users = self.folder.join("registry-push.users");
                write_users(password, &users)?;
                own(&users)?;
                let realm = "    realm: GPUaaS images\n";
                (
                    "",
                    format!("auth:\n  htpasswd:\n{realm}    path: {}\n", users.display()),
                )
            }
        };
        let settings = format!(
            "version: 0.1\n\
             log:\n  level: warn\n  accesslog:\n    disabled: true\n\
             storage:\n  filesystem:\n    rootdirectory: {data}\n  cache:\n    blobdescriptor: inmemory\n{storage}{auth}\
             http:\n  addr: {host}\n  secret: {secret}\n  tls:\n    certificate: {certificate}\n    key: {key}\n",
            data = self.folder.join("blobs").display(),
            host = self.host(),
            secret = hex::encode(&Sha256::digest(&secret)[..16]),
            certificate = certificate.display(),
            key = key.display(),
        );
        paths::write_secret(file, settings.as_bytes())?;
        own(file)?;
        Ok(settings)
    }
}

/// Makes the password unless it is there, and writes the file that the registry checks it by.
fn write_users(password: &Path, users: &Path) -> Result<()> {
    if !password.exists() {
        let made = uuid::Uuid::new_v4().simple().to_string();
        paths::write_secret(password, made.as_bytes())?;
    }
    let secret = std::fs::read_to_string(password).map_err(Error::file("read", password))?;
    let salt = hex::encode(&Sha256::digest(secret.as_bytes())[..11]);
    // perl is part of every Debian, and its crypt knows bcrypt, the one kind that the registry takes; the password
    // goes by a pipe, since arguments are seen by all
    let script = "my $p = <STDIN>; print crypt($p, $ARGV[0]);";
    let mut child = Command::new("perl")
        .args(["-e", script, &format!("$2b$10${salt}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|_| Error::Missing {
            program: "perl".to_owned(),
        })?;
    if let Some(mut input) = child.stdin.take() {
        let written = input.write_all(secret.as_bytes());
        written.map_err(Error::file("hash", password))?;
    }
    let output = child
        .wait_with_output()
        .map_err(Error::file("hash", password))?;
    let hash = String::from_utf8_lossy(&output.stdout).into_owned();
    if !hash.starts_with("$2b$10$") {
        return Err(Error::other("perl's crypt knows no bcrypt"));
    }
    paths::write_secret(users, format!("{PUSHER}:{hash}\n").as_bytes())
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
        Self::try_start(|_| Access::Open)
            .unwrap_or_else(|error| panic!("no test registry: {error}"))
    }

    fn try_start(access: impl FnOnce(&Path) -> Access) -> Result<Self> {
        let folder =
            std::env::temp_dir().join(format!("gpuaas-registry-{}", uuid::Uuid::new_v4().simple()));
        paths::ensure_dir(&folder)?;
        let authority = Authority::open(&folder.join("pki"), 1)?;
        let access = access(&folder);
        let server = Registry::new(
            &folder.join("server"),
            IpAddr::from([127, 0, 0, 1]),
            ports::free()?,
            &authority,
            access,
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

    /// The HTTP status of the beginning of a push, with more arguments of curl.
    fn push(registry: &Registry, more: &[&str]) -> String {
        let url = format!("https://{}/v2/lab/image/blobs/uploads/", registry.host());
        let ca = registry.ca_file().to_string_lossy().into_owned();
        let plain = ["-s", "--noproxy", "*", "-X", "POST", "--cacert", &ca];
        let shown = ["-o", "/dev/null", "-w", "%{http_code}", &url];
        let arguments: Vec<&str> = plain.iter().chain(more).chain(&shown).copied().collect();
        process::run("curl", &arguments).unwrap()
    }

    #[test]
    fn nobody_pushes_without_saying_who_he_is() {
        let reader = TestRegistry::try_start(|_| Access::ReadOnly).unwrap();
        assert_eq!(push(reader.server(), &[]), "405");
        let pushed =
            TestRegistry::try_start(|folder| Access::Pusher(folder.join("password"))).unwrap();
        let password = pushed.folder.join("password");
        let secret = std::fs::read_to_string(&password).unwrap();
        assert_eq!(push(pushed.server(), &[]), "401");
        assert_eq!(push(pushed.server(), &["-u", "pusher:wrong"]), "401");
        let right = format!("{PUSHER}:{secret}");
        assert_eq!(push(pushed.server(), &["-u", &right]), "202");
        // what runs as wanted is left alone
        let process = pushed.server().running().unwrap();
        assert_eq!(pushed.server().start().unwrap(), process);
    }
}
