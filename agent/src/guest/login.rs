//! A real login: handshake, key, a command that runs (D-66..D-68). A banner proves nothing.
//!
//! The tenant controls the server at the other end: buffers, time and output are bounded, and what it sends is
//! never interpreted beyond "these are the requested bytes".
use std::net::SocketAddr;
use std::time::Duration;

use russh::ChannelMsg;
use russh::client::{self, Handle};
use russh::keys::PublicKey;
use uuid::Uuid;

use super::ssh::{self, Client, SshError};
use super::{GuestNetwork, RelayKey};
use crate::image::seed::GuestUser;

/// One try; under software emulation a handshake alone takes seconds.
const TRY: Duration = Duration::from_secs(30);
const CONNECT: Duration = Duration::from_secs(3);
/// Most bytes of output that are read.
const MAX_OUTPUT: usize = 4096;
/// Where a Linux kernel publishes its boot id.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Ends our command's output.
const END: &str = "gpuaas-end";

/// A login that worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The boot id that the guest's kernel reports, in the right form.
    pub boot_id: Option<Uuid>,
}

/// Why a login did not work this time.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoginError {
    /// Nobody listens.
    #[error("no connection: {0}")]
    Connect(String),
    /// The protocol broke.
    #[error("the SSH session broke: {0}")]
    Session(String),
    /// The server proves itself with none of the guest's keys: it is not the guest.
    #[error("another SSH host key answers than the one that was made for the guest")]
    HostKey,
    /// The key is not accepted.
    #[error("the guest refuses the relay key")]
    Refused,
    /// The command did not answer as it must.
    #[error("the guest did not run the command")]
    NoCommand,
    /// It took too long.
    #[error("the login took too long")]
    TooSlow,
}

impl From<SshError> for LoginError {
    fn from(error: SshError) -> Self {
        match error {
            SshError::HostKey => Self::HostKey,
            SshError::Refused => Self::Refused,
            SshError::Session(error) => Self::Session(error.to_string()),
        }
    }
}

/// Whom to log in to, and as whom.
#[derive(Debug, Clone, Copy)]
pub struct Account<'a> {
    /// Where the guest should be.
    pub server: SocketAddr,
    /// The keys that were made for the guest; who shows none of them is not the guest.
    pub host_keys: &'a [PublicKey],
    pub user: &'a GuestUser,
}

/// Logs in once and runs a command that must echo `nonce`, and may add the boot id, all within `limit`.
pub async fn log_in(
    network: &dyn GuestNetwork,
    account: Account<'_>,
    key: &RelayKey,
    nonce: &str,
    limit: Duration,
) -> Result<Login, LoginError> {
    tokio::time::timeout(limit.min(TRY), attempt(network, account, key, nonce))
        .await
        .map_err(|_| LoginError::TooSlow)?
}

/// A session with the guest, logged in.
pub(super) async fn connect(
    network: &dyn GuestNetwork,
    account: Account<'_>,
    key: &RelayKey,
    config: client::Config,
) -> Result<Handle<Client>, LoginError> {
    let Account {
        server,
        host_keys,
        user,
    } = account;
    let stream = tokio::time::timeout(CONNECT, network.connect(server))
        .await
        .map_err(|_| LoginError::Connect("no answer".to_owned()))?
        .map_err(|error| LoginError::Connect(error.to_string()))?;
    Ok(ssh::open(stream, host_keys, user, key, config).await?)
}

async fn attempt(
    network: &dyn GuestNetwork,
    account: Account<'_>,
    key: &RelayKey,
    nonce: &str,
) -> Result<Login, LoginError> {
    let config = client::Config {
        window_size: 64 << 10,
        maximum_packet_size: 32 << 10,
        channel_buffer_size: 8,
        inactivity_timeout: Some(TRY),
        ..client::Config::default()
    };
    let broke = |error: russh::Error| LoginError::Session(error.to_string());
    let session = connect(network, account, key, config).await?;
    let mut channel = session.channel_open_session().await.map_err(broke)?;
    channel
        .exec(true, format!("echo {nonce} $(cat {BOOT_ID}) {END}"))
        .await
        .map_err(broke)?;
    let mut output = Vec::new();
    let mut status = None;
    while let Some(message) = channel.wait().await {
        match message {
            ChannelMsg::Data { data } if output.len() < MAX_OUTPUT => {
                output.extend_from_slice(&data[..data.len().min(MAX_OUTPUT - output.len())]);
            }
            ChannelMsg::ExitStatus { exit_status } => status = Some(exit_status),
            ChannelMsg::Close => break,
            _ => {}
        }
        if status.is_some() && contains(&output, END) {
            break;
        }
    }
    // The guest is free to ignore our goodbye.
    let _ = session
        .disconnect(russh::Disconnect::ByApplication, "", "")
        .await;
    if status == Some(0) && contains(&output, nonce) {
        Ok(Login {
            boot_id: boot_id(&output, nonce),
        })
    } else {
        Err(LoginError::NoCommand)
    }
}

