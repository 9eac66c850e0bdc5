//! What is configured of serial logs by SSH, and the server that it makes.
use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use gpuaas_common::config::read_secret;
use russh::keys::{Algorithm, PrivateKey, decode_secret_key};
use russh::server::Config;
use russh::{MethodKind, MethodSet, Preferred, SshId, kex};
use serde::Deserialize;

/// Keys that a client may try, one more than these with the question what it may try at all. As many as OpenSSH lets.
const MAX_TRIES: usize = 7;
/// How long every refusal takes, whatever its reason.
const REFUSAL: Duration = Duration::from_millis(300);
/// Keep-alives without an answer after which a client is gone.
const KEEP_ALIVES: usize = 3;
/// Elliptic curves alone: who has not signed in yet may ask for an exchange as often as it likes, and one in a large group of
/// integers takes a processor for a second.
const KEY_EXCHANGES: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    kex::EXTENSION_SUPPORT_AS_SERVER,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER,
];
/// Bytes of what a reader types that may be on their way: it is thrown away.
const WINDOW: u32 = 16 << 10;

/// Section `[gateway.serial_ssh]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SerialSshSettings {
    /// Where it listens, for example `["0.0.0.0:7022"]`.
    pub listen: Vec<SocketAddr>,
    /// Host key that clients know the gateway by, Ed25519 or ECDSA, in PEM as `ssh-keygen` writes it or PKCS#8, without
    /// passphrase, mode 0600; the same for all gateways behind one name.
    pub host_key_file: PathBuf,
    /// Connections that may be open at once on one address. For one more, that which has been without sign-in longest is ended.
    #[serde(default = "default_max_connections")]
    pub max_connections: usize,
    /// Connections of one peer address that may be open at once on one address; an IPv6 /64 is one peer. For one more,
    /// the peer's own that has been without sign-in longest is ended. 0 is no limit.
    #[serde(default = "default_max_connections_per_peer")]
    pub max_connections_per_peer: usize,
    /// How long a client may take from its connection until it has signed in and asked for the log, in seconds; more than
    /// `gateway.request_timeout_seconds`, for a host may take as long.
    #[serde(default = "default_sign_in_timeout")]
    pub sign_in_timeout_seconds: u64,
    /// Seconds between two keep-alives; a client that answers none of three is let go.
    #[serde(default = "default_keep_alive")]
    pub keep_alive_seconds: u64,
}

fn default_max_connections() -> usize {
    1024
}

fn default_max_connections_per_peer() -> usize {
    64
}

fn default_sign_in_timeout() -> u64 {
    40
}

fn default_keep_alive() -> u64 {
    15
}

impl SerialSshSettings {
    /// The server's side of a connection.
    ///
    /// # Errors
    /// A host key that cannot be read, is exposed to others, or is none that SSH servers use.
    pub(super) fn server(&self) -> anyhow::Result<Arc<Config>> {
        let text = read_secret("gateway.serial_ssh.host_key_file", &self.host_key_file)?;
        let key = host_key(&text).context("setting gateway.serial_ssh.host_key_file")?;
        let keep_alive = Duration::from_secs(self.keep_alive_seconds.max(1));
        Ok(Arc::new(Config {
            // no version: it helps nobody but who looks for one
            server_id: SshId::Standard("SSH-2.0-gpuaas".into()),
            methods: MethodSet::from(&[MethodKind::PublicKey][..]),
            auth_rejection_time: REFUSAL,
            auth_rejection_time_initial: Some(Duration::ZERO),
            keys: vec![key],
            preferred: Preferred {
                kex: Cow::Borrowed(KEY_EXCHANGES),
                ..Preferred::DEFAULT
            },
            window_size: WINDOW,
            max_auth_attempts: MAX_TRIES,
            // longer than a client that lives is silent; for what it does not take at all, keep-alives included
            inactivity_timeout: Some(keep_alive * (KEEP_ALIVES as u32 + 1)),
            keepalive_interval: Some(keep_alive),
            keepalive_max: KEEP_ALIVES,
            ..Config::default()
        }))
    }
}

fn host_key(text: &str) -> anyhow::Result<PrivateKey> {
    let key = decode_secret_key(text, None).context(
        "must be a private key in PEM without passphrase, as ssh-keygen -t ed25519 -N '' writes it",
    )?;
    let is_usable = matches!(
        key.algorithm(),
        Algorithm::Ed25519 | Algorithm::Ecdsa { .. }
    );
    ensure!(is_usable, "must be an Ed25519 or ECDSA key");
    Ok(key)
}

#[cfg(test)]
mod tests {
    use russh::keys::ssh_key::LineEnding;

    use super::*;

    #[test]
    fn a_host_key_is_what_ssh_keygen_or_the_platform_makes() {
        let mut random = russh::keys::key::safe_rng();
        let made = PrivateKey::random(&mut random, Algorithm::Ed25519).expect("a key");
        let text = made.to_openssh(LineEnding::LF).expect("written");
        let read = host_key(text.trim_end()).expect("a host key");
        assert_eq!(read.public_key().key_data(), made.public_key().key_data());
        let pkcs8 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
        host_key(pkcs8.serialize_pem().trim_end()).expect("a host key");
        let public = made.public_key().to_openssh().expect("written");
        for bad in ["", "rubbish", &public] {
            let error = format!("{:#}", host_key(bad).expect_err("no key"));
            assert!(error.contains("ssh-keygen"), "{error}");
        }
    }
}
