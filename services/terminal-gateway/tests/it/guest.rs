//! A guest: an SSH server with a small shell, and the ways in which it can misbehave.
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use russh::keys::{Algorithm, PrivateKey, PublicKey};
use russh::server::{self, Auth, ChannelOpenHandle, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, ChannelMsg, Pty};
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// How a guest behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Well,
    /// Accepts the connection and says nothing.
    Silent,
    /// Says something that is not SSH.
    Garbage,
    /// Sends lines before its version for ever.
    EndlessBanner,
    /// Closes at once.
    Closes,
    /// Has another host key than recorded.
    OtherHostKey,
    /// Refuses the relay key.
    RefusesKey,
    RefusesTerminal,
    RefusesShell,
    /// Closes the channel instead of giving a shell.
    ClosesChannel,
    /// Opens channels to its host all the time.
    OpensChannels,
    /// Sends output before it is asked to.
    TalksEarly,
    /// Sends output as standard error.
    TalksOnStderr,
    /// Says the shell ended and never closes.
    NeverCloses,
    /// Drops the connection in the middle of output.
    Drops,
}

/// What a guest saw.
#[derive(Debug, Default)]
pub struct GuestLog {
    pub users: Mutex<Vec<String>>,
    pub sizes: Mutex<Vec<(u32, u32)>>,
    pub term: Mutex<String>,
    /// Shells that run.
    pub shells: AtomicUsize,
    /// Channels to its host that were accepted.
    pub channels: AtomicUsize,
    /// Bytes of output that left the shell.
    pub produced: AtomicU64,
}

/// A guest that runs.
pub struct Guest {
    pub address: SocketAddr,
    /// The key it is known by.
    pub host_key: String,
    pub seen: Arc<GuestLog>,
}

fn key() -> PrivateKey {
    PrivateKey::random(&mut russh::keys::key::safe_rng(), Algorithm::Ed25519).expect("key")
}

impl Guest {
    /// A guest that lets this key in.
    pub async fn start(manner: Manner, relay: &str) -> Self {
        let (own, recorded) = (key(), key());
        let shown = if manner == Manner::OtherHostKey {
            &own
        } else {
            &recorded
        };
        let config = Arc::new(server::Config {
            keys: vec![shown.clone()],
            auth_rejection_time: Duration::from_millis(10),
            auth_rejection_time_initial: Some(Duration::ZERO),
            nodelay: true,
            ..server::Config::default()
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let address = listener.local_addr().expect("address");
        let seen = Arc::new(GuestLog::default());
        let relay = PublicKey::from_openssh(relay).expect("relay key");
        let shared = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(
                    manner,
                    config.clone(),
                    stream,
                    relay.clone(),
                    shared.clone(),
                ));
            }
        });
        let host_key = recorded.public_key().to_openssh().expect("line");
        Self {
            address,
            host_key,
            seen,
        }
    }
}

async fn connection(
    manner: Manner,
    config: Arc<server::Config>,
    mut stream: TcpStream,
    relay: PublicKey,
    seen: Arc<GuestLog>,
) {
    match manner {
        Manner::Silent => {
            let _ = stream.read(&mut [0; 1]).await;
            std::future::pending::<()>().await;
        }
        Manner::Garbage => {
            let _ = stream.write_all(&[0xff; 4096]).await;
            std::future::pending::<()>().await;
        }
        Manner::EndlessBanner => {
            while stream
                .write_all(b"please wait a little longer\r\n")
                .await
                .is_ok()
            {}
        }
        Manner::Closes => {}
        _ => {
            let shell = Shell {
                manner,
                relay,
                seen,
                channel: None,
            };
            if let Ok(running) = server::run_stream(config, stream, shell).await {
                let _ = running.await;
            }
        }
    }
}

struct Shell {
    manner: Manner,
    relay: PublicKey,
    seen: Arc<GuestLog>,
    channel: Option<Channel<Msg>>,
}

