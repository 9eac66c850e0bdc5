//! A command of the platform in a guest, its exit status and its output.
//!
//! The tenant controls the server at the other end: time and output are bounded, and the output is only ever text.
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use russh::client::{self, Msg};
use russh::{Channel, ChannelMsg};
use tokio::io::AsyncReadExt as _;
use tokio_util::task::AbortOnDropHandle;

use super::login::{Account, LoginError, connect};
use super::network::Connection;
use super::ssh::Client;
use super::{GuestNetwork, RelayKey};

/// Most bytes of output that are read.
pub const MAX_OUTPUT: usize = 64 << 10;
/// Most bytes that a guest may send over one connection: the next command has another one.
const MAX_RECEIVED: u64 = 4 << 20;
/// A guest that is silent for three of these is gone; a command may be silent for longer.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// What a command gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// None: it ended without one, or was not read to its end.
    pub exit_status: Option<u32>,
    /// Standard output and standard error, as they came.
    pub output: Vec<u8>,
    /// There was more than [`MAX_OUTPUT`]: the rest was not read.
    pub cut: bool,
}

/// Logs in and runs `command` in the shell of the account, all within `limit`.
///
/// # Errors
/// [`LoginError`]: there is no answer.
pub async fn run(
    network: &dyn GuestNetwork,
    account: Account<'_>,
    key: &RelayKey,
    command: &str,
    limit: Duration,
) -> Result<Answer, LoginError> {
    tokio::time::timeout(limit, attempt(network, account, key, command))
        .await
        .map_err(|_| LoginError::TooSlow)?
}

async fn attempt(
    network: &dyn GuestNetwork,
    account: Account<'_>,
    key: &RelayKey,
    command: &str,
) -> Result<Answer, LoginError> {
    let session = open(network, account, key).await?;
    let answer = session.run(command).await?;
    // The guest is free to ignore our goodbye.
    let _ = session
        .handle
        .disconnect(russh::Disconnect::ByApplication, "", "")
        .await;
    Ok(answer)
}

/// A login that stays open. Its end is the end of the connection.
pub struct Session {
    handle: client::Handle<Client>,
    _way: Way,
}

/// What carries the bytes of a connection; dropped, it ends the connection.
type Way = Option<AbortOnDropHandle<()>>;

/// Connections that end with their owner, and after [`MAX_RECEIVED`]. russh's own task ends when its connection does, and not
/// when its handle is dropped: a guest that stalls in a handshake would hold it, and its descriptor, for ever.
struct Bounded<'a> {
    network: &'a dyn GuestNetwork,
    way: Mutex<Way>,
}

#[async_trait]
impl GuestNetwork for Bounded<'_> {
    async fn connect(&self, server: SocketAddr) -> io::Result<Box<dyn Connection>> {
        let guest = self.network.connect(server).await?;
        let (near, far) = tokio::io::duplex(MAX_OUTPUT);
        let carried = tokio::spawn(async move {
            let (from_guest, mut to_guest) = tokio::io::split(guest);
            let (mut from_us, mut to_us) = tokio::io::split(far);
            let mut from_guest = from_guest.take(MAX_RECEIVED);
            // the end of one direction is the end of both
            tokio::select! {
                _ = tokio::io::copy(&mut from_guest, &mut to_us) => {}
                _ = tokio::io::copy(&mut from_us, &mut to_guest) => {}
            }
        });
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        *way = Some(AbortOnDropHandle::new(carried));
        Ok(Box::new(near))
    }
}

/// Logs in. The caller bounds the time.
///
/// # Errors
/// [`LoginError`].
pub async fn open(
    network: &dyn GuestNetwork,
    account: Account<'_>,
    key: &RelayKey,
) -> Result<Session, LoginError> {
    let config = client::Config {
        keepalive_interval: Some(KEEPALIVE),
        keepalive_max: 3,
        ..client::Config::default()
    };
    let bounded = Bounded {
        network,
        way: Mutex::default(),
    };
    let handle = connect(&bounded, account, key, config).await?;
    let way = bounded.way.into_inner();
    Ok(Session {
        handle,
        _way: way.unwrap_or_else(PoisonError::into_inner),
    })
}

impl Session {
    /// The guest, or the way to it, ended the connection.
    pub fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// Runs a command in the shell of the account. The caller bounds the time.
    ///
    /// # Errors
    /// [`LoginError`]: there is no answer.
    pub async fn run(&self, command: &str) -> Result<Answer, LoginError> {
        let broke = |error: russh::Error| LoginError::Session(error.to_string());
        let mut channel = self.handle.channel_open_session().await.map_err(broke)?;
        channel.exec(true, command).await.map_err(broke)?;
        read(&mut channel).await
    }
}

async fn read(channel: &mut Channel<Msg>) -> Result<Answer, LoginError> {
    let mut answer = Answer {
        exit_status: None,
        output: Vec::new(),
        cut: false,
    };
    let mut ended = false;
    while let Some(message) = channel.wait().await {
        match message {
            ChannelMsg::Data { data } | ChannelMsg::ExtendedData { data, .. } => {
                let free = MAX_OUTPUT - answer.output.len();
                answer.cut = data.len() > free;
                answer
                    .output
                    .extend_from_slice(&data[..data.len().min(free)]);
            }
            ChannelMsg::Failure => return Err(LoginError::NoCommand),
            ChannelMsg::ExitStatus { exit_status } => {
                answer.exit_status = Some(exit_status);
                ended = true;
            }
            ChannelMsg::ExitSignal { .. } => ended = true,
            ChannelMsg::Close => break,
            _ => {}
        }
        if answer.cut {
            break;
        }
    }
    if !ended && !answer.cut {
        return Err(LoginError::Session(
            "it ended before the command".to_owned(),
        ));
    }
    Ok(answer)
}
