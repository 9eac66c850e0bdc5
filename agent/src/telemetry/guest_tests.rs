//! Guests that answer, that do not, and that answer too much: each a real SSH server.
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use gpuaas_dev::until::until;
use russh::keys::{Algorithm, PrivateKey};
use russh::server::{self, Auth, ChannelOpenHandle, Msg, VerifiedPublicKey};
use russh::{Channel, ChannelId};

use super::*;
use crate::guest::network::Connection;
use crate::guest::{GuestNetwork, RelayKey};

const GOOD: &str =
    "MemTotal: 4096 kB\nMemAvailable: 1024 kB\ngpuaas-gpus\n0, 35, 1024, 143771, 41, 120.53\n";

/// What a guest does when it is queried.
#[derive(Clone, Copy)]
enum Manner {
    Answers,
    /// Lets the host in and says nothing.
    Silent,
    /// Sends more than anybody reads, for ever.
    Floods,
    /// Answers, and ends the connection.
    HangsUp,
    /// Refuses the key.
    Refuses,
}

struct Server {
    manner: Manner,
}

impl server::Handler for Server {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        _: &str,
        _: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(match self.manner {
            Manner::Refuses => Auth::reject(),
            _ => Auth::Accept,
        })
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut server::Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut server::Session,
    ) -> Result<(), Self::Error> {
        assert_eq!(command, COMMAND.as_bytes());
        session.channel_success(id)?;
        match self.manner {
            Manner::Silent => return Ok(()),
            Manner::Floods => {
                let handle = session.handle();
                tokio::spawn(
                    async move { while handle.data(id, vec![b'x'; 4096]).await.is_ok() {} },
                );
                return Ok(());
            }
            Manner::Answers | Manner::HangsUp | Manner::Refuses => {}
        }
        session.data(id, GOOD)?;
        session.exit_status_request(id, 0)?;
        session.close(id)?;
        if matches!(self.manner, Manner::HangsUp) {
            session.disconnect(russh::Disconnect::ByApplication, "", "")?;
        }
        Ok(())
    }
}

/// A guest, and how often it was connected to.
struct Played {
    manner: Manner,
    key: PrivateKey,
    logins: AtomicUsize,
    /// Connections that have ended, as the guest sees it.
    ended: Arc<AtomicUsize>,
}

#[async_trait]
impl GuestNetwork for Played {
    async fn connect(&self, _: SocketAddr) -> io::Result<Box<dyn Connection>> {
        self.logins.fetch_add(1, Ordering::Relaxed);
        let (near, far) = tokio::io::duplex(64 << 10);
        let config = Arc::new(server::Config {
            keys: vec![self.key.clone()],
            auth_rejection_time: Duration::ZERO,
            ..server::Config::default()
        });
        let (manner, ended) = (self.manner, Arc::clone(&self.ended));
        tokio::spawn(async move {
            if let Ok(session) = server::run_stream(config, far, Server { manner }).await {
                let _ended = session.await;
            }
            ended.fetch_add(1, Ordering::Relaxed);
        });
        Ok(Box::new(near))
    }
}

/// Queries a guest of this manner twice; returns what came of it and how often it was logged in to.
async fn twice(manner: Manner) -> (Vec<GuestMetricsState>, usize) {
    let made = PrivateKey::random(&mut russh::keys::key::safe_rng(), Algorithm::Ed25519);
    let guest = Played {
        manner,
        key: made.unwrap(),
        logins: AtomicUsize::new(0),
        ended: Arc::default(),
    };
    let dir = tempfile::tempdir().unwrap();
    let relay = RelayKey::load_or_create(&dir.path().join("id_ed25519")).unwrap();
    let user: GuestUser = "u_adda9308def04a2f".parse().unwrap();
    let host_keys = [guest.key.public_key().clone()];
    let account = Account {
        server: ([127, 0, 0, 1], 22).into(),
        host_keys: &host_keys,
        user: &user,
    };
    let log_in = || async {
        let opened = open(&guest, account, &relay).await;
        opened.map_err(|error| state(&error))
    };
    let mut queried = Guest {
        limit: match manner {
            Manner::Silent => Duration::from_millis(100),
            _ => ANSWER,
        },
        ..Guest::default()
    };
    let mut states = Vec::new();
    for _ in 0..2 {
        let answer = queried.query_over(log_in).await;
        let is_complete = answer.state == GuestMetricsState::Complete;
        assert_eq!(answer.values.len(), if is_complete { 2 + 5 } else { 0 });
        states.push(answer.state);
        if matches!(manner, Manner::HangsUp)
            && let Some(open) = &queried.session
        {
            until("the end of the connection", ANSWER, async || {
                open.is_closed().then_some(())
            })
            .await;
        }
    }
    drop(queried);
    let logins = guest.logins.load(Ordering::Relaxed);
    // nothing of a connection outlives who queried over it, whatever the guest does
    until("the end of every connection", ANSWER, async || {
        (guest.ended.load(Ordering::Relaxed) >= logins).then_some(())
    })
    .await;
    (states, logins)
}

#[tokio::test]
async fn d_90_a_guest_is_queried_over_one_login_until_it_ends_it() {
    let complete = vec![GuestMetricsState::Complete; 2];
    assert_eq!(twice(Manner::Answers).await, (complete.clone(), 1));
    assert_eq!(twice(Manner::HangsUp).await, (complete, 2));
}

#[tokio::test]
async fn d_90_a_guest_that_does_not_answer_in_time_is_left_and_logged_in_to_anew() {
    let slow = vec![GuestMetricsState::TooSlow; 2];
    assert_eq!(twice(Manner::Silent).await, (slow, 2));
}

#[tokio::test]
async fn d_90_a_guest_that_sends_without_end_is_left() {
    let malformed = vec![GuestMetricsState::Malformed; 2];
    assert_eq!(twice(Manner::Floods).await, (malformed, 2));
}

#[tokio::test]
async fn d_90_a_guest_that_refuses_the_key_is_told_apart_and_queried_again() {
    let refused = vec![GuestMetricsState::NoLogin; 2];
    assert_eq!(twice(Manner::Refuses).await, (refused, 2));
}
