//! One configuration loader: files, then `GPUAAS__SECTION__KEY` variables, then `--set section.key=value`.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file, variable or flag does not parse or lacks a value.
    #[error("configuration: {0}")]
    Invalid(#[from] config::ConfigError),
    /// A `--set` flag is not `section.key=value`.
    #[error("flag --set {0}: expected section.key=value")]
    BadFlag(String),
    /// A referenced file cannot be read.
    #[error("{setting}: cannot read {path}")]
    Unreadable {
        /// Name of the setting.
        setting: String,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A secret file that others may read.
    #[error("{setting}: {path} must not be readable by group or others (mode 0600)")]
    SecretExposed {
        /// Name of the setting.
        setting: String,
        /// The file.
        path: PathBuf,
    },
}

/// Settings every process has.
#[derive(Clone, Debug, Deserialize)]
pub struct Settings {
    /// Number of this cell, 0 to 4095; part of every id and every identity.
    pub cell: u16,
    /// Where the process listens.
    pub server: ServerSettings,
    /// Own certificate and the authority that peers are checked against.
    pub tls: TlsSettings,
    /// How internal tokens are verified.
    #[serde(default)]
    pub token: TokenSettings,
    /// The database, for processes that have one.
    pub database: Option<DatabaseSettings>,
    /// Redis for wake-ups and shared rates; without it everything still works at the poll interval, and each process counts
    /// rates for itself.
    #[serde(default)]
    pub redis: RedisSettings,
    /// Logs and traces.
    #[serde(default)]
    pub telemetry: TelemetrySettings,
    /// Base URL of each service that is called, by service name.
    #[serde(default)]
    pub peers: BTreeMap<String, String>,
    /// The audit trail, for processes that have a database.
    #[serde(default)]
    pub audit: AuditSettings,
}

/// The audit trail.
#[derive(Clone, Debug, Deserialize)]
pub struct AuditSettings {
    /// Days that audit records are kept, at least 30. Older ones are removed, the oldest first; export them before.
    #[serde(default = "default_audit_keep_days")]
    pub keep_days: u32,
}

impl Default for AuditSettings {
    fn default() -> Self {
        Self {
            keep_days: default_audit_keep_days(),
        }
    }
}

fn default_audit_keep_days() -> u32 {
    400
}

impl AuditSettings {
    /// Refuses a retention that the database refuses.
    ///
    /// # Errors
    /// Fewer than 30 days.
    pub fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.keep_days >= 30,
            "setting audit.keep_days must be at least 30"
        );
        Ok(())
    }
}

/// Where a process listens.
#[derive(Clone, Debug, Deserialize)]
pub struct ServerSettings {
    /// gRPC with mutual TLS.
    pub listen: Vec<SocketAddr>,
    /// Plain HTTP for `/metrics` and `/healthz`; must be loopback or a trusted scrape network.
    pub metrics_listen: SocketAddr,
    /// Longest time an RPC may take to answer, in seconds.
    #[serde(default = "default_request_timeout")]
    pub request_timeout_seconds: u64,
    /// Requests one connection may have in flight.
    #[serde(default = "default_concurrency")]
    pub concurrency_per_connection: usize,
    /// Longest time to wait for running requests at shutdown, in seconds.
    #[serde(default = "default_grace")]
    pub shutdown_grace_seconds: u64,
}

fn default_request_timeout() -> u64 {
    60
}
fn default_concurrency() -> usize {
    256
}
fn default_grace() -> u64 {
    10
}

/// Certificate files in PEM.
#[derive(Clone, Debug, Deserialize)]
pub struct TlsSettings {
    /// Authority that the certificates of services chain to.
    pub ca_file: PathBuf,
    /// Authority that the certificates of hosts chain to: for services that call hosts, and for inventory, which hosts
    /// call. Hosts themselves trust services alone, and leave it out.
    #[serde(default)]
    pub host_ca_file: Option<PathBuf>,
    /// Own certificate chain.
    pub cert_file: PathBuf,
    /// Own key, mode 0600.
    pub key_file: PathBuf,
}

/// Internal token settings.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct TokenSettings {
    /// Ed25519 public key in PEM. Without it no user or admin RPC is accepted.
    pub public_key_file: Option<PathBuf>,
}

/// Database settings.
#[derive(Clone, Debug, Deserialize)]
pub struct DatabaseSettings {
    /// Host name, address, or the folder of a UNIX socket.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Database name.
    pub name: String,
    /// The service's own role.
    pub user: String,
    /// File with the role's password, mode 0600.
    pub password_file: Option<PathBuf>,
    /// Pool size.
    #[serde(default = "default_connections")]
    pub max_connections: u32,
}

fn default_connections() -> u32 {
    8
}