impl server::Handler for Shell {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        self.seen.users.lock().expect("lock").push(user.to_owned());
        let known = key.public_key.key_data() == self.relay.key_data();
        Ok(if known && self.manner != Manner::RefusesKey {
            Auth::Accept
        } else {
            Auth::reject()
        })
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channel = Some(channel);
        reply.accept().await;
        Ok(())
    }

    async fn pty_request(
        &mut self,
        id: ChannelId,
        term: &str,
        cols: u32,
        rows: u32,
        _: u32,
        _: u32,
        _: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        *self.seen.term.lock().expect("lock") = term.to_owned();
        self.seen.sizes.lock().expect("lock").push((cols, rows));
        match self.manner {
            Manner::RefusesTerminal => session.channel_failure(id),
            Manner::ClosesChannel => session.close(id),
            Manner::TalksEarly => {
                session.data(id, "early ")?;
                session.channel_success(id)
            }
            _ => session.channel_success(id),
        }
    }

    async fn shell_request(
        &mut self,
        id: ChannelId,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        if self.manner == Manner::RefusesShell {
            return session.channel_failure(id);
        }
        session.channel_success(id)?;
        if let Some(channel) = self.channel.take() {
            tokio::spawn(shell(
                self.manner,
                channel,
                session.handle(),
                self.seen.clone(),
            ));
        }
        Ok(())
    }
}

/// Counts while it lives.
struct Running(Arc<GuestLog>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.shells.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn shell(manner: Manner, channel: Channel<Msg>, handle: server::Handle, seen: Arc<GuestLog>) {
    let id = channel.id();
    seen.shells.fetch_add(1, Ordering::SeqCst);
    let _running = Running(seen.clone());
    let (mut read, write) = channel.split();
    let mut out: Box<dyn AsyncWrite + Send + Unpin> = match manner {
        Manner::TalksOnStderr => Box::new(write.make_writer_ext(Some(1))),
        _ => Box::new(write.make_writer()),
    };
    if manner == Manner::OpensChannels {
        let (handle, seen) = (handle.clone(), seen.clone());
        tokio::spawn(async move {
            for _ in 0..200 {
                let requested = [
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
                seen.channels.fetch_add(
                    requested.into_iter().filter(|ok| *ok).count(),
                    Ordering::SeqCst,
                );
            }
        });
    }
    let mut line = Vec::new();
    let _ = out.write_all(b"$ ").await;
    // a shell that is stuck in its own output notices when its terminal is gone
    let (typed, mut input) = tokio::sync::mpsc::unbounded_channel();
    let watch = seen.clone();
    let reading = async move {
        while let Some(message) = read.wait().await {
            match message {
                ChannelMsg::Data { data } => drop(typed.send(data)),
                ChannelMsg::WindowChange {
                    col_width,
                    row_height,
                    ..
                } => {
                    watch
                        .sizes
                        .lock()
                        .expect("lock")
                        .push((col_width, row_height));
                }
                ChannelMsg::Close => break,
                _ => {}
            }
        }
    };
    let running = async {
        while let Some(data) = input.recv().await {
            for byte in data {
                line.push(byte);
                if byte != b'\n' {
                    continue;
                }
                let command = String::from_utf8_lossy(&line).trim().to_owned();
                line.clear();
                if !obey(manner, &command, &mut out, &handle, id, &seen).await {
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = running => {}
    }
}

/// Runs a command; false ends the shell.
async fn obey(
    manner: Manner,
    command: &str,
    out: &mut (dyn AsyncWrite + Send + Unpin),
    handle: &server::Handle,
    id: ChannelId,
    seen: &GuestLog,
) -> bool {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["exit", status] => {
            let _ = handle
                .exit_status_request(id, status.parse().expect("a number"))
                .await;
            let _ = handle.eof(id).await;
            if manner == Manner::NeverCloses {
                std::future::pending::<()>().await;
            }
            let _ = handle.close(id).await;
            return false;
        }
        // output whose every byte tells its offset
        ["flood", length] => {
            let length: u64 = length.parse().expect("a number");
            let mut at = 0;
            while at < length {
                let piece: Vec<u8> = (at..length.min(at + 16_384)).map(pattern).collect();
                if out.write_all(&piece).await.is_err() {
                    return false;
                }
                at += piece.len() as u64;
                seen.produced.store(at, Ordering::SeqCst);
                if manner == Manner::Drops && at > 100_000 {
                    let _ = handle
                        .disconnect(
                            russh::Disconnect::ByApplication,
                            String::new(),
                            String::new(),
                        )
                        .await;
                }
            }
        }
        ["raw"] => drop(out.write_all(&(0..=255).collect::<Vec<u8>>()).await),
        _ => {
            let _ = out.write_all(format!("<{command}>\r\n$ ").as_bytes()).await;
        }
    }
    true
}

/// The byte at an offset of a flood.
pub fn pattern(offset: u64) -> u8 {
    (offset % 253) as u8
}