/// The text after the nonce, if it is a UUID.
pub(crate) fn boot_id(output: &[u8], nonce: &str) -> Option<Uuid> {
    let text = String::from_utf8_lossy(output);
    let mut words = text.split_whitespace().skip_while(|word| *word != nonce);
    words.nth(1)?.parse().ok()
}

fn contains(output: &[u8], nonce: &str) -> bool {
    output
        .windows(nonce.len())
        .any(|window| window == nonce.as_bytes())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::guest::Bridge;

    const PIN: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAmxc03cp2l5BJE4mlJolCBwbNYywLgRgatR5QrcvVSv";

    fn pins() -> Vec<PublicKey> {
        crate::guest::host_key::parse_pins([PIN]).unwrap()
    }

    /// Logs into a server that sends this and then only listens.
    async fn against(first: &'static [u8], flood: bool) -> LoginError {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(first).await.unwrap();
            while flood && stream.write_all(&[b'x'; 4096]).await.is_ok() {}
            std::future::pending::<()>().await;
        });
        let dir = tempfile::tempdir().unwrap();
        let key = RelayKey::load_or_create(&dir.path().join("id_ed25519")).unwrap();
        let user = "u_adda9308def04a2f".parse().unwrap();
        let outcome = log_in(
            &Bridge,
            Account {
                server: address,
                host_keys: &pins(),
                user: &user,
            },
            &key,
            "nonce",
            Duration::from_secs(1),
        )
        .await;
        server.abort();
        outcome.unwrap_err()
    }

    #[test]
    fn the_boot_id_is_the_uuid_after_the_nonce_or_nothing() {
        let boot = "0f3a1c9e-53a5-4a08-9c55-0d1e2f3a4b5c";
        let read = |text: &str| boot_id(text.as_bytes(), "nonce");
        assert_eq!(
            read(&format!("Welcome!\nnonce {boot} gpuaas-end\n")),
            boot.parse().ok()
        );
        for output in [
            "nonce gpuaas-end",
            "nonce not-a-uuid gpuaas-end",
            "nonce",
            "",
        ] {
            assert_eq!(read(output), None, "{output}");
        }
    }

    #[tokio::test]
    async fn d_66_a_banner_is_no_login() {
        assert!(matches!(
            against(b"SSH-2.0-dropbear_2022.83\r\n", false).await,
            LoginError::TooSlow
        ));
    }

    #[tokio::test]
    async fn d_66_a_guest_that_floods_or_is_silent_is_given_up() {
        assert!(matches!(against(b"", false).await, LoginError::TooSlow));
        let flooded = against(b"SSH-2.0-x\r\n", true).await;
        assert!(
            matches!(flooded, LoginError::Session(_) | LoginError::TooSlow),
            "{flooded:?}"
        );
        let garbage = against(b"HTTP/1.1 200 OK\r\n\r\n", true).await;
        assert!(
            matches!(garbage, LoginError::Session(_) | LoginError::TooSlow),
            "{garbage:?}"
        );
    }

    #[tokio::test]
    async fn nobody_there_is_told_as_such() {
        // no program of another test is ever given this port
        let address = "127.0.0.1:1".parse().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let key = RelayKey::load_or_create(&dir.path().join("id_ed25519")).unwrap();
        let user = "u_adda9308def04a2f".parse().unwrap();
        let outcome = log_in(
            &Bridge,
            Account {
                server: address,
                host_keys: &pins(),
                user: &user,
            },
            &key,
            "nonce",
            Duration::from_secs(5),
        )
        .await;
        assert!(matches!(outcome, Err(LoginError::Connect(_))));
    }
}