/// Redis settings.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct RedisSettings {
    /// URL without a password.
    pub url: Option<String>,
    /// File with a URL that holds a password, mode 0600; wins over `url`.
    pub url_file: Option<PathBuf>,
}

/// Logs and traces.
#[derive(Clone, Debug, Deserialize)]
pub struct TelemetrySettings {
    /// Log filter, for example "info" or "info,gpuaas_allocation=debug".
    #[serde(default = "default_log")]
    pub log: String,
    /// OTLP/gRPC endpoint for traces; empty exports nothing.
    #[serde(default)]
    pub otlp_endpoint: String,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self {
            log: default_log(),
            otlp_endpoint: String::new(),
        }
    }
}

fn default_log() -> String {
    "info".to_owned()
}

/// Loads settings of type `T` from files, environment and flags, later ones winning.
///
/// # Errors
/// [`ConfigError`] naming the setting.
pub fn load<T: DeserializeOwned>(files: &[PathBuf], sets: &[String]) -> Result<T, ConfigError> {
    Ok(raw(files, sets)?.try_deserialize()?)
}

/// Loads common settings and the section of one service.
///
/// # Errors
/// [`ConfigError`] naming the setting.
pub fn load_service<C: DeserializeOwned + Default>(
    service: &str,
    files: &[PathBuf],
    sets: &[String],
) -> Result<(Settings, C), ConfigError> {
    let loaded = raw(files, sets)?;
    let section = service.replace('-', "_");
    let own = match loaded.get::<C>(&section) {
        Ok(own) => own,
        Err(config::ConfigError::NotFound(_)) => C::default(),
        Err(error) => return Err(error.into()),
    };
    Ok((loaded.try_deserialize()?, own))
}

fn raw(files: &[PathBuf], sets: &[String]) -> Result<config::Config, ConfigError> {
    let mut builder = config::Config::builder();
    for file in files {
        builder = builder.add_source(config::File::from(file.as_path()).required(true));
    }
    builder = builder.add_source(
        config::Environment::with_prefix("GPUAAS")
            .prefix_separator("__")
            .separator("__")
            .try_parsing(true),
    );
    for set in sets {
        let (key, value) = set
            .split_once('=')
            .ok_or_else(|| ConfigError::BadFlag(set.clone()))?;
        builder = builder.set_override(key, value)?;
    }
    Ok(builder.build()?)
}

/// Reads a file that a setting names.
///
/// # Errors
/// [`ConfigError::Unreadable`].
pub fn read(setting: &str, path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
        setting: setting.to_owned(),
        path: path.to_owned(),
        source,
    })
}

/// Reads a secret file, refusing one that group or others may read.
///
/// # Errors
/// [`ConfigError::Unreadable`] or [`ConfigError::SecretExposed`]; never the content.
pub fn read_secret(setting: &str, path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable {
        setting: setting.to_owned(),
        path: path.to_owned(),
        source,
    };
    let mode = std::fs::metadata(path)
        .map_err(unreadable)?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        return Err(ConfigError::SecretExposed {
            setting: setting.to_owned(),
            path: path.to_owned(),
        });
    }
    Ok(read(setting, path)?.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    struct Own {
        poll_ms: u64,
    }

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("c.toml");
        std::fs::write(&path, text).expect("write");
        (dir, path)
    }

    const BASE: &str = r#"
        cell = 1
        [server]
        listen = ["127.0.0.1:1"]
        metrics_listen = "127.0.0.1:2"
        [tls]
        ca_file = "ca"
        cert_file = "c"
        key_file = "k"
        [image_catalog]
        poll_ms = 7
    "#;

    #[test]
    fn flag_wins_over_file() {
        let (_dir, path) = file(BASE);
        let (settings, own) = load_service::<Own>(
            "image-catalog",
            &[path],
            &["image_catalog.poll_ms=9".to_owned()],
        )
        .expect("loads");
        assert_eq!((settings.cell, own.poll_ms), (1, 9));
    }

    #[test]
    fn absent_section_is_the_default() {
        let (_dir, path) = file(BASE);
        assert_eq!(
            load_service::<Own>("billing", &[path], &[])
                .expect("loads")
                .1,
            Own::default()
        );
    }

    #[test]
    fn malformed_flag_is_named() {
        let error = load::<Settings>(&[], &["nonsense".to_owned()]).expect_err("refused");
        assert!(error.to_string().contains("nonsense"), "{error}");
    }

    #[test]
    fn exposed_secret_is_refused() {
        let (_dir, path) = file("secret");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("chmod");
        let error = read_secret("database.password_file", &path).expect_err("refused");
        assert!(matches!(error, ConfigError::SecretExposed { .. }));
        assert!(!error.to_string().contains("secret\n"));
    }
}
