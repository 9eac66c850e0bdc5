//! The one SSH client of a host, for its own logins and for its users' terminals.
//!
//! The tenant controls the server at the other end. It must show a key that was made for the guest, with the kind of key
//! that was made and not with whatever it prefers; every channel that it opens is refused.
use std::sync::Arc;

use russh::client::{self, ChannelOpenHandle, Handle, Handler, Msg, Session};
use russh::keys::{Algorithm, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate};
use russh::{AlgorithmKind, Channel, Preferred};
use tokio::io::{AsyncRead, AsyncWrite};

use super::RelayKey;
use crate::image::seed::GuestUser;

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum SshError {
    /// The server proves itself with none of the guest's keys: it is not the guest.
    #[error("another SSH host key answers than the one that was made for the guest")]
    HostKey,
    /// The relay key is not accepted.
    #[error("the guest refuses the relay key")]
    Refused,
    /// The protocol broke.
    #[error("the SSH session broke: {0}")]
    Session(#[from] russh::Error),
}

/// What answers a guest: it knows the guest's keys, and refuses whatever the guest opens.
#[derive(Debug)]
pub struct Client {
    host_keys: Vec<PublicKey>,
}

/// Opens a session over `stream` and logs in with the relay key.
///
/// # Errors
/// [`SshError`].
pub async fn open(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host_keys: &[PublicKey],
    user: &GuestUser,
    key: &RelayKey,
    mut config: client::Config,
) -> Result<Handle<Client>, SshError> {
    let mut kinds: Vec<Algorithm> = host_keys.iter().map(PublicKey::algorithm).collect();
    kinds.dedup();
    config.preferred = Preferred {
        key: kinds.into(),
        ..Preferred::DEFAULT
    };
    let client = Client {
        host_keys: host_keys.to_vec(),
    };
    let mut session = client::connect_stream(Arc::new(config), stream, client)
        .await
        .map_err(|error| match error {
            russh::Error::UnknownKey
            | russh::Error::NoCommonAlgo {
                kind: AlgorithmKind::Key,
                ..
            } => SshError::HostKey,
            other => SshError::Session(other),
        })?;
    let signed = PrivateKeyWithHashAlg::new(key.private(), None);
    let authenticated = session
        .authenticate_publickey(user.as_str(), signed)
        .await?;
    if authenticated.success() {
        Ok(session)
    } else {
        Err(SshError::Refused)
    }
}

impl Handler for Client {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        shown: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = shown else {
            return Ok(false);
        };
        Ok(self
            .host_keys
            .iter()
            .any(|known| known.key_data() == key.key_data()))
    }

    // a guest has no business in its host: dropping the reply refuses the channel

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_session(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_x11(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use russh::keys::PrivateKey;
    use russh::server::{self, Auth, VerifiedPublicKey};
    use tokio::sync::oneshot;

    use super::*;

    /// A guest that opens channels to its host as soon as it has one, and says which were taken.
    struct Opener(Mutex<Option<oneshot::Sender<[bool; 4]>>>);

    impl server::Handler for Opener {
        type Error = russh::Error;

        async fn auth_publickey(
            &mut self,
            _: &str,
            _: VerifiedPublicKey<'_>,
        ) -> Result<Auth, Self::Error> {
            Ok(Auth::Accept)
        }

        async fn channel_open_session(
            &mut self,
            channel: Channel<server::Msg>,
            reply: server::ChannelOpenHandle,
            session: &mut server::Session,
        ) -> Result<(), Self::Error> {
            reply.accept().await;
            let handle = session.handle();
            let report = self.0.lock().unwrap().take();
            tokio::spawn(async move {
                let taken = [
                    handle
                        .channel_open_forwarded_tcpip("10.0.0.1", 22, "10.0.0.2", 1)
                        .await
                        .is_ok(),
                    handle.channel_open_agent().await.is_ok(),
                    handle.channel_open_session().await.is_ok(),
                    handle
                        .channel_open_direct_tcpip("127.0.0.1", 22, "127.0.0.1", 1)
                        .await
                        .is_ok(),
                ];
                let _heard = report.map(|report| report.send(taken));
                drop(channel);
            });
            Ok(())
        }
    }

    fn key() -> PrivateKey {
        let made = PrivateKey::random(&mut russh::keys::key::safe_rng(), Algorithm::Ed25519);
        made.unwrap()
    }

    async fn against(
        shown: PrivateKey,
        pinned: &PrivateKey,
    ) -> (
        Result<Handle<Client>, SshError>,
        oneshot::Receiver<[bool; 4]>,
    ) {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (report, taken) = oneshot::channel();
        let config = Arc::new(server::Config {
            keys: vec![shown],
            ..server::Config::default()
        });
        tokio::spawn(async move {
            let opener = Opener(Mutex::new(Some(report)));
            if let Ok(session) = server::run_stream(config, theirs, opener).await {
                let _ = session.await;
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let relay = RelayKey::load_or_create(&dir.path().join("id_ed25519")).unwrap();
        let user = "u_adda9308def04a2f".parse().unwrap();
        let pins = [pinned.public_key().clone()];
        let session = open(ours, &pins, &user, &relay, client::Config::default()).await;
        (session, taken)
    }

    #[tokio::test]
    async fn a_channel_that_the_guest_opens_is_refused() {
        let made = key();
        let (session, taken) = against(made.clone(), &made).await;
        let session = session.unwrap();
        let channel = session.channel_open_session().await.unwrap();
        assert_eq!(taken.await.unwrap(), [false; 4]);
        drop(channel);
    }

    #[tokio::test]
    async fn a_server_with_another_key_is_not_the_guest() {
        let (session, _) = against(key(), &key()).await;
        assert!(matches!(session, Err(SshError::HostKey)));
    }
}
