//! A guest's SSH server: it lets in whom its seed names, says which boot it is at, and answers any other command as the test says.

use std::sync::Arc;
use std::time::Duration;

use russh::keys::{Algorithm, PrivateKey};
use russh::server::{self, Auth, ChannelOpenHandle, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId};
use tokio::io::DuplexStream;
use uuid::Uuid;

use super::script::Director;

/// Where a guest's kernel says which boot this is, as a shell puts it into a command.
const BOOT_ID: &str = "$(cat /proc/sys/kernel/random/boot_id)";

/// A key that no host knows.
pub fn other_key() -> PrivateKey {
    PrivateKey::random(&mut russh::keys::key::safe_rng(), Algorithm::Ed25519).expect("a key")
}

/// The host key that a seed gives.
pub fn key_of(seed: &[u8]) -> Option<PrivateKey> {
    let text = String::from_utf8_lossy(seed);
    let (_, key) = text.split_once("  ed25519_private: |\n")?;
    let lines: Vec<&str> = key
        .lines()
        .map_while(|line| line.strip_prefix("    "))
        .collect();
    PrivateKey::from_openssh(lines.join("\n")).ok()
}

/// Serves one connection to the guest with this seed and key.
pub async fn serve(
    stream: DuplexStream,
    key: PrivateKey,
    seed: Vec<u8>,
    boot_id: Uuid,
    director: Director,
) {
    let config = server::Config {
        keys: vec![key],
        auth_rejection_time: Duration::from_millis(10),
        auth_rejection_time_initial: Some(Duration::ZERO),
        nodelay: true,
        ..server::Config::default()
    };
    let login = Login {
        seed,
        boot_id,
        director,
    };
    if let Ok(session) = server::run_stream(Arc::new(config), stream, login).await {
        // the host hangs up when it has what it wants
        let _ = session.await;
    }
}

struct Login {
    seed: Vec<u8>,
    boot_id: Uuid,
    director: Director,
}

impl Login {
    fn seed_has(&self, text: &str) -> bool {
        let text = text.as_bytes();
        self.seed.windows(text.len()).any(|window| window == text)
    }
}

impl server::Handler for Login {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        let line = key.public_key.to_openssh().unwrap_or_default();
        let known = self.seed_has(&format!("name: {user}\n")) && self.seed_has(line.trim());
        Ok(if known { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let command = String::from_utf8_lossy(command);
        let (status, said) = match command.strip_prefix("echo ") {
            Some(words) => {
                let said = words.replace(BOOT_ID, &self.boot_id.to_string());
                (0, format!("{said}\n"))
            }
            None => {
                let (status, said) = self.director.answer(&command);
                (status, said.to_owned())
            }
        };
        session.channel_success(id)?;
        session.data(id, said)?;
        session.exit_status_request(id, status)?;
        session.eof(id)?;
        session.close(id)
    }
}
